/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * modify.c - the states of a queue pair, and its attributes.
 *
 * Which attributes a transition requires and which it allows is verbs' table for each transport. An address given by
 * soft_set_path() makes IBV_QP_AV unnecessary.
 */
#include <errno.h>
#include <stdlib.h>
#include "soft/engine/engine.h"
#include "verbs.h"

struct attributes {
    int needs, may;
};

/* The attributes of one transition for each transport. */
struct transition {
    enum ibv_qp_state from, to;
    struct attributes rc, uc, ud;
};

#define ACCESS IBV_QP_ACCESS_FLAGS
#define CONNECTED_INIT (IBV_QP_PKEY_INDEX | IBV_QP_PORT | ACCESS)
#define UD_INIT (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define UC_RTR (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RC_RTR (UC_RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RC_RTS (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)
#define UC_LATER (ACCESS | IBV_QP_PATH_MIG_STATE)
#define RC_LATER (UC_LATER | IBV_QP_MIN_RNR_TIMER)
#define UC_DRAINED (IBV_QP_AV | IBV_QP_PKEY_INDEX | UC_LATER)
#define RC_DRAINED                                                                                             \
    (UC_DRAINED | RC_LATER | IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |              \
     IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC)
#define NOTIFY IBV_QP_EN_SQD_ASYNC_NOTIFY

static const struct transition transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, {CONNECTED_INIT, 0}, {CONNECTED_INIT, 0}, {UD_INIT, 0}},
    {IBV_QPS_INIT, IBV_QPS_INIT, {0, CONNECTED_INIT}, {0, CONNECTED_INIT}, {0, UD_INIT}},
    {IBV_QPS_INIT,
     IBV_QPS_RTR,
     {RC_RTR, ACCESS | IBV_QP_PKEY_INDEX},
     {UC_RTR, ACCESS | IBV_QP_PKEY_INDEX},
     {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_RTR, IBV_QPS_RTS, {RC_RTS, RC_LATER}, {IBV_QP_SQ_PSN, UC_LATER}, {IBV_QP_SQ_PSN, IBV_QP_QKEY}},
    {IBV_QPS_RTS, IBV_QPS_RTS, {0, RC_LATER}, {0, UC_LATER}, {0, IBV_QP_QKEY}},
    {IBV_QPS_RTS, IBV_QPS_SQD, {0, NOTIFY}, {0, NOTIFY}, {0, NOTIFY}},
    {IBV_QPS_SQD, IBV_QPS_SQD, {0, RC_DRAINED}, {0, UC_DRAINED}, {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_SQD, IBV_QPS_RTS, {0, RC_LATER}, {0, UC_LATER}, {0, IBV_QP_QKEY}},
};

/* From SQE, an error of the send queue alone, which a reliable connection does not have. */
static const struct transition recovery = {
    .from = IBV_QPS_SQE, .to = IBV_QPS_RTS, .uc = {0, ACCESS}, .ud = {0, IBV_QP_QKEY}};

/* The sending end of an XRC connection uses the attributes of a connection's sender, the receiving end those of its
 * receiver. */
static const struct attributes xrc_receiver_ready = {IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, RC_LATER};

static const struct attributes *attributes_of(const struct soft_qp *qp, const struct transition *transition)
{
    switch (qp->transport) {
    case SOFT_RC:
        return &transition->rc;
    case SOFT_UC:
        return &transition->uc;
    case SOFT_UD:
        return &transition->ud;
    }
    if (transition->to == IBV_QPS_RTR)
        return qp->xrcd == NULL ? &transition->uc : &transition->rc;
    if (transition->from == IBV_QPS_RTR && qp->xrcd != NULL)
        return &xrc_receiver_ready;
    return &transition->rc;
}

static const struct transition *find_transition(const struct soft_qp *qp, enum ibv_qp_state to)
{
    for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++)
        if (transitions[i].from == soft_state(qp) && transitions[i].to == to)
            return &transitions[i];
    return recovery.from == soft_state(qp) && recovery.to == to ? &recovery : NULL;
}

/* 0, or the errno if the transition is not allowed. Each state may change to RESET or ERR. */
static int check_transition(const struct soft_qp *qp, enum ibv_qp_state to, int mask)
{
    int given = mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
    const struct transition *transition;
    const struct attributes *attributes;
    int needs;

    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return given == 0 ? 0 : EINVAL;
    if ((transition = find_transition(qp, to)) == NULL)
        return EINVAL;
    attributes = attributes_of(qp, transition);
    needs = attributes->needs & ~(qp->path_given ? IBV_QP_AV : 0);
    return (given & needs) == needs && (given & ~(attributes->needs | attributes->may)) == 0 ? 0 : EINVAL;
}

