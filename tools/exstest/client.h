/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h - the client's side of the tests Q (quit), T (transactions) and P (performance). */
#ifndef EXSTEST_CLIENT_H
#define EXSTEST_CLIENT_H

#include <exs.h>
#include "figures.h"
#include "options.h"

struct outcome {
    bool passed;
    uint64_t elapsed; /* ns of the slowest thread */
    uint64_t mismatches, mismatches_there;
    exs_stats_t counted;    /* the library's counters, summed over all queues */
    struct figures figures; /* of a performance test; the caller frees its latency */
};

/* Runs the test to its end, and prints errors. */
struct outcome client_run(const struct options *options);

#endif
