/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_sync.c - synchronous identifiers, which are created without an event channel, and endpoints: their calls block
 * until the operation has ended.
 *
 * A synchronous identifier has a private channel. Its last event is kept, so that the application can read the private
 * data, until the next event or until the identifier is destroyed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cm_id.h"

#define TIMEOUT_MS 2000 /* timeout of resolving, as in librdmacm; not used here */

static void forget_event(struct rdma_cm_id *public)
{
    if (public->event != NULL)
        soft_ack_cm_event(public->event);
    public->event = NULL;
}

/* Converts an event's status to an errno; InfiniBand's reasons are positive. */
static int status_errno(const struct rdma_cm_event *event)
{
    if (event->event == RDMA_CM_EVENT_REJECTED ||
        (event->event == RDMA_CM_EVENT_UNREACHABLE && event->status > 0))
        return ECONNREFUSED;
    return event->status < 0 ? -event->status : event->status;
}

int cm_complete(struct cm_id *id, int result)
{
    struct rdma_cm_id *public = &id->public;

    if (result == -1 || !id->sync)
        return result;
    forget_event(public);
    if (soft_get_cm_event(public->channel, &public->event) == -1)
        return -1;
    return cm_result(status_errno(public->event));
}

/* ---- Endpoints ---- */

/* Copies the private data of the rdma_addrinfo, which the application may free. */
static int keep_connect(struct cm_id *id, const struct rdma_addrinfo *res)
{
    if (res->ai_connect_len == 0)
        return 0;
    if (res->ai_connect == NULL)
        return cm_result(EINVAL);
    id->connect = malloc(res->ai_connect_len);
    if (id->connect == NULL)
        return -1;
    memcpy(id->connect, res->ai_connect, res->ai_connect_len);
    id->connect_length = res->ai_connect_len;
    return 0;
}

static int prepare_active(struct rdma_cm_id *public, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                          struct ibv_qp_init_attr *attr)
{
    if (soft_resolve_addr(public, res->ai_src_addr, res->ai_dst_addr, TIMEOUT_MS) == -1 ||
        soft_resolve_route(public, TIMEOUT_MS) == -1 || keep_connect(cm_id_of(public), res) == -1)
        return -1;
    if (attr == NULL)
        return 0;
    attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    return soft_create_id_qp(public, pd, attr);
}

/* A queue pair is created for each connection request. */
static int prepare_passive(struct rdma_cm_id *public, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                           const struct ibv_qp_init_attr *attr)
{
    struct cm_id *id = cm_id_of(public);

    if (soft_bind_addr(public, res->ai_src_addr) == -1)
        return -1;
    if (pd != NULL)
    public->pd = pd;
    if (attr == NULL)
        return 0;
    id->endpoint = malloc(sizeof *id->endpoint);
    if (id->endpoint == NULL)
        return -1;
    *id->endpoint = *attr;
    id->endpoint->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    return 0;
}

int soft_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
                   struct ibv_qp_init_attr *attr)
{
    struct rdma_cm_id *public;
    int error;

    if (soft_create_id(NULL, &public, NULL, (enum rdma_port_space)res->ai_port_space) == -1)
        return -1;
    public->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    if ((res->ai_flags & RAI_PASSIVE) != 0 ? prepare_passive(public, res, pd, attr) == 0
                                           : prepare_active(public, res, pd, attr) == 0) {
        *out = public;
        return 0;
    }
    error = errno;
    soft_destroy_ep(public);
    errno = error;
    return -1;
}

void soft_destroy_ep(struct rdma_cm_id *public)
{
    soft_destroy_id_qp(public);
    soft_destroy_id_srq(public);
    soft_destroy_id(public);
}

/* Gives the caller the identifier of a request, with a queue pair if the endpoint has attributes for it. */
static int take_request(struct rdma_cm_id *listener, struct rdma_cm_event *event)
{
    const struct ibv_qp_init_attr *endpoint = cm_id_of(listener)->endpoint;
    struct ibv_qp_init_attr attr;

    if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
        return cm_result(EINVAL);
    if (soft_migrate_id(event->id, NULL) == -1)
        return -1;
    if (endpoint == NULL)
        return 0;
    attr = *endpoint;
    return soft_create_id_qp(event->id, listener->pd, &attr);
}

int soft_get_request(struct rdma_cm_id *listener, struct rdma_cm_id **id)
{
    struct rdma_cm_event *event;
    int error;

    if (!cm_id_of(listener)->sync)
        return cm_result(EINVAL);
    forget_event(listener);
    if (soft_get_cm_event(listener->channel, &event) == -1)
        return -1;
    if (take_request(listener, event) == 0) {
        *id = event->id;
        event->id->event = event;
        return 0;
    }
    error = errno;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
        soft_destroy_ep(event->id);
    soft_ack_cm_event(event);
    return cm_result(error);
}
