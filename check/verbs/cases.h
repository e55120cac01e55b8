/* SPDX-License-Identifier: BSD-2-Clause */
/* cases.h - the tests of verbs on any device. Each case tests one error or property of a verb.
 *
 * A case is a function that executes verbs and prints the results as words on one line. It does not know the correct
 * results: table.md has them. Each case runs in a process of its own, so it need not clean up. */
#ifndef VERBS_CASES_H
#define VERBS_CASES_H

#include "rig.h"

struct verbs_case {
    const char *name;
    void (*run)(struct rig *r);
};

/* Each array is terminated by a case without a name. */
extern const struct verbs_case ordinary_cases[], local_cases[], remote_cases[], receive_cases[],
    datagram_cases[], post_cases[], state_cases[], flush_cases[], cq_cases[], srq_cases[], memory_cases[],
    create_cases[], destroy_cases[], handle_cases[], window_cases[], rereg_cases[], cm_cases[], sidr_cases[],
    xrc_cases[], mcast_cases[], on_demand_cases[], endpoint_cases[], ending_cases[];

#endif
