/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * completer.c - processes the packets that the peer's responder sends to a requester (ACKs, NAKs, READ responses,
 * results of atomics), completes requests, and sends packets again after a NAK or timeout until the retries are used
 * up.
 *
 * A READ advances una only by its responses, packet by packet. An acknowledgement of a later PSN while a response is
 * outstanding means that the response was lost; the rest of the READ is then requested again.
 */
#include "engine.h"

static struct soft_send *oldest_send(const struct soft_qp *qp)
{
    const struct soft_ring *ring = &qp->req.ring;

    return ring->tail == ring->head ? NULL : soft_ring_at(ring, ring->tail);
}

void soft_request_done(struct soft_qp *qp)
{
    struct soft_send *send = soft_ring_at(&qp->req.ring, qp->req.ring.tail);

    qp->req.ring.tail++;
    if (send->flags & IBV_SEND_SIGNALED)
        soft_complete_send(qp, send, IBV_WC_SUCCESS);
}

/* una has advanced from `before` to its current value. */
static void handle_progress(struct soft_qp *qp, uint64_t before)
{
    struct soft_requester *req = &qp->req;
    unsigned done = 0;

    if (req->una == before || !soft_sends(qp))
        return;
    req->retries = req->rnr_retries = 0;
    if (req->next < req->una) { /* packets that were to be sent again are acknowledged: they were not lost */
        req->next = req->una;
        req->index = req->ring.tail;
        soft_recovery_undo(&req->recovery);
    }
    soft_recovery_progress(&req->recovery, req->una - before);
    while (done < req->reads && req->read_end[done] <= req->una)
        done++;
    if (done > 0) {
        req->reads -= done;
        memmove(req->read_end, req->read_end + done, req->reads * sizeof *req->read_end);
    }
    if (soft_state(qp) == IBV_QPS_SQD)
        soft_requester_drain(qp);
    if (soft_recovery_is_timed(&req->recovery, req->una))
        soft_recovery_answered(&req->recovery, soft_now(qp->context));
    if (req->rnr_wait)
        return;
    soft_silence_broken(qp);
    if (soft_requester_ready(qp))
        soft_work(qp);
}

/* All PSNs below `upto` are acknowledged, except those that only data can answer. */
static void acknowledge_below(struct soft_qp *qp, uint64_t upto)
{
    struct soft_requester *req = &qp->req;
    const struct soft_link *link = qp->path.link;
    uint64_t before = req->una;
    struct soft_send *send;

    /* A peer may claim to have received bytes that were not sent yet. */
    if (link != NULL && link->settle != NULL && upto > link->gathered)
        soft_settle(qp);
    while (req->una < upto && (send = oldest_send(qp)) != NULL && !soft_send_answered(send)) {
        uint64_t end = send->psn + send->packets;

        req->una = end < upto ? end : upto;
        if (req->una == end)
            soft_request_done(qp);
    }
    handle_progress(qp, before);
}

/* The oldest request has failed, and with it the queue pair. */
static void fail_oldest(struct soft_qp *qp, enum ibv_wc_status status)
{
    struct soft_send *send = oldest_send(qp);

    if (send != NULL) {
        qp->req.ring.tail++;
        soft_complete_send(qp, send, status);
    }
    soft_qp_fail(qp);
}

/* Packets from una on were lost: send them again, unless the retry count is used up without progress. */
void soft_completer_retry(struct soft_qp *qp)
{
    if (qp->req.retries++ >= qp->attr.retry_cnt)
        fail_oldest(qp, IBV_WC_RETRY_EXC_ERR);
    else
        soft_requester_lost(qp);
}

/* How often the ACK timer may expire. */
static uint64_t most_retries(const struct soft_qp *qp)
{
    uint64_t each = soft_ack_time(qp->attr.timeout), patient = each == 0 ? 0 : qp->path.link->patience / each;

    return patient > qp->attr.retry_cnt ? patient : qp->attr.retry_cnt;
}

bool soft_completer_waits(struct soft_qp *qp)
{
    if (qp->req.retries++ < most_retries(qp))
        return true;
    fail_oldest(qp, IBV_WC_RETRY_EXC_ERR);
    return false;
}

/* The peer is alive and reports that una is missing: send again. This costs a retry if `must` is set, or if it has
 * lasted as long as the ACK timeout. */
