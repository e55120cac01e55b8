/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h - the client's side of the tests Q, T and P. */
#ifndef EXSTEST_CLIENT_H
#define EXSTEST_CLIENT_H

#include <exs.h>
#include "figures.h"
#include "options.h"

struct outcome {
    bool passed;
    uint64_t elapsed; /* ns, of the thread that took longest */
    uint64_t mismatches, mismatches_there;
    exs_stats_t counted;    /* by the library, on all queues */
    struct figures figures; /* of a performance test; its latency is freed by the caller */
};

/* Run the test to its end; what went wrong was complained about. */
struct outcome client_run(const struct options *options);

#endif
