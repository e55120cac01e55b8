/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h - the monotonic clock, which changes of the time of day do not affect. */
#ifndef TOOLS_CLOCK_H
#define TOOLS_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_SECOND UINT64_C(1000000000) /* in units of clock_now() */

/* Returns nanoseconds. */
static inline uint64_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

static inline double clock_seconds(void)
{
    return (double)clock_now() * 1e-9;
}

#endif