static void send_again(struct soft_qp *qp, bool must, bool alone)
{
    struct soft_recovery *recovery = &qp->req.recovery;
    uint64_t now = soft_now(qp->context);
    bool charges;

    if (soft_recovery_is_stale(recovery, now))
        return;
    charges = soft_recovery_refused(recovery, now,
                                    qp->attr.timeout == 0 ? NEVER_NS : soft_ack_time(qp->attr.timeout), alone);
    if (must || charges)
        soft_completer_retry(qp);
    else
        soft_requester_lost(qp);
}

/* A response is missing at una: request it, once until there is progress. */
static void request_missing(struct soft_qp *qp)
{
    if (qp->req.gap == qp->req.una || qp->req.rnr_wait)
        return;
    qp->req.gap = qp->req.una;
    send_again(qp, qp->req.retries == 0, false);
}

/* ---- Acknowledgements ---- */

/* If an ACK acknowledges exactly the probe, the probe's packet was the missing one, and the responder dropped those
 * behind it. */
static void input_ack(struct soft_qp *qp, uint64_t psn)
{
    bool probed = qp->req.recovery.probed == psn;

    acknowledge_below(qp, psn + 1);
    if (!soft_sends(qp))
        return;
    if (qp->req.una <= psn)
        request_missing(qp);
    else if (probed && qp->req.una < qp->req.next && !qp->req.rnr_wait)
        soft_requester_lost(qp);
}

static void input_rnr(struct soft_qp *qp, uint8_t code)
{
    struct soft_requester *req = &qp->req;

    qp->context->counters.rnr_naks_received++;
    if (req->rnr_wait)
        return;
    if (qp->attr.rnr_retry != 7 && req->rnr_retries++ >= qp->attr.rnr_retry) {
        fail_oldest(qp, IBV_WC_RNR_RETRY_EXC_ERR);
        return;
    }
    soft_recovery_came(&req->recovery);
    soft_requester_back(qp);
    req->rnr_wait = true;
    /* The NAK may not be the first packet of a batch, and the wait may be shorter than the batch took to process: read
     * the clock again. */
    qp->context->now_known = false;
    soft_timer_set(qp, soft_now(qp->context) + soft_rnr_time(code));
}

static void input_nak(struct soft_qp *qp, uint8_t syndrome)
{
    qp->context->counters.naks_received++;
    switch (syndrome) {
    case SOFT_SYNDROME_SEQUENCE:
        if (!qp->req.rnr_wait && qp->req.una < qp->req.high)
            send_again(qp, false, qp->req.una + 1 == qp->req.high);
        break;
    case SOFT_SYNDROME_ACCESS:
        fail_oldest(qp, IBV_WC_REM_ACCESS_ERR);
        break;
    case SOFT_SYNDROME_OPERATION:
        fail_oldest(qp, IBV_WC_REM_OP_ERR);
        break;
    default:
        fail_oldest(qp, IBV_WC_REM_INV_REQ_ERR);
    }
}

/* A NAK at psn acknowledges all PSNs before it. */
static void input_refusal(struct soft_qp *qp, uint64_t psn, uint8_t syndrome)
{
    acknowledge_below(qp, psn);
    if (!soft_sends(qp))
        return;
    if (qp->req.una < psn)
        request_missing(qp);
    else if ((syndrome & SOFT_SYNDROME_KIND) == SOFT_SYNDROME_RNR)
        input_rnr(qp, syndrome & SOFT_SYNDROME_CODE);
    else
        input_nak(qp, syndrome);
}

static void input_aeth(struct soft_qp *qp, uint64_t psn, uint8_t syndrome)
{
    const struct soft_requester *req = &qp->req;

    switch (syndrome & SOFT_SYNDROME_KIND) {
    case 0:
        if (psn >= req->una && psn < req->high)
            input_ack(qp, psn);
        break;
    case SOFT_SYNDROME_RNR:
        if (psn >= req->una && psn < req->high)
            input_refusal(qp, psn, syndrome);
        break;
    case SOFT_SYNDROME_SEQUENCE &SOFT_SYNDROME_KIND:
        /* A sequence NAK's PSN is at most one past all that was sent, if only the acknowledgement was lost. */
        if (psn >= req->una && psn < req->high + (syndrome == SOFT_SYNDROME_SEQUENCE))
            input_refusal(qp, psn, syndrome);
        break;
    }
}

