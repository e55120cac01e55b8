/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h - multicast groups: which queue pairs get what is sent to an address of many.
 *
 * A context's link listens at a group's address from its first queue pair to its last.
 */
#ifndef SOFT_GROUP_H
#define SOFT_GROUP_H

#include <stdbool.h>
#include <sys/queue.h>
#include "qp.h"
#include "wire.h"

struct soft_packet;

#define SOFT_MAX_GROUPS 16      /* of a context */
#define SOFT_MAX_GROUP_QPS 1024 /* of a group */

/* A queue pair's membership. */
struct soft_member {
    struct soft_qp *qp;
    struct soft_group *group;
    LIST_ENTRY(soft_member) of_group;
};

/* The context's; guarded by its lock. */
struct soft_group {
    union soft_addr address; /* without a port */
    unsigned count;
    LIST_HEAD(, soft_member) members;
    LIST_ENTRY(soft_group) link;
};

/* Once is enough. 0 or an errno. (locked, as all of these) */
int soft_group_attach(struct soft_qp *qp, const union soft_addr *address);
/* EINVAL: it isn't a member. */
int soft_group_detach(struct soft_qp *qp, const union soft_addr *address);
/* To all members that take it. */
void soft_group_input(struct soft_context *context, const struct soft_packet *packet,
                      const struct soft_path *path);

#endif
