/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeout.c - the requester's ACK timeout (in the code, `silence`: the time without an answer of the peer) and its
 * probes.
 *
 * The requester starts the ACK timer when it sends the first of its unacknowledged packets, and restarts it whenever
 * some packets are acknowledged. When the timer expires, the requester uses up a retry, as verbs define it, and sends
 * the packets again. Before that, if recovery.h has an estimate of when an answer is due, the requester sends the
 * oldest packet once more (a probe). A probe does not change the ACK timer, so the queue pair fails at the same time
 * with probes and without.
 *
 * On a lossless link an expired timer uses up a retry, but nothing is sent again. A link that is full because the peer
 * reads nothing is handled in the same way.
 */
#include "engine.h"

/* Sets the queue pair's timer to the next probe or to the end of the ACK timeout, whichever is earlier. */
static void set_timer(struct soft_qp *qp, uint64_t now)
{
    uint64_t patience =
        soft_is_lossless(qp) ? NEVER_NS : soft_recovery_patience(&qp->req.recovery, qp->context->wire->grain);
    bool probes = patience < NEVER_NS - now && now + patience < qp->req.expiry;

    soft_timer_set(qp, probes ? now + patience : qp->req.expiry);
}

void soft_silence_begin(struct soft_qp *qp)
{
    struct soft_requester *req = &qp->req;
    uint64_t now = soft_now(qp->context);

    soft_recovery_left(&req->recovery, now);
    if (qp->deadline != NEVER_NS || !soft_sends(qp) || req->una >= req->next)
        return;
    if (req->expiry == NEVER_NS)
        req->expiry = now + soft_ack_time(qp->attr.timeout);
    set_timer(qp, now);
}

void soft_silence_broken(struct soft_qp *qp)
{
    struct soft_requester *req = &qp->req;

    if (req->una < req->next && qp->attr.timeout != 0) {
        uint64_t now = soft_now(qp->context);

        req->expiry = now + soft_ack_time(qp->attr.timeout);
        set_timer(qp, now);
    } else {
        req->expiry = NEVER_NS;
        soft_timer_set(qp, NEVER_NS);
        if (qp->path.link != NULL && qp->path.link->waiter == qp)
            soft_silence_held(qp);
    }
}

/* The link is full because the peer reads nothing: starts the ACK timer, as for a peer that does not answer. */
void soft_silence_held(struct soft_qp *qp)
{
    if (qp->deadline != NEVER_NS || qp->attr.timeout == 0 || !soft_requester_ready(qp))
        return;
    qp->req.expiry = soft_now(qp->context) + soft_ack_time(qp->attr.timeout);
    soft_timer_set(qp, qp->req.expiry);
}

/* Lossless link: counts a retry and restarts the timer; sends nothing again. */
static void wait_on(struct soft_qp *qp)
{
    if (!soft_completer_waits(qp))
        return;
    qp->req.expiry = soft_now(qp->context) + soft_ack_time(qp->attr.timeout);
    soft_timer_set(qp, qp->req.expiry);
}

static void time_out(struct soft_qp *qp)
{
    qp->context->counters.timeouts++;
    if (soft_is_lossless(qp)) {
        wait_on(qp);
        return;
    }
    qp->req.gap = NEVER_NS;
    soft_recovery_timeout(&qp->req.recovery);
    soft_completer_retry(qp);
}

static void send_probe(struct soft_qp *qp, uint64_t now)
{
    soft_requester_probe(qp);
    if (soft_sends(qp) && qp->req.una < qp->req.next)
        set_timer(qp, now);
}

void soft_timers(struct ibv_context *ibv)
{
    struct soft_context *context = soft_context_of(ibv);
    uint64_t now;

    context->now_known = false;
    now = soft_now(context);
    /* Handles each timer at most once, even if it is due again at once. */
    for (size_t left = context->heap_count; left > 0 && soft_timer_next(context) <= now; left--) {
        struct soft_qp *qp = context->heap[0].qp;

        soft_timer_forget(qp);
        if (qp->req.rnr_wait) {
            soft_requester_waited(qp);
        } else if (qp->req.expiry <= now) {
            time_out(qp);
        } else {
            send_probe(qp, now);
        }
    }
    soft_step(context);
}
