/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nak.c - the responder's errors: for a request that it cannot execute it requests a NAK for the peer (response.c sends
 * it), reports the error to the application by a completion or an asynchronous event, and puts the queue pair into the
 * error state. If no receive is posted it requests an RNR NAK, and the queue pair keeps its state.
 */
#include "engine.h"

/* The asynchronous event for an error that no receive can report. */
static enum ibv_event_type event_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
        return IBV_EVENT_QP_ACCESS_ERR;
    case IBV_WC_REM_INV_REQ_ERR:
        return IBV_EVENT_QP_REQ_ERR;
    default:
        return IBV_EVENT_QP_FATAL;
    }
}

/* The queue pair had already failed, and still had to send a NAK and the responses before it (soft_qp_fail); now one of
 * those responses fails. Drops it and those behind it, or the queue pair would try forever. The NAK must name the first
 * request that failed, so it replaces a pending NAK with a higher PSN. */
static void fail_owed_answer(struct soft_qp *qp, uint64_t psn, uint8_t syndrome)
{
    const struct soft_responder *resp = &qp->resp;

    soft_resource_drop(qp, psn);
    if (resp->answer == SOFT_ANSWER_NAK && psn < resp->nak_psn)
        soft_answer_nak(qp, psn, syndrome);
}

void soft_responder_fail(struct soft_qp *qp, uint64_t psn, uint8_t syndrome, enum ibv_wc_status status)
{
    struct soft_responder *resp = &qp->resp;
    struct ibv_wc wc = {.status = status, .opcode = IBV_WC_RECV};
    struct soft_recv *recv;

    if (!soft_receives(qp)) {
        fail_owed_answer(qp, psn, syndrome);
        return;
    }
    qp->context->counters.refused++;
    if (resp->receiving && (recv = soft_receive_next(qp)) != NULL) {
        soft_receive_done(qp);
        soft_complete_recv(qp, recv, &wc, true);
    } else {
        soft_event_raise(qp->context, &qp->events, event_of(status));
    }
    if (qp->reliable) {
        soft_resource_drop(qp, psn);
        soft_answer_nak(qp, psn, syndrome);
    }
    soft_qp_fail(qp);
}

/* The packet with PSN `expected` cannot be executed. On an unreliable transport no NAK can be sent, so a message that
 * is invalid or does not fit is dropped (class D of the specification). But an error of the local receive fails the
 * queue pair there, too, and so does a message that is too long for a receive that was taken from a shared queue,
 * because that receive cannot be kept for the next message (class E). */
void soft_refuse(struct soft_qp *qp, uint8_t syndrome, enum ibv_wc_status status)
{
    bool ours = status == IBV_WC_LOC_PROT_ERR || (status == IBV_WC_LOC_LEN_ERR && soft_srq_of(qp) != NULL);

    if (!qp->reliable && !ours) {
        qp->context->counters.refused++;
        soft_uc_abandon(qp);
        return;
    }
    soft_responder_fail(qp, qp->resp.expected, syndrome, status);
}

void soft_not_ready(struct soft_qp *qp)
{
    if (qp->reliable) {
        soft_answer_nak(qp, qp->resp.expected,
                        SOFT_SYNDROME_RNR | (qp->attr.min_rnr_timer & SOFT_SYNDROME_CODE));
        return;
    }
    qp->context->counters.unready++;
    soft_uc_abandon(qp);
}
