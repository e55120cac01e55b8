/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_qp.c - the queue pair of a connection: how messages describe it, and its attributes from both ends' messages. */
#include <errno.h>
#include "cm_id.h"
#include "core/base/random.h"
#include "soft/verbs/verbs.h"

#define MIN_RNR_TIMER 12 /* code of 0.64 ms: a receiver is usually ready soon */
#define PSN_MASK 0xffffff
#define DRAIN_ROUNDS 256 /* more than a full socket holds */

static void fill_datagram(enum ibv_qp_state state, struct ibv_qp_attr *attr, int *mask)
{
    *attr = (struct ibv_qp_attr){.qp_state = state, .port_num = SOFT_DEVICE_PORT, .qkey = RDMA_UDP_QKEY};
    *mask = IBV_QP_STATE;
    if (state == IBV_QPS_INIT)
        *mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    if (state == IBV_QPS_RTS)
        *mask |= IBV_QP_SQ_PSN;
}

static void fill_init(enum ibv_qp_type type, struct ibv_qp_attr *attr, int *mask)
{
    if (type == IBV_QPT_UD) {
        fill_datagram(IBV_QPS_INIT, attr, mask);
        return;
    }
    *attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_INIT,
        .port_num = SOFT_DEVICE_PORT,
        .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    };
    *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

/* Creates a queue pair in INIT; one for datagrams in RTS, because it has no peer. 0 or an errno. */
static int make_qp(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *attr, struct ibv_qp **qp)
{
    bool datagrams = attr->qp_type == IBV_QPT_UD;
    struct ibv_qp_init_attr_ex own = *attr;
    struct ibv_qp_attr next;
    int error, mask;

    if (own.qp_type == IBV_QPT_XRC_RECV) /* it has an XRC domain instead */
        own.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_PD;
    *qp = soft_create_qp_ex(public->verbs, &own);
    if (*qp == NULL)
        return errno;
    attr->cap = own.cap;
    fill_init(attr->qp_type, &next, &mask);
    error = soft_modify_qp(*qp, &next, mask);
    for (enum ibv_qp_state state = IBV_QPS_RTR; datagrams && error == 0 && state <= IBV_QPS_RTS; state++) {
        fill_datagram(state, &next, &mask);
        error = soft_modify_qp(*qp, &next, mask);
    }
    if (error != 0)
        soft_destroy_qp(*qp);
    return error;
}

int soft_create_id_qp_ex(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *attr)
{
    struct cm_channel *channel;
    struct ibv_qp *qp;
    int error;

    if (public->verbs == NULL || public->qp != NULL || attr->qp_type != public->qp_type)
        return cm_result(EINVAL);
    error = cm_queues_complete(public, attr);
    if (error == 0)
        error = make_qp(public, attr, &qp);
    if (error != 0) {
        cm_queues_drop_cqs(public);
        return cm_result(error);
    }
    channel = cm_lock(cm_id_of(public)); /* another thread may be handling its events */
    public->qp = qp;
    public->pd = attr->pd;
    cm_unlock(channel);
    return 0;
}

int soft_create_id_qp(struct rdma_cm_id *public, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex extended = {
        .qp_context = attr->qp_context,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = pd,
    };

    if (soft_create_id_qp_ex(public, &extended) == -1)
        return -1;
    attr->send_cq = extended.send_cq;
    attr->recv_cq = extended.recv_cq;
    attr->srq = extended.srq;
    attr->cap = extended.cap;
    return 0;
}

void soft_destroy_id_qp(struct rdma_cm_id *public)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id); /* so that no other thread is connecting it */
    struct ibv_qp *qp = public->qp;

    if (qp != NULL)
        cm_multicast_detach(id);
    public->qp = NULL;
    cm_unlock(channel);
    if (qp != NULL)
        soft_destroy_qp(qp);
    cm_queues_drop_cqs(public);
    home_reap();
}

static void at_most(uint8_t *value, int most)
{
    if (*value > most)
        *value = (uint8_t)most;
}

/* RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH mean the device's maximum. */
static int clamp_depths(struct cm_id *id)
{
    struct ibv_device_attr device;
    int error = soft_query_device(id->public.verbs, &device);

    if (error != 0)
        return error;
    at_most(&id->own.responder_resources, device.max_qp_rd_atom);
    at_most(&id->own.initiator_depth, device.max_qp_init_rd_atom);
    return 0;
}

/* The transport service of the connecting queue pair; of XRC it is the sending end. */
static uint8_t service_of(enum ibv_qp_type type)
{
    return type == IBV_QPT_UC ? CM_UC : type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV ? CM_XRC : CM_RC;
}

uint16_t cm_qp_refuses(const struct cm_id *id)
{
    const struct cm_message *req = &id->peer;

    if (req->space_ib != (id->public.ps == RDMA_PS_IB))
        return CM_INVALID_SERVICE;
    return req->service != service_of(id->public.qp_type) || id->public.qp_type == IBV_QPT_XRC_SEND
               ? CM_CONSUMER_DEFINED
               : 0;
}

/* Chooses the first packet sequence number that this end expects. It is unpredictable, so that a sender that does not
 * see the connection's packets can't inject any. 0 or an errno. */
static int choose_psn(struct cm_id *id)
{
    while (id->psn == 0) {
        int error = random_bytes(&id->psn, sizeof id->psn);

        if (error != 0)
            return error;
        id->psn &= PSN_MASK;
    }
    return 0;
}

/* Chooses the UDP port for packets, if the link is UDP. A reply for another link contains an unused port, because a
 * message with port 0 is invalid. 0 or an errno. */
