/* SPDX-License-Identifier: BSD-2-Clause */
/* figures.h - the results of a performance test. Times are in nanoseconds. */
#ifndef EXSTEST_FIGURES_H
#define EXSTEST_FIGURES_H

#include <stdint.h>
#include <sys/resource.h>
#include "tools/common/clock.h"

struct figures {       /* owned by the client; filled by its one connection */
    uint64_t elapsed;  /* duration of the throughput phase */
    uint64_t cpu;      /* CPU time of this process in that phase, user and system */
    uint64_t posting;  /* time in the calls that start operations */
    uint32_t *latency; /* of single operations; LATENCIES_MAX entries */
    uint32_t latencies;
    char device[64];
};

static inline uint64_t cpu_now(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * CLOCK_SECOND +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

#endif
