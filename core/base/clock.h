/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h - the library's clock: monotonic, in nanoseconds, not affected by changes of the time of day. Times and
 * durations are uint64_t, and these functions do not overflow. */
#ifndef XS_CLOCK_H
#define XS_CLOCK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)
#define NEVER_NS UINT64_MAX /* as a time: never reached; as a duration: infinite */

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Returns `now` + `ns`, at most NEVER_NS. */
static inline uint64_t ns_after(uint64_t now, uint64_t ns)
{
    return ns < NEVER_NS - now ? now + ns : NEVER_NS;
}

/* Returns the time from `now` to `deadline`; 0 if that has passed. */
static inline uint64_t ns_left(uint64_t deadline, uint64_t now)
{
    return deadline == NEVER_NS ? NEVER_NS : deadline > now ? deadline - now : 0;
}

static inline struct timespec ns_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

/* Returns a timeout for ppoll(), stored in `room`; NULL if it is infinite. */
static inline const struct timespec *ns_limit(uint64_t ns, struct timespec *room)
{
    *room = ns_timespec(ns);
    return ns == NEVER_NS ? NULL : room;
}

/* Returns a timeout for poll() in milliseconds, rounded up. It is INT_MAX at most, so poll() may return before a long
 * duration has passed, and the caller must check the clock. */
static inline int ns_milliseconds(uint64_t ns)
{
    uint64_t milliseconds = ns / 1000000 + (ns % 1000000 != 0);

    return milliseconds < INT_MAX ? (int)milliseconds : INT_MAX;
}

/* Converts a timeval of the application to ns. Returns false if it is not valid. A duration that does not fit into 64
 * bits becomes NEVER_NS. */
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