static int choose_port(struct cm_id *id, const union soft_addr *local)
{
    in_port_t port = local->in.sin_port; /* at the same place in sockaddr_in6 */

    id->names_udp = cm_link_may_be_udp(id);
    if (id->names_udp)
        port = udp_port(&home_of(id->public.verbs)->udp, local);
    id->own.udp_port = ntohs(port);
    return port == 0 ? errno : 0;
}

int cm_qp_describe(struct cm_id *id, enum cm_type type)
{
    union soft_addr local, remote;
    int error = id->transport->names(id, &local, &remote);

    if (error == 0)
        error = clamp_depths(id);
    if (error == 0)
        error = choose_psn(id);
    if (error != 0)
        return error;
    id->own.type = type;
    id->own.psn = id->psn;
    id->own.mtu = (uint8_t)id->transport->mtu(id);
    id->own.service = service_of(id->public.qp_type);
    id->own.space_ib = id->public.ps == RDMA_PS_IB;
    cm_link_describe(id, &remote);
    return choose_port(id, &local);
}

/* ---- A queue pair's attributes from the handshake ---- */

static uint8_t reads_max(const struct cm_id *id)
{
    struct ibv_device_attr device;

    return soft_query_device(id->public.verbs, &device) == 0 ? (uint8_t)device.max_qp_rd_atom : 0;
}

static uint8_t min_u8(uint8_t one, uint8_t other)
{
    return one < other ? one : other;
}

/* The responder resources; before the application's answer those that the peer asked for, limited to the device's
 * maximum. */
static uint8_t resources_of(const struct cm_id *id)
{
    return min_u8(id->own.type != 0 ? id->own.responder_resources : id->peer.initiator_depth, reads_max(id));
}

static uint8_t depth_of(const struct cm_id *id)
{
    return min_u8(id->own.type != 0 ? id->own.initiator_depth : reads_max(id), id->peer.responder_resources);
}

static unsigned access_of(const struct cm_id *id)
{
    unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

    if (resources_of(id) > 0)
        access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return access;
}

static uint8_t mtu_of(const struct cm_id *id)
{
    return min_u8(id->own.type != 0 ? id->own.mtu : (uint8_t)id->transport->mtu(id), id->peer.mtu);
}

/* A reliable responder needs its responder resources and RNR timer, too. */
static int rtr_mask(enum ibv_qp_type type)
{
    int mask =
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_ACCESS_FLAGS;

    if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return mask;
}

/* A requester needs its timeout and retry counts, too. */
static int rts_mask(enum ibv_qp_type type)
{
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
        mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    if (type != IBV_QPT_UC)
        mask |= IBV_QP_TIMEOUT;
    return mask;
}

static void fill_rtr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    *attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)mtu_of(id),
        .dest_qp_num = id->peer.qp_num,
        .rq_psn = id->psn, /* each end announces the PSN that it expects */
        .max_dest_rd_atomic = resources_of(id),
        .min_rnr_timer = MIN_RNR_TIMER,
        .qp_access_flags = access_of(id),
        .ah_attr = cm_id_way(id, &id->public.route.addr.addr.ibaddr.dgid),
    };
    *mask = rtr_mask(id->public.qp_type);
}

static void fill_rts(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    *attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .sq_psn = id->peer.psn,
        .timeout = id->peer.ack_timeout > id->ack_timeout ? id->peer.ack_timeout : id->ack_timeout,
        /* The connecting end sets the retries of both; each end announces its own RNR retries. */
        .retry_cnt = id->own.type == CM_REQ ? id->own.retry_count : id->peer.retry_count,
        .rnr_retry = id->peer.rnr_retry_count,
        .max_rd_atomic = depth_of(id),
    };
    *mask = rts_mask(id->public.qp_type);
}

int soft_init_qp_attr(struct rdma_cm_id *public, struct ibv_qp_attr *attr, int *mask)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    bool met = id->state == CM_REQUESTED || id->state == CM_REPLIED || id->state == CM_RESPONDED ||
               id->state == CM_ESTABLISHED;
    int error = 0;

    if (attr->qp_state == IBV_QPS_INIT && public->verbs != NULL)
        fill_init(public->qp_type, attr, mask);
    else if (cm_is_datagram(id) && public->verbs != NULL &&
             (attr->qp_state == IBV_QPS_RTR || attr->qp_state == IBV_QPS_RTS))
        fill_datagram(attr->qp_state, attr, mask);
    else if (attr->qp_state == IBV_QPS_RTR && met && (error = choose_psn(id)) == 0)
        fill_rtr(id, attr, mask);
    else if (attr->qp_state == IBV_QPS_RTS && met)
        fill_rts(id, attr, mask);
    else if (error == 0)
        error = EINVAL;
    cm_unlock(channel);
    return cm_result(error);
}

int cm_qp_connect(struct cm_id *id)
{
    struct ibv_qp_attr attr;
    struct soft_path path = {.traffic_class = id->traffic_class};
    int error = id->transport->names(id, &path.local, &path.remote), mask;
    uint64_t round;

    if (error != 0)
        return error;
    path.local.in.sin_port = htons(id->own.udp_port); /* at the same place in sockaddr_in6 */
    path.remote.in.sin_port = htons(id->peer.udp_port);
    error = cm_link_choose(id, &path);
    if (error != 0)
        return error;
    soft_set_path(id->public.qp, &path);
    fill_rtr(id, &attr, &mask);
    error = soft_modify_qp(id->public.qp, &attr, mask);
    if (error != 0)
        return error;
    fill_rts(id, &attr, &mask);
    error = soft_modify_qp(id->public.qp, &attr, mask);
    if (error == 0)
        cm_link_begin(id, &path);
    if (error == 0 && (round = id->transport->round_trip(id)) > 0)
        soft_set_round_trip(id->public.qp, round);
    return error;
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
