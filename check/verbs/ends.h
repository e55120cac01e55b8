/* SPDX-License-Identifier: BSD-2-Clause */
/* ends.h - identifiers of the connection manager for client and server, each with a separate event channel. */
#ifndef VERBS_ENDS_H
#define VERBS_ENDS_H

#include "rig.h"

#include <rdma/rdma_cma.h>

struct rdma_cm_id *cm_make_id(enum rdma_port_space ps);
struct rdma_cm_event *cm_next_event(struct rdma_cm_id *id);
const char *cm_event_name(const struct rdma_cm_event *event);
/* Listens on the device's address and a port that the kernel chooses. */
struct rdma_cm_id *cm_listen(struct rig *r, enum rdma_port_space ps);
void cm_make_qp(struct rdma_cm_id *id, enum ibv_qp_type type);
/* Resolves the address of the listener and a route to it. */
void cm_resolve(struct rdma_cm_id *id, struct rdma_cm_id *listener);
/* Returns an identifier with a route to the listener, and a queue pair. */
struct rdma_cm_id *cm_prepare(struct rdma_cm_id *listener, enum rdma_port_space ps);

#endif
