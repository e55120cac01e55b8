/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_datagram.c - the port space of datagrams, RDMA_PS_UDP: which queue pair serves a port, and by which Q_Key?
 *
 * InfiniBand's service identifier resolution: one question and one answer. Nothing is connected by that, so the
 * TCP connection that carries them ends with the answer, and its end is no event.
 */
#include <errno.h>
#include <string.h>
#include "cm_id.h"

#define PORT 1
#define QPN_MAX 0xffffff
#define HOP_LIMIT 64

/* 0 or an errno. */
static int take_private(struct cm_message *own, const struct rdma_conn_param *param, size_t most)
{
    if (param == NULL)
        return 0;
    if (param->private_data_len > most || (param->private_data == NULL && param->private_data_len > 0))
        return EINVAL;
    own->private_length = param->private_data_len;
    if (param->private_data_len > 0)
        memcpy(own->private_data, param->private_data, param->private_data_len);
    return 0;
}

/* ---- Who asks ---- */

int cm_datagram_question(struct cm_id *id, const struct rdma_conn_param *param)
{
    memset(&id->own, 0, sizeof id->own);
    id->own.type = CM_SIDR_REQ;
    return take_private(&id->own, param, CM_SIDR_REQ_PRIVATE);
}

void cm_datagram_answered(struct cm_id *id)
{
    const struct cm_message *peer = &id->peer;
    int status = peer->reason;

    if (peer->type == CM_REJ)
        status = peer->reason == CM_OTHER_VERSION ? -EPROTONOSUPPORT : CM_SIDR_UNSUPPORTED;
    else if (peer->type != CM_SIDR_REP)
        status = -EPROTO;
    if (status == CM_SIDR_UNSUPPORTED && id->transport == &cm_ib) {
        cm_active_unheard(id);
        return;
    }
    if (status != CM_SIDR_VALID) {
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, status);
        return;
    }
    cm_choice_learn(id);
    cm_id_close(id);
    id->state = CM_ESTABLISHED;
    cm_post(id, CM_KIND_CONNECT, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* The address handle that leads there: the peer's GID, and, of one of ours, its LID. */
void cm_datagram_describe(struct cm_id *id, struct rdma_ud_param *ud)
{
    const struct rdma_ib_addr *addr = &id->public.route.addr.addr.ibaddr;
    int index;

    if (id->state != CM_ESTABLISHED || id->peer.type != CM_SIDR_REP)
        return;
    index = soft_gid_enter(id->public.verbs, &addr->sgid);
    ud->qp_num = id->peer.qp_num;
    ud->qkey = id->peer.qkey;
    ud->ah_attr = (struct ibv_ah_attr){
        .is_global = 1,
        .port_num = PORT,
        .dlid = id->transport == &cm_ib ? 0 : (uint16_t)(id->peer.qp_num >> SOFT_LID_QPNS_BITS),
        .grh = {.dgid = addr->dgid, .sgid_index = index >= 0 ? (uint8_t)index : 0, .hop_limit = HOP_LIMIT},
    };
}

/* ---- Who is asked ---- */

static int take_qp(struct cm_id *id, const struct rdma_conn_param *param)
{
    if (id->public.qp != NULL)
        id->own.qp_num = id->public.qp->qp_num;
    else if (param != NULL && param->qp_num > 1 && param->qp_num <= QPN_MAX)
        id->own.qp_num = param->qp_num;
    else
        return EINVAL;
    return 0;
}

int cm_datagram_accept(struct cm_id *id, const struct rdma_conn_param *param)
{
    int error;

    if (id->state == CM_DISCONNECTED)
        return ECONNRESET;
    if (id->state != CM_REQUESTED)
        return EINVAL;
    memset(&id->own, 0, sizeof id->own);
    id->own.type = CM_SIDR_REP;
    id->own.qkey = RDMA_UDP_QKEY;
    error = take_qp(id, param);
    if (error == 0)
        error = take_private(&id->own, param, CM_SIDR_REP_PRIVATE);
    if (error != 0)
        return error;
    cm_send(id, &id->own); /* so little that the socket has room for it */
    cm_id_close(id);
    id->state = CM_ESTABLISHED;
    return 0;
}

void cm_datagram_reject(struct cm_id *id, const void *private_data, uint8_t length)
{
    struct cm_message rep = {.type = CM_SIDR_REP, .reason = CM_SIDR_REJECTED, .private_length = length};

    if (length > 0)
        memcpy(rep.private_data, private_data, length);
    cm_send(id, &rep);
}
