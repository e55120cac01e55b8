/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * modify.c - the states of a queue pair, and its attributes.
 *
 * Which attributes a transition needs and which it may have is verbs' table for reliable connections. An
 * address given by soft_set_path makes IBV_QP_AV unnecessary.
 */
#include <errno.h>
#include <stdlib.h>
#include "engine.h"

struct transition {
    enum ibv_qp_state from, to;
    int needs, may;
};

static const struct transition transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
};

/* 0, or the errno with which the transition is refused. Every state may go to RESET or ERR. */
static int check_transition(const struct soft_qp *qp, enum ibv_qp_state to, int mask)
{
    int given = mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE);

    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return given == 0 ? 0 : EINVAL;
    for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++) {
        const struct transition *transition = &transitions[i];
        int needs = transition->needs & ~(qp->path_given ? IBV_QP_AV : 0);

        if (transition->from == soft_state(qp) && transition->to == to)
            return (given & needs) == needs && (given & ~(transition->needs | transition->may)) == 0 ? 0
                                                                                                     : EINVAL;
    }
    return EINVAL;
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

/* ---- Taking over attributes ---- */

static void keep_common(struct ibv_qp_attr *own, const struct ibv_qp_attr *attr, int mask)
{
    if (mask & IBV_QP_PKEY_INDEX)
        own->pkey_index = attr->pkey_index;
    if (mask & IBV_QP_PORT)
        own->port_num = attr->port_num;
    if (mask & IBV_QP_ACCESS_FLAGS)
        own->qp_access_flags = attr->qp_access_flags;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        own->min_rnr_timer = attr->min_rnr_timer;
}

static int keep_rtr(struct soft_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct soft_responder *resp = &qp->resp;
    struct soft_path path;

    if (mask & IBV_QP_AV && !qp->path_given &&
        !soft_path_from_ah(qp->context, &path, &attr->ah_attr, attr->dest_qp_num))
        return EINVAL;
    free(resp->resources);
    resp->resources = calloc(attr->max_dest_rd_atomic + 1u, sizeof *resp->resources);
    if (resp->resources == NULL)
        return ENOMEM;
    if (mask & IBV_QP_AV)
        qp->attr.ah_attr = attr->ah_attr;
    if (!qp->path_given)
        qp->path = path;
    qp->path_known = true;
    qp->attr.path_mtu = attr->path_mtu;
    qp->mtu = 128u << attr->path_mtu;
    qp->attr.dest_qp_num = attr->dest_qp_num & 0xffffff;
    qp->attr.rq_psn = attr->rq_psn & SOFT_PSN_MASK;
    qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
    resp->expected = resp->missed = resp->acked = soft_psn_start(attr->rq_psn);
    return 0;
}

static void keep_rts(struct soft_qp *qp, const struct ibv_qp_attr *attr)
{
    struct soft_requester *req = &qp->req;

    qp->attr.timeout = attr->timeout;
    qp->attr.retry_cnt = attr->retry_cnt;
    qp->attr.rnr_retry = attr->rnr_retry;
    qp->attr.sq_psn = attr->sq_psn & SOFT_PSN_MASK;
    qp->attr.max_rd_atomic = attr->max_rd_atomic;
    req->una = req->next = req->high = req->end = req->asked = soft_psn_start(attr->sq_psn);
    req->gap = SOFT_NEVER;
    req->window = SOFT_WINDOW_START;
}

/* As if it had just been created; nothing completes. */
static void reset(struct soft_qp *qp)
{
    struct soft_ring send = qp->req.ring, recv = qp->resp.ring;

    soft_timer_forget(qp);
    soft_idle(qp);
    free(qp->resp.resources);
    memset(&qp->req, 0, sizeof qp->req);
    memset(&qp->resp, 0, sizeof qp->resp);
    memset(&qp->attr, 0, sizeof qp->attr);
    send.head = send.tail = recv.head = recv.tail = 0;
    qp->req.ring = send;
    qp->resp.ring = recv;
    qp->path_given = qp->path_known = false;
}

/* (locked) */
static int change(struct soft_qp *qp, const struct ibv_qp_attr *attr, int mask)
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
        soft_settle(qp->context); /* an acknowledgement may be owed, of what the application already has */
    if (to == IBV_QPS_ERR) {
        soft_qp_fail(qp);
        return 0;
    }
    if (to == IBV_QPS_RESET)
        reset(qp);
    else if (to == IBV_QPS_RTR && (error = keep_rtr(qp, attr, mask)) != 0)
        return error;
    else if (to == IBV_QPS_RTS && from == IBV_QPS_RTR)
        keep_rts(qp, attr);
    keep_common(&qp->attr, attr, mask);
    soft_ibv(qp)->state = qp->attr.qp_state = to;
    return 0;
}

int soft_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask)
{
    int error;

    soft_lock(ibv->context);
    error = change(soft_qp_of(ibv), attr, attr_mask);
    soft_step(soft_qp_of(ibv)->context);
    soft_unlock(ibv->context);
    return error;
}

int soft_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init)
{
    struct soft_qp *qp = soft_qp_of(ibv);

    (void)attr_mask; /* all of it is at hand */
    soft_lock(ibv->context);
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = ibv->state;
    attr->cap = qp->cap;
    attr->path_mig_state = IBV_MIG_MIGRATED;
    soft_unlock(ibv->context);
    *init = (struct ibv_qp_init_attr){
        .qp_context = ibv->qp_context,
        .send_cq = ibv->send_cq,
        .recv_cq = ibv->recv_cq,
        .cap = qp->cap,
        .qp_type = ibv->qp_type,
        .sq_sig_all = qp->signal_all,
    };
    return 0;
}

void soft_set_path(struct ibv_qp *ibv, const struct soft_path *path)
{
    struct soft_qp *qp = soft_qp_of(ibv);

    soft_lock(ibv->context);
    soft_path_copy(&qp->path, path);
    qp->path_given = qp->path_known = true;
    soft_unlock(ibv->context);
}
