/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xrc.c - the receiving end of an XRC connection.
 *
 * It has no protection domain, receives or completion queue. Each packet is executed with those of the shared receive
 * queue that it names; all packets of a message name the same one.
 */
#include "engine.h"
#include "xrc.h"

static struct soft_srq *find_srq(struct soft_xrcd *xrcd, uint32_t number)
{
    struct soft_srq *srq;

    LIST_FOREACH (srq, &xrcd->srqs[number % SOFT_XRC_BUCKETS], link) {
        if (srq->number == number)
            return srq;
    }
    return NULL;
}

static void use_srq(struct soft_qp *qp, struct soft_srq *srq)
{
    struct ibv_qp *ibv = soft_ibv(qp);

    ibv->srq = &srq->ibv;
    ibv->pd = srq->ibv.pd;
    ibv->recv_cq = (struct ibv_cq *)srq->cq;
}

void soft_xrc_input(struct soft_qp *qp, const struct soft_packet *packet)
{
    struct soft_responder *resp = &qp->resp;
    struct soft_srq *srq;

    if (qp->xrcd == NULL) { /* the sending end executes no requests */
        qp->context->counters.refused++;
        return;
    }
    /* Duplicates and early packets are answered without the shared receive queue. */
    if (soft_psn_near(resp->expected, packet->psn) == resp->expected) {
        srq = find_srq(qp->xrcd, packet->srqn);
        if (srq == NULL || ((resp->message != 0 || resp->held) && srq != soft_srq_of(qp))) {
            soft_refuse(qp, SOFT_SYNDROME_INVALID, IBV_WC_REM_INV_REQ_ERR);
            return;
        }
        use_srq(qp, srq);
    }
    soft_responder_input(qp, packet);
}

/* ---- Shared receive queues of a domain ---- */

static uint32_t new_number(struct soft_context *context, struct soft_xrcd *xrcd)
{
    uint32_t number;

    do {
        number = soft_shuffle(&context->srqns, context->srqns_given++);
    } while (number == 0 || find_srq(xrcd, number) != NULL);
    return number;
}

void soft_xrc_enter(struct soft_xrcd *xrcd, struct soft_srq *srq)
{
    srq->number = new_number(soft_context_of(srq->ibv.context), xrcd);
    LIST_INSERT_HEAD(&xrcd->srqs[srq->number % SOFT_XRC_BUCKETS], srq, link);
    xrcd->users++;
}

/* A connection that is within a message when the queue is destroyed fails; the receive is destroyed with the queue. */
static void abandon_message(struct soft_qp *qp)
{
    struct ibv_qp *ibv = soft_ibv(qp);
    bool torn = qp->resp.message != 0 || qp->resp.held;

    qp->resp.held = qp->resp.receiving = false;
    ibv->srq = NULL;
    ibv->recv_cq = NULL;
    if (torn)
        soft_responder_fail(qp, qp->resp.expected, SOFT_SYNDROME_OPERATION, IBV_WC_FATAL_ERR);
}

void soft_xrc_leave(struct soft_srq *srq)
{
    struct soft_context *context = soft_context_of(srq->ibv.context);
    struct soft_qp *qp;

    LIST_FOREACH (qp, &context->qps, link) {
        if (qp->xrcd == srq->xrcd && soft_srq_of(qp) == srq)
            abandon_message(qp);
    }
    LIST_REMOVE(srq, link);
    srq->xrcd->users--;
}
