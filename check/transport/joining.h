/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * joining.h - helpers of the tests of librdmacm's multicast: identifiers that join and leave groups.
 *
 * The identifiers use the event channel of ibpeer.h, and their events are read there.
 */
#ifndef CHECK_JOINING_H
#define CHECK_JOINING_H

#include "check/support/ibpeer.h"

#define JOINING_HERE "127.0.0.1"

extern const char *const joining_groups[3]; /* IPv4 multicast addresses */
extern int joining_contexts[3];             /* the user context of each join is the address of its element */

/* Returns an identifier of RDMA_PS_UDP on channel `of` that is bound to this address and any port. If `of` is NULL, its
 * calls are synchronous. */
struct rdma_cm_id *id_bound(struct rdma_event_channel *of, const char *text);
struct rdma_cm_id *id_with_qp(void); /* on the shared channel, with a queue pair */

/* rdma_join_multicast() and rdma_leave_multicast() of group number `which`. Return 0, or -1 and errno. */
int id_join(struct rdma_cm_id *id, int which);
int id_leave(struct rdma_cm_id *id, int which);
/* Expects the next event: this type and status, for this identifier and group. */
void id_told(struct rdma_cm_id *id, int which, enum rdma_cm_event_type type, int status);
/* Joins the group, and expects the event of success. */
void id_joins(struct rdma_cm_id *id, int which);

int id_groups(const struct rdma_cm_id *id);  /* number of groups that its queue pair is attached to */
int id_sockets(const struct rdma_cm_id *id); /* number of its device's sockets for groups */

/* The test program runs in a network namespace of its own; each test of the case has a new event channel. */
TCase *joining_case(Suite *suite, const char *name);
int joining_main(Suite *(*suite)(void));

#endif
