/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * joining.h - identifiers of librdmacm's that join multicast groups: what the tests of that have in common.
 *
 * Their channel, and the events on it, are those of ibpeer.h.
 */
#ifndef CHECK_JOINING_H
#define CHECK_JOINING_H

#include "check/support/ibpeer.h"

#define JOINING_HERE "127.0.0.1"

extern const char *const joining_groups[3]; /* of IPv4 */
extern int joining_contexts[3];             /* the user's of each, by its address */

/* Of datagrams, bound to this address, and any port; NULL: without a channel. */
struct rdma_cm_id *id_bound(struct rdma_event_channel *of, const char *text);
struct rdma_cm_id *id_with_qp(void); /* on the channel, and with a queue pair */

/* The call; to be a receiver. 0, or -1 and errno. */
int id_join(struct rdma_cm_id *id, int which);
int id_leave(struct rdma_cm_id *id, int which);
/* The next event tells of it. */
void id_told(struct rdma_cm_id *id, int which, enum rdma_cm_event_type type, int status);
/* The call, and the user is told that all is well. */
void id_joins(struct rdma_cm_id *id, int which);

int id_groups(const struct rdma_cm_id *id);  /* that its queue pair is in */
int id_sockets(const struct rdma_cm_id *id); /* of groups, that its device has */

/* The tests' program, alone on its host: each test has a channel. */
TCase *joining_case(Suite *suite, const char *name);
int joining_main(Suite *(*suite)(void));

#endif
