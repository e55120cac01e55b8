/* SPDX-License-Identifier: BSD-2-Clause */
#include "ends.h"
#include "address.h"

#include <string.h>

#define RESOLVE_MS 10000

struct rdma_cm_id *cm_make_id(enum rdma_port_space ps)
{
    struct rdma_event_channel *channel = need(rdma_create_event_channel(), "rdma_create_event_channel");
    struct rdma_cm_id *id;

    must(rdma_create_id(channel, &id, NULL, ps), "rdma_create_id");
    return id;
}

struct rdma_cm_event *cm_next_event(struct rdma_cm_id *id)
{
    struct rdma_cm_event *event;

    must(rdma_get_cm_event(id->channel, &event), "rdma_get_cm_event");
    return event;
}

const char *cm_event_name(const struct rdma_cm_event *event)
{
    return rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_");
}

static void expect_resolved(struct rdma_cm_id *id)
{
    struct rdma_cm_event *event = cm_next_event(id);

    if (event->status != 0)
        give_up(cm_event_name(event), -event->status);
    must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

struct rdma_cm_id *cm_listen(struct rig *r, enum rdma_port_space ps)
{
    struct rdma_cm_id *id = cm_make_id(ps);
    union address own = own_address(r);

    must(rdma_bind_addr(id, &own.any), "rdma_bind_addr");
    must(rdma_listen(id, 4), "rdma_listen");
    return id;
}

void cm_make_qp(struct rdma_cm_id *id, enum ibv_qp_type type)
{
    struct ibv_pd *pd = need(ibv_alloc_pd(id->verbs), "ibv_alloc_pd");
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = type, .sq_sig_all = 1};

    must(rdma_create_qp(id, pd, &attr), "rdma_create_qp");
}

void cm_resolve(struct rdma_cm_id *id, struct rdma_cm_id *listener)
{
    must(rdma_resolve_addr(id, NULL, rdma_get_local_addr(listener), RESOLVE_MS), "rdma_resolve_addr");
    expect_resolved(id);
    must(rdma_resolve_route(id, RESOLVE_MS), "rdma_resolve_route");
    expect_resolved(id);
}

struct rdma_cm_id *cm_prepare(struct rdma_cm_id *listener, enum rdma_port_space ps)
{
    struct rdma_cm_id *id = cm_make_id(ps);

    cm_resolve(id, listener);
    cm_make_qp(id, ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC);
    return id;
}
