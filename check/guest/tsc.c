/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsc - prints how fast this processor's time stamp counter counts, in kHz. `run` builds it for itself.
 *
 * A guest's kernel that finds it out by itself, against timers that QEMU plays on a busy machine, can be wrong
 * by a factor of ten.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define SPAN_NS INT64_C(100000000)
#define TRIES 50

static int64_t nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

struct moment {
    int64_t ns, ticks;
};

/* Both at once: of some tries the one in which nothing came between. */
static struct moment both(void)
{
    struct moment best = {0};
    int64_t least = INT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        int64_t before = nanoseconds();
        int64_t ticks = (int64_t)__rdtsc();
        int64_t after = nanoseconds();

        if (after - before < least) {
            least = after - before;
            best = (struct moment){.ns = before + least / 2, .ticks = ticks};
        }
    }
    return best;
}

int main(void)
{
    struct moment first = both(), last;

    do {
        last = both();
    } while (last.ns - first.ns < SPAN_NS);
    printf("%.0f\n", (double)(last.ticks - first.ticks) * 1e6 / (double)(last.ns - first.ns));
    return 0;
}
