/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h - the clock that the library goes by: nanoseconds that only go forward, whatever the time of day is
 * set to. A time of it is a uint64_t, and so is a length of time; neither wraps. */
#ifndef XS_CLOCK_H
#define XS_CLOCK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)
#define NEVER_NS UINT64_MAX /* a time that does not come, a length of time without end */

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* So long after `now`. */
static inline uint64_t ns_after(uint64_t now, uint64_t ns)
{
    return ns < NEVER_NS - now ? now + ns : NEVER_NS;
}

/* From `now` until `deadline`; 0: it is over. */
static inline uint64_t ns_left(uint64_t deadline, uint64_t now)
{
    return deadline == NEVER_NS ? NEVER_NS : deadline > now ? deadline - now : 0;
}

static inline struct timespec ns_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

/* As ppoll wants it, in `room`; NULL: without end. */
static inline const struct timespec *ns_limit(uint64_t ns, struct timespec *room)
{
    *room = ns_timespec(ns);
    return ns == NEVER_NS ? NULL : room;
}

/* As poll wants it: not before it is over, and looked at again where it is longer than poll can wait. */
static inline int ns_milliseconds(uint64_t ns)
{
    uint64_t milliseconds = ns / 1000000 + (ns % 1000000 != 0);

    return milliseconds < INT_MAX ? (int)milliseconds : INT_MAX;
}

/* What a program gives; false: that is no length of time. More than this clock will ever show is without end.
 */
static inline bool ns_timeval(const struct timeval *time, uint64_t *ns)
{
    if (time->tv_sec < 0 || time->tv_usec < 0 || time->tv_usec >= 1000000)
        return false;
    *ns = (uint64_t)time->tv_sec < NEVER_NS / NS_PER_S
              ? (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_usec * 1000
              : NEVER_NS;
    return true;
}

#endif
