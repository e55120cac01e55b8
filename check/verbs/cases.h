/* SPDX-License-Identifier: BSD-2-Clause */
/* cases.h - what a verb answers, case by case, on whatever device there is.
 *
 * A case is a function that does one thing which may go wrong and says, in words of one line, what came of it.
 * It knows nothing of what is right: that is in table.md. It runs in a process of its own, so it may break
 * anything. */
#ifndef VERBS_CASES_H
#define VERBS_CASES_H

#include "rig.h"

struct verbs_case {
    const char *name;
    void (*run)(struct rig *r);
};

/* Each ends with one without a name. */
extern const struct verbs_case ordinary_cases[], local_cases[], remote_cases[], receive_cases[],
    datagram_cases[], post_cases[], state_cases[], flush_cases[], cq_cases[], srq_cases[], memory_cases[],
    create_cases[], destroy_cases[], handle_cases[], window_cases[], rereg_cases[], cm_cases[], sidr_cases[],
    xrc_cases[], mcast_cases[], on_demand_cases[], endpoint_cases[], ending_cases[];

#endif
