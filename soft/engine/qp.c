/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qp.c - completes the work of a queue pair, and moves it to the error states.
 */
#include "engine.h"

/* ---- Completions ---- */

static enum ibv_wc_opcode completion_opcode(enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_BIND_MW:
        return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

static __attribute__((cold)) void lost_completion(struct soft_qp *qp)
{
    if (soft_state(qp) != IBV_QPS_ERR)
        soft_event_raise(qp->context, &qp->events, IBV_EVENT_QP_FATAL);
    soft_qp_fail(qp);
}

/* Inlined with soft_cq_add(), so that the completion is written only once, directly to the ring. */
static inline __attribute__((always_inline)) void add_completion(struct soft_qp *qp, struct ibv_cq *cq,
                                                                 struct ibv_wc *wc, bool solicited)
{
    wc->qp_num = soft_ibv(qp)->qp_num;
    if (qp->transport != SOFT_UD)
        wc->src_qp = qp->attr.dest_qp_num;
    if (!soft_cq_add((struct soft_cq *)cq, wc, solicited))
        lost_completion(qp);
}

void soft_complete_send(struct soft_qp *qp, const struct soft_send *send, enum ibv_wc_status status)
{
    struct ibv_wc wc = {
        .wr_id = send->wr_id,
        .status = status,
        .opcode = completion_opcode(send->opcode),
        .byte_len = send->length,
    };

    add_completion(qp, soft_ibv(qp)->send_cq, &wc, false);
}

inline __attribute__((always_inline)) void soft_complete_recv(struct soft_qp *qp, const struct soft_recv *recv,
                                                              struct ibv_wc *wc, bool solicited)
{
    wc->wr_id = recv->wr_id;
    add_completion(qp, soft_ibv(qp)->recv_cq, wc, solicited);
}

void soft_flush_sends(struct soft_qp *qp)
{
    struct soft_requester *req = &qp->req;

    soft_settle(qp);
    while (req->ring.tail != req->ring.head) {
        struct soft_send *send = soft_ring_at(&req->ring, req->ring.tail++);
        bool vanished = send->status == IBV_WC_LOC_PROT_ERR;

        soft_complete_send(qp, send, vanished ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR);
    }
    req->index = req->ring.head;
    req->una = req->next = req->high = req->end;
    req->reads = 0;
}

void soft_flush_recvs(struct soft_qp *qp)
{
    struct soft_ring *ring = &qp->resp.ring;
    struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV};

    while (ring->tail != ring->head)
        soft_complete_recv(qp, soft_ring_at(ring, ring->tail++), &wc, false);
    if (qp->resp.held)
        soft_complete_recv(qp, qp->resp.shared, &wc, false);
    qp->resp.held = qp->resp.receiving = false;
}

void soft_qp_fail(struct soft_qp *qp)
{
    if (soft_state(qp) == IBV_QPS_ERR)
        return;
    soft_ibv(qp)->state = qp->attr.qp_state = IBV_QPS_ERR;
    soft_timer_forget(qp);
    qp->req.rnr_wait = false;
    /* If a NAK is pending, it and the responses before it are still sent. Otherwise the peer must detect the failure
     * itself. */
    if (qp->resp.answer != SOFT_ANSWER_NAK)
        soft_resource_drop(qp, 0);
    soft_flush_sends(qp);
    soft_flush_recvs(qp);
    if (soft_srq_of(qp) != NULL && qp->xrcd == NULL)
        soft_event_raise(qp->context, &qp->events, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void soft_send_queue_fail(struct soft_qp *qp)
{
    if (qp->reliable) {
        soft_qp_fail(qp);
        return;
    }
    if (!soft_sends(qp))
        return;
    soft_ibv(qp)->state = qp->attr.qp_state = IBV_QPS_SQE;
    soft_flush_sends(qp);
}