static bool in_range(const struct ibv_qp_attr *attr, int mask)
{
    return !(mask & IBV_QP_PATH_MTU && (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096)) &&
           !(mask & IBV_QP_PORT && attr->port_num != 1) &&
           !(mask & IBV_QP_PKEY_INDEX && attr->pkey_index != 0) &&
           !(mask & IBV_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > SOFT_MAX_READS) &&
           !(mask & IBV_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > SOFT_MAX_READS) &&
           !(mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31) &&
           !(mask & IBV_QP_TIMEOUT && attr->timeout > 31) &&
           !(mask & IBV_QP_RETRY_CNT && attr->retry_cnt > 7) &&
           !(mask & IBV_QP_RNR_RETRY && attr->rnr_retry > 7);
}

/* ---- Copying attributes ---- */

/* Copies the attributes that need no action. */
static void copy_attributes(struct ibv_qp_attr *own, const struct ibv_qp_attr *attr, int mask)
{
    if (mask & IBV_QP_PKEY_INDEX)
        own->pkey_index = attr->pkey_index;
    if (mask & IBV_QP_PORT)
        own->port_num = attr->port_num;
    if (mask & IBV_QP_ACCESS_FLAGS)
        own->qp_access_flags = attr->qp_access_flags;
    if (mask & IBV_QP_QKEY)
        own->qkey = attr->qkey;
    if (mask & IBV_QP_DEST_QPN)
        own->dest_qp_num = attr->dest_qp_num & 0xffffff;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        own->min_rnr_timer = attr->min_rnr_timer;
    if (mask & IBV_QP_TIMEOUT)
        own->timeout = attr->timeout;
    if (mask & IBV_QP_RETRY_CNT)
        own->retry_cnt = attr->retry_cnt;
    if (mask & IBV_QP_RNR_RETRY)
        own->rnr_retry = attr->rnr_retry;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        own->max_rd_atomic = attr->max_rd_atomic;
    if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
        own->en_sqd_async_notify = attr->en_sqd_async_notify;
}

static int keep_path(struct soft_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    uint32_t qpn = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : qp->attr.dest_qp_num;
    struct soft_path path;

    if (!(mask & IBV_QP_AV))
        return 0;
    if (!qp->path_given) {
        if (!soft_path_from_ah(qp->context, &path, &attr->ah_attr, qpn))
            return EINVAL;
        qp->path = path;
    }
    qp->attr.ah_attr = attr->ah_attr;
    return 0;
}

static int keep_resources(struct soft_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct soft_responder *resp = &qp->resp;
    struct soft_resource *resources;

    if (!(mask & IBV_QP_MAX_DEST_RD_ATOMIC))
        return 0;
    if ((resources = calloc(attr->max_dest_rd_atomic + 1u, sizeof *resources)) == NULL)
        return ENOMEM;
    free(resp->resources);
    resp->resources = resources;
    resp->newest = resp->active = 0;
    qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
    return 0;
}

static void start_receiving(struct soft_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct soft_responder *resp = &qp->resp;

    if (mask & IBV_QP_PATH_MTU) {
        qp->attr.path_mtu = attr->path_mtu;
        soft_set_mtu(qp, 128u << attr->path_mtu);
    }
    if (qp->path.link != NULL && qp->path.link->mtu != 0)
        soft_set_mtu(qp, qp->path.link->mtu);
    if (mask & IBV_QP_RQ_PSN) {
        qp->attr.rq_psn = attr->rq_psn & SOFT_PSN_MASK;
        resp->expected = resp->missed = resp->acked = resp->data = soft_psn_start(attr->rq_psn);
    }
    qp->path_known = true;
}

static void start_sending(struct soft_qp *qp, const struct ibv_qp_attr *attr)
{
    struct soft_requester *req = &qp->req;

    qp->attr.sq_psn = attr->sq_psn & SOFT_PSN_MASK;
    req->una = req->next = req->high = req->end = req->asked = soft_psn_start(attr->sq_psn);
    req->gap = req->expiry = NEVER_NS;
    soft_recovery_begin(&req->recovery);
    if (soft_is_lossless(qp))
        req->recovery.window = SOFT_WINDOW_MAX;
}

/* Resets the queue pair to the state after its creation: its work does not complete, and its completions are
 * removed. */
