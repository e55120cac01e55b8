/* SPDX-License-Identifier: BSD-2-Clause */
/* own_clock.c - see own_clock.h. */
#include "own_clock.h"

#include <dlfcn.h>
#include <time.h>

#define LOOK_NS 1000 /* that one reading of the clock takes */

_Thread_local bool own_clock;
_Thread_local long long own_leap;

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now)
{
    static _Thread_local long long ns; /* 0: this thread has not read the clock yet */
    int (*next)(clockid_t, struct timespec *);

    *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    if (id != CLOCK_MONOTONIC || !own_clock)
        return next(id, now);
    if (ns == 0 && next(id, now) == 0)
        ns = now->tv_sec * 1000000000LL + now->tv_nsec;
    ns += LOOK_NS + own_leap;
    own_leap = 0;
    *now = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}
