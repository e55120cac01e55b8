/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_connection.c - what both sides of a connection share: its parameters, failures and end. */
#include <errno.h>
#include <string.h>
#include "cm_id.h"

#define RETRIES 7 /* the maximum; for RNR: infinite */

/* An identifier without a queue pair uses the number of one that the application names. */
static int take_qp(struct cm_id *id, const struct rdma_conn_param *param)
{
    if (id->public.qp != NULL) {
        id->own.qp_num = id->public.qp->qp_num;
        id->own.srq = id->public.qp->srq != NULL || id->public.qp_type == IBV_QPT_XRC_RECV;
        return 0;
    }
    if (param == NULL || !soft_is_qpn(param->qp_num))
        return EINVAL;
    id->own.qp_num = param->qp_num;
    id->own.srq = param->srq != 0;
    return 0;
}

int cm_private_data(struct cm_id *id, const struct rdma_conn_param *param, size_t most)
{
    size_t before = id->connect_length, length = param == NULL ? 0 : param->private_data_len;

    if (before > most || length > most - before || (length > 0 && param->private_data == NULL))
        return EINVAL;
    id->own.private_length = (uint8_t)(before + length);
    if (before > 0)
        memcpy(id->own.private_data, id->connect, before);
    if (length > 0)
        memcpy(id->own.private_data + before, param->private_data, length);
    return 0;
}

int cm_conn_param(struct cm_id *id, const struct rdma_conn_param *param, size_t private_max)
{
    static const struct rdma_conn_param most = {
        .responder_resources = RDMA_MAX_RESP_RES,
        .initiator_depth = RDMA_MAX_INIT_DEPTH,
        .retry_count = RETRIES,
        .rnr_retry_count = RETRIES,
    };

    struct cm_message *own = &id->own;
    int error = 0;

    memset(own, 0, sizeof *own);
    error = take_qp(id, param);
    if (error != 0)
        return error;
    if (param == NULL)
        param = &most;
    error = cm_private_data(id, param, private_max);
    if (error != 0)
        return error;
    own->responder_resources = param->responder_resources;
    own->initiator_depth = param->initiator_depth;
    own->flow_control = param->flow_control != 0;
    own->retry_count = param->retry_count < RETRIES ? param->retry_count : RETRIES;
    own->rnr_retry_count = param->rnr_retry_count < RETRIES ? param->rnr_retry_count : RETRIES;
    return 0;
}

/* Fills an event's parameters from the peer's message. The peer's responder resources are this end's initiator
 * depth. */
void cm_connection_describe(struct rdma_conn_param *conn, const struct cm_message *peer)
{
    conn->responder_resources = peer->initiator_depth;
    conn->initiator_depth = peer->responder_resources;
    conn->flow_control = peer->flow_control;
    conn->retry_count = peer->retry_count;
    conn->rnr_retry_count = peer->rnr_retry_count;
    conn->srq = peer->srq;
    conn->qp_num = peer->qp_num;
}

void cm_failed(struct cm_id *id, enum rdma_cm_event_type type, int status)
{
    cm_id_close(id);
    if (cm_is_datagram(id)) /* datagrams have no connection */
        type = RDMA_CM_EVENT_UNREACHABLE;
    else
        cm_qp_error(id);
    id->state = CM_DISCONNECTED;
    cm_post(id, CM_KIND_CONNECT, type, status);
}

/* Starts TIMEWAIT when the application, too, has disconnected. Applications other than EXS free their connection at the
 * event TIMEWAIT_EXIT, which the kernel sends for adapters after both ends have disconnected. */
static void await_last_packets(struct cm_id *id)
{
    if (id->ended && id->left && cm_is_shared() && !id->sync && !cm_is_datagram(id))
        cm_timer_start(id, CM_TIMEOUT_TIMEWAIT);
}

void cm_timewait_expired(struct cm_id *id)
{
    cm_post(id, CM_KIND_TIMEWAIT, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

static void set_disconnected(struct cm_id *id, int status)
{
    cm_id_close(id);
    id->state = CM_DISCONNECTED;
    id->ended = true;
    cm_post(id, CM_KIND_DISCONNECT, RDMA_CM_EVENT_DISCONNECTED, status);
    await_last_packets(id);
}

/* The queue pair is not put into error before the application disconnects, too. */
void cm_ended(struct cm_id *id, int status)
{
    if (id->state != CM_DISCONNECTED)
        cm_qp_drain(id);
    set_disconnected(id, status);
}

/* The socket of an established connection is readable: the peer has sent DREQ, or its kernel has closed the stream. */
void cm_established_ready(struct cm_id *id)
{
    if (id->tcp != NULL || cm_receive(id) != 0)
        cm_ended(id, 0);
}

bool soft_is_by_tcp(struct rdma_cm_id *public)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    bool by_tcp = id->transport == &cm_tcp;

    cm_unlock(channel);
    return by_tcp;
}

int soft_disconnect(struct rdma_cm_id *public)
{
    const struct cm_message dreq = {.type = CM_DREQ};
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    bool tells = true;
    int error = 0;

    if (cm_is_datagram(id) && (id->state == CM_ESTABLISHED || id->state == CM_DISCONNECTED)) {
        cm_qp_error(id); /* never connected: there is no event */
        cm_unlock(channel);
        return 0;
    }
    switch (id->state) {
    case CM_REPLIED:
    case CM_TCP_CONNECTING:
    case CM_REQUEST_SENT:
    case CM_RESPONDED:
    case CM_ESTABLISHED:
        id->left = true;
        cm_qp_error(id);
        if (cm_ib_disconnect(id)) /* ends with the peer's answer */
            break;
        if (id->state == CM_ESTABLISHED || id->state == CM_RESPONDED)
            cm_send(id, &dreq);
        set_disconnected(id, 0);
        break;
    case CM_DISCONNECTED:
        cm_qp_error(id);
        tells = id->pending[CM_KIND_DISCONNECT].queued || id->ib != NULL;
        if (id->left)
            break;
        id->left = true;
        await_last_packets(id);
        break;
    default:
        error = EINVAL;
    }
    cm_unlock(channel);
    return tells ? cm_complete(id, cm_result(error)) : 0;
}