static void reset_qp(struct soft_qp *qp)
{
    struct soft_ring send = qp->req.ring, recv = qp->resp.ring;
    struct soft_recv *shared = qp->resp.shared;

    soft_timer_end(qp);
    soft_idle(qp);
    if (soft_ibv(qp)->send_cq != NULL)
        soft_cq_take_back((struct soft_cq *)soft_ibv(qp)->send_cq, soft_ibv(qp)->qp_num);
    if (soft_ibv(qp)->recv_cq != NULL)
        soft_cq_take_back((struct soft_cq *)soft_ibv(qp)->recv_cq, soft_ibv(qp)->qp_num);
    free(qp->resp.resources);
    memset(&qp->req, 0, sizeof qp->req);
    memset(&qp->resp, 0, sizeof qp->resp);
    memset(&qp->attr, 0, sizeof qp->attr);
    send.head = send.tail = recv.head = recv.tail = 0;
    qp->req.ring = send;
    qp->resp.ring = recv;
    qp->resp.shared = shared;
    soft_path_leave(&qp->path);
    qp->path_given = qp->path_known = false;
}

/* Attributes of the other end of an XRC connection are ignored, as the kernel does, because programs set them at both
 * ends. */
static int own_part(const struct soft_qp *qp, int mask)
{
    if (qp->transport != SOFT_XRC)
        return mask;
    return mask & ~(qp->xrcd == NULL ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
                                     : IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
}

/* (locked) */
static int change_qp(struct soft_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state from = soft_state(qp), to = mask & IBV_QP_STATE ? attr->qp_state : from;
    int error;

    if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from)
        return EINVAL;
    if (!in_range(attr, mask))
        return EINVAL;
    if ((error = check_transition(qp, to, mask)) != 0)
        return error;
    if (to == IBV_QPS_ERR || to == IBV_QPS_RESET)
        soft_flush_acks(qp->context); /* sends a delayed acknowledgement */
    if (to == IBV_QPS_ERR) {
        soft_qp_fail(qp);
        return 0;
    }
    if (to == IBV_QPS_RESET)
        reset_qp(qp);
    if ((error = keep_path(qp, attr, mask)) != 0 || (error = keep_resources(qp, attr, mask)) != 0)
        return error;
    copy_attributes(&qp->attr, attr, mask);
    if (to == IBV_QPS_RTR)
        start_receiving(qp, attr, mask);
    if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
        start_sending(qp, attr);
    soft_ibv(qp)->state = qp->attr.qp_state = to;
    if (to == IBV_QPS_SQD)
        soft_requester_drain(qp);
    if (soft_requester_ready(qp))
        soft_work(qp);
    return 0;
}

int soft_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask)
{
    int error;

    soft_lock(ibv->context);
    error = soft_qp_check(ibv);
    if (error == 0) {
        error = change_qp(soft_qp_of(ibv), attr, own_part(soft_qp_of(ibv), attr_mask));
        soft_step(soft_qp_of(ibv)->context);
    }
    soft_unlock(ibv->context);
    return error;
}

int soft_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init)
{
    struct soft_qp *qp = soft_qp_of(ibv);
    int error;

    (void)attr_mask; /* all attributes are returned */
    soft_lock(ibv->context);
    error = soft_qp_check(ibv);
    if (error != 0) {
        soft_unlock(ibv->context);
        return error;
    }
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = ibv->state;
    attr->cap = qp->cap;
    attr->sq_draining = ibv->state == IBV_QPS_SQD && !soft_requester_drained(qp);
    attr->path_mig_state = IBV_MIG_MIGRATED;
    soft_unlock(ibv->context);
    *init = (struct ibv_qp_init_attr){
        .qp_context = ibv->qp_context,
        .send_cq = ibv->send_cq,
        .recv_cq = ibv->recv_cq,
        .srq = ibv->srq,
        .cap = qp->cap,
        .qp_type = ibv->qp_type,
        .sq_sig_all = qp->signal_all,
    };
    return 0;
}

void soft_set_round_trip(struct ibv_qp *ibv, uint64_t round)
{
    soft_lock(ibv->context);
    soft_recovery_expect(&soft_qp_of(ibv)->req.recovery, round);
    soft_unlock(ibv->context);
}

void soft_set_path(struct ibv_qp *ibv, const struct soft_path *path)
{
    struct soft_qp *qp = soft_qp_of(ibv);

    soft_lock(ibv->context);
    if (qp->path.link != path->link)
        soft_path_leave(&qp->path);
    soft_path_copy(&qp->path, path);
    if (path->link != NULL)
        path->link->user = qp;
    qp->path_given = qp->path_known = true;
    soft_unlock(ibv->context);
}
