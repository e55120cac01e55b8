/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pair of a connection: what the handshake says of it, and what it makes of it. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include "cm_id.h"
#include "verbs.h"

#define PORT 1
#define MIN_RNR_TIMER 12 /* code of 0.64 ms: a receiver that isn't ready will be soon */
#define HOP_LIMIT 64
#define PSN_MASK 0xffffff
#define DRAIN_ROUNDS 256 /* more than a full socket holds */

int soft_create_id_qp(struct rdma_cm_id *public, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT,
        .port_num = PORT,
        .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    };
    struct cm_channel *channel;
    struct ibv_qp *qp;
    int error;

    if (public->qp != NULL || pd == NULL || pd->context != public->verbs || attr->qp_type != IBV_QPT_RC ||
        attr->send_cq == NULL || attr->recv_cq == NULL) {
        errno = EINVAL;
        return -1;
    }
    qp = soft_create_qp(pd, attr);
    if (qp == NULL)
        return -1;
    error = soft_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error != 0) {
        soft_destroy_qp(qp);
        errno = error;
        return -1;
    }
    channel = cm_lock(cm_id_of(public)); /* its events may be looked at just now */
    public->qp = qp;
    public->pd = pd;
    public->send_cq = attr->send_cq;
    public->send_cq_channel = attr->send_cq->channel;
    public->recv_cq = attr->recv_cq;
    public->recv_cq_channel = attr->recv_cq->channel;
    public->srq = attr->srq;
    cm_unlock(channel);
    return 0;
}

void soft_destroy_id_qp(struct rdma_cm_id *public)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id); /* nobody connects it just now */
    struct ibv_qp *qp = public->qp;

    public->qp = NULL;
    cm_unlock(channel);
    if (qp != NULL)
        soft_destroy_qp(qp);
    udp_reap();
}

static void at_most(uint8_t *value, int most)
{
    if (*value > most)
        *value = (uint8_t)most;
}

/* RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH mean what the device has. */
static int clamp_depths(struct cm_id *id)
{
    struct ibv_device_attr device;
    int error = soft_query_device(id->public.qp->context, &device);

    if (error != 0)
        return error;
    at_most(&id->own.responder_resources, device.max_qp_rd_atom);
    at_most(&id->own.initiator_depth, device.max_qp_init_rd_atom);
    return 0;
}

int cm_qp_describe(struct cm_id *id, enum cm_type type)
{
    struct udp *link = (struct udp *)soft_wire_of(id->public.qp->context);
    union soft_addr local;
    int error = cm_socket_names(id->fd, &local, NULL);
    in_port_t port;

    if (error == 0)
        error = clamp_depths(id);
    if (error != 0)
        return error;
    port = udp_port(link, local.sa.sa_family);
    if (port == 0)
        return errno;
    id->own.type = type;
    id->own.qp_num = id->public.qp->qp_num;
    id->own.srq = id->public.qp->srq != NULL;
    id->own.udp_port = ntohs(port);
    id->own.mtu = (uint8_t)cm_socket_mtu(id->fd);
    /* Unpredictable, so that nobody can slip in packets without seeing ours. */
    if (getrandom(&id->own.psn, sizeof id->own.psn, 0) != sizeof id->own.psn)
        return errno;
    id->own.psn &= PSN_MASK;
    return 0;
}

static int to_rtr(struct cm_id *id)
{
    const struct rdma_addr *addr = &id->public.route.addr;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = id->own.mtu < id->peer.mtu ? id->own.mtu : id->peer.mtu,
        .dest_qp_num = id->peer.qp_num,
        .rq_psn = id->own.psn, /* each end says what it wants to receive */
        .max_dest_rd_atomic = id->own.responder_resources,
        .min_rnr_timer = MIN_RNR_TIMER,
        .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
        .ah_attr = {.is_global = 1, .port_num = PORT, .grh.hop_limit = HOP_LIMIT},
    };

    if (id->own.responder_resources > 0)
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    attr.ah_attr.grh.dgid = addr->addr.ibaddr.dgid;
    return soft_modify_qp(id->public.qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS);
}

static int to_rts(struct cm_id *id)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = id->peer.psn,
        .timeout = id->ack_timeout,
        /* The one who connects sets both ends' retries; each end says how often it may be found not ready. */
        .retry_cnt = id->own.type == CM_REQ ? id->own.retry_count : id->peer.retry_count,
        .rnr_retry = id->peer.rnr_retry_count,
        .max_rd_atomic = id->own.initiator_depth < id->peer.responder_resources ? id->own.initiator_depth
                                                                                : id->peer.responder_resources,
    };

    return soft_modify_qp(id->public.qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC);
}

int cm_qp_connect(struct cm_id *id)
{
    struct soft_path path;
    int error = cm_socket_names(id->fd, &path.local, &path.remote);

    if (error == 0)
        error = to_rtr(id);
    if (error != 0)
        return error;
    path.local.in.sin_port = htons(id->own.udp_port); /* at the same place in sockaddr_in6 */
    path.remote.in.sin_port = htons(id->peer.udp_port);
    soft_set_path(id->public.qp, &path);
    return to_rts(id);
}

void cm_qp_error(struct cm_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (id->public.qp != NULL)
        (void)soft_modify_qp(id->public.qp, &attr, IBV_QP_STATE);
}

void cm_qp_drain(struct cm_id *id)
{
    struct ibv_context *context;

    if (id->public.qp == NULL)
        return;
    context = id->public.qp->context;
    soft_lock(context);
    for (int round = 0; round < DRAIN_ROUNDS && soft_progress(context) > 0; round++)
        ;
    soft_unlock(context);
}