/* ---- Responses with data ---- */

/* Stores the response to PSN una. IBV_WC_SUCCESS, or the error. */
static enum ibv_wc_status store_response(struct soft_qp *qp, struct soft_send *send,
                                         const struct soft_packet *packet)
{
    bool atomic = packet->op & SOFT_OP_ATOMIC;
    uint32_t length = atomic ? sizeof packet->original : packet->length;
    uint64_t offset = (qp->req.una - send->psn) * qp->mtu;
    uint32_t left = send->length - (uint32_t)offset;
    struct iovec slice[SOFT_MAX_SGE];
    const struct soft_mr *nofault = NULL;
    int pieces;

    if (length != (left < qp->mtu ? left : qp->mtu))
        return IBV_WC_BAD_RESP_ERR;
    if (length == 0)
        return IBV_WC_SUCCESS;
    pieces = soft_sge_slice(qp->context, qp->ibv.qp_base.pd, send->data.sge, send->sges, offset, length,
                            IBV_ACCESS_LOCAL_WRITE, slice, &nofault);
    if (pieces < 0)
        return IBV_WC_LOC_PROT_ERR;
    if (!(atomic ? soft_scatter(slice, pieces, &packet->original, nofault != NULL)
                 : soft_place_payload(packet, slice, pieces, nofault != NULL)))
        return IBV_WC_LOC_PROT_ERR;
    return IBV_WC_SUCCESS;
}

/* Is this the kind of response that is expected at una? A response that was on its way when its part was requested
 * again may not be; it is dropped, because the right one will arrive. */
static bool is_expected(const struct soft_requester *req, const struct soft_send *send,
                        const struct soft_packet *packet)
{
    uint64_t behind = req->una + 1;
    bool ends = behind == send->psn + send->packets || (req->reads > 0 && behind == req->read_end[0]);

    if (packet->op & SOFT_OP_ATOMIC)
        return true;
    return ends == !!(packet->op & SOFT_OP_LAST) && (req->una != send->psn || packet->op & SOFT_OP_FIRST);
}

static void input_data(struct soft_qp *qp, const struct soft_packet *packet, uint64_t psn)
{
    struct soft_requester *req = &qp->req;
    bool atomic = packet->op & SOFT_OP_ATOMIC;
    struct soft_send *send;
    enum ibv_wc_status status;
    uint64_t before;

    if (psn < req->una || psn >= req->high)
        return; /* a duplicate, or never requested */
    acknowledge_below(qp, psn);
    if (!soft_sends(qp))
        return;
    if (req->una < psn) {
        request_missing(qp);
        return;
    }
    send = oldest_send(qp);
    if (send == NULL || !soft_send_answered(send) || atomic != (send->base != SOFT_READ_REQUEST)) {
        fail_oldest(qp, IBV_WC_BAD_RESP_ERR);
        return;
    }
    if (!is_expected(req, send, packet))
        return;
    status = store_response(qp, send, packet);
    if (status != IBV_WC_SUCCESS) {
        fail_oldest(qp, status);
        return;
    }
    if (packet->target != NULL && packet->target->count > 0)
        return;
    before = req->una++;
    if (req->una == send->psn + send->packets)
        soft_request_done(qp);
    handle_progress(qp, before);
}

void soft_completer_input(struct soft_qp *qp, const struct soft_packet *packet)
{
    uint64_t psn = soft_psn_near(qp->req.una, packet->psn);

    if (!soft_sends(qp))
        return;
    if (packet->op & (SOFT_OP_READ | SOFT_OP_ATOMIC))
        input_data(qp, packet, psn);
    else
        input_aeth(qp, psn, packet->syndrome);
}

inline void soft_completer_acked(struct soft_qp *qp, uint32_t psn)
{
    if (soft_sends(qp))
        input_aeth(qp, soft_psn_near(qp->req.una, psn), SOFT_SYNDROME_ACK);
}

void soft_completer_overflow(struct soft_qp *qp)
{
    /* Go back to una: it is unknown which responses were lost. */
    if (soft_sends(qp) && qp->req.una < qp->req.next && !qp->req.rnr_wait)
        soft_requester_back(qp);
}
