/* SPDX-License-Identifier: BSD-2-Clause */
/* ends.h - identifiers of the connection manager, each with a channel of its own: who asks and who is asked. */
#ifndef VERBS_ENDS_H
#define VERBS_ENDS_H

#include "rig.h"

#include <rdma/rdma_cma.h>

struct rdma_cm_id *cm_make_id(enum rdma_port_space ps);
struct rdma_cm_event *cm_next_event(struct rdma_cm_id *id);
const char *cm_event_name(const struct rdma_cm_event *event);
/* At the device's address; the port is the kernel's choice. */
struct rdma_cm_id *cm_listen(struct rig *r, enum rdma_port_space ps);
void cm_make_qp(struct rdma_cm_id *id, enum ibv_qp_type type);
/* It gets a route to the listener's address and port. */
void cm_resolve(struct rdma_cm_id *id, struct rdma_cm_id *listener);
/* With such a route, and a queue pair. */
struct rdma_cm_id *cm_prepare(struct rdma_cm_id *listener, enum rdma_port_space ps);

#endif
