/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_pace.c - the measurement of shm_pace.h. */
#include "shm_pace.h"

#define ENOUGH 8 /* batches of each kind, so that other work of the CPU did not disturb all of them */
#define PATIENCE (UINT64_C(16) << 20) /* bytes (eight rings) until a measurement is given up */
#define FIRST (UINT64_C(8) << 20)     /* bytes before the first measurement, which allocate the pages */
#define REST (UINT64_C(256) << 20)    /* bytes between two measurements */
#define UNIT 65536                    /* bytes whose time is compared */

static void begin_compare(struct shm_pace *pace)
{
    *pace = (struct shm_pace){.warm = true,
                              .near = pace->near,
                              .near_before = pace->near,
                              .compares = true,
                              .least = {UINT64_MAX, UINT64_MAX},
                              .left = PATIENCE};
}

static void end_compare(struct shm_pace *pace, bool near)
{
    pace->near = near;
    pace->compares = false;
    pace->left = REST;
}

static void warm_up(struct shm_pace *pace)
{
    pace->warm = true;
    pace->left = FIRST;
}

bool shm_pace_begin(struct shm_pace *pace, size_t length)
{
    if (pace->left > length)
        pace->left -= length;
    else if (pace->compares)
        end_compare(pace, pace->near_before); /* no batches of the other kind arrive */
    else if (pace->warm)
        begin_compare(pace);
    else
        warm_up(pace);
    return pace->compares;
}

/* Near is preferred unless it takes more than 9/8 of the time: with it a file's bytes are copied once less. */
static bool is_near_better(const struct shm_pace *pace)
{
    return pace->least[true] / 9 <= pace->least[false] / 8;
}

void shm_pace_took(struct shm_pace *pace, bool near, size_t length, uint64_t ns)
{
    uint64_t took = ns / (length / 1024 + 1) * (UNIT / 1024);

    if (took < pace->least[near])
        pace->least[near] = took;
    pace->timed[near]++;
    if (pace->timed[false] >= ENOUGH && pace->timed[true] >= ENOUGH)
        end_compare(pace, is_near_better(pace));
    else if (pace->timed[pace->near_before] >= ENOUGH)
        pace->near = !pace->near_before;
}
