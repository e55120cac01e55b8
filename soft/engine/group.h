/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h - multicast groups: the queue pairs that receive datagrams sent to a multicast address.
 *
 * The context's link receives at a group's address as long as the group has members.
 */
#ifndef SOFT_GROUP_H
#define SOFT_GROUP_H

#include <sys/queue.h>
#include "qp.h"
#include "wire.h"

struct soft_packet;

#define SOFT_MAX_GROUPS 16      /* maximum groups of a context */
#define SOFT_MAX_GROUP_QPS 1024 /* maximum members of a group */

/* A queue pair's membership. */
struct soft_member {
    struct soft_qp *qp;
    struct soft_group *group;
    LIST_ENTRY(soft_member) of_group;
};

/* A group with at least one member. Owned by the context, and guarded by its lock. */
struct soft_group {
    union soft_addr address; /* without a port */
    unsigned count;
    LIST_HEAD(, soft_member) members;
    LIST_ENTRY(soft_group) link;
};

/* All functions are called with the context's lock. */

/* Makes the queue pair a member of the group, unless it is one already. 0 or an errno. */
int soft_group_attach(struct soft_qp *qp, const union soft_addr *address);
/* Ends a membership. 0, or EINVAL: the queue pair is not a member. */
int soft_group_detach(struct soft_qp *qp, const union soft_addr *address);
/* Delivers a datagram to all members that receive. */
void soft_group_input(struct soft_context *context, const struct soft_packet *packet,
                      const struct soft_path *path);

#endif
