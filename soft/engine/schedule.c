/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schedule.c - decides which queue pair sends next, round robin. It also contains the engine's entry points for links,
 * polling threads and the service thread: after packets have arrived, and when timers may be due.
 *
 * Queue pairs with something to send are on the context's work list. In its turn a queue pair sends at most one burst
 * of requests and one burst of responses; then the next one has its turn. A step is a number of turns. It is bounded by
 * the bytes that it sends and by the number of turns, so that the lock is not held for long. If work remains after a
 * step, soft_deadline() returns 0, and the caller must run another step.
 */
#include "engine.h"

#define STEP_BYTES UINT64_C(1048576)
#define TURN_BYTES                                                                                             \
    64 /* Bytes that a turn counts for, added to what it sends: 16,384 turns that send nothing are a step. */

uint64_t soft_now(struct soft_context *context)
{
    if (!context->now_known) {
        context->now = context->clock->now(context->clock);
        context->now_known = true;
    }
    return context->now;
}

void soft_work(struct soft_qp *qp)
{
    if (qp->working)
        return;
    qp->working = true;
    TAILQ_INSERT_TAIL(&qp->context->work, qp, work);
}

void soft_idle(struct soft_qp *qp)
{
    if (qp->working)
        TAILQ_REMOVE(&qp->context->work, qp, work);
    qp->working = false;
}

static void run_qp(struct soft_qp *qp)
{
    bool requests = soft_requester_go(qp);
    /* Responses second: an acknowledgement is short, so it closes the burst of requests and needs no burst for
     * itself. */
    bool answers = soft_answer_go(qp);

    if (requests || answers)
        soft_work(qp);
}

/* True if there is nothing to send but an acknowledgement that may be delayed. */
static bool can_wait(const struct soft_qp *qp)
{
    return qp->context->delays_acks && !soft_requester_ready(qp) && soft_answer_can_wait(qp);
}

/* True if the queue pair's link is full. The link calls soft_link_drained() when it has space again. */
static bool is_held(struct soft_qp *qp)
{
    struct soft_link *link = qp->path.link;

    if (link == NULL || !link->full)
        return false;
    link->waiter = qp;
    soft_silence_held(qp);
    return true;
}

void soft_link_drained(struct soft_link *link)
{
    struct soft_qp *qp = link->waiter;

    link->full = false;
    link->waiter = NULL;
    if (qp != NULL)
        soft_work(qp);
}

void soft_link_failed(struct ibv_context *ibv, const struct soft_link *link)
{
    struct soft_qp *qp;

    LIST_FOREACH (qp, &soft_context_of(ibv)->qps, link) {
        if (qp->path_known && qp->path.link == link)
            soft_qp_fail(qp);
    }
}

void soft_link_vanished(const struct soft_link *link, uint64_t psn)
{
    if (link->user != NULL)
        soft_requester_fault(link->user, psn, IBV_WC_LOC_PROT_ERR);
}

size_t soft_qps(struct ibv_context *ibv)
{
    return soft_context_of(ibv)->qp_count;
}

/* True if a step would send nothing. Often one queue pair is on the work list, with an acknowledgement that is
 * delayed. */
static bool nothing_to_do(const struct soft_context *context)
{
    const struct soft_qp *qp = TAILQ_FIRST(&context->work);

    if (context->burst.packets > 0 || context->burst.left || context->starting != NULL || context->wire->holds)
        return false;
    return qp == NULL || (TAILQ_NEXT(qp, work) == NULL && can_wait(qp));
}

static __attribute__((noinline)) void run_step(struct soft_context *context)
{
    uint64_t limit = context->counters.bytes_sent + STEP_BYTES;
    struct soft_qp *qp;

    do {
        while (context->counters.bytes_sent < limit && (qp = TAILQ_FIRST(&context->work)) != NULL) {
            TAILQ_REMOVE(&context->work, qp, work);
            if (can_wait(qp)) {
                TAILQ_INSERT_TAIL(&context->waiting, qp, work);
                continue;
            }
            qp->working = false;
            limit -= TURN_BYTES;
            if (!is_held(qp))
                run_qp(qp);
        }
    } while (!soft_burst_leave(context));
    if (context->burst.left || context->wire->holds) {
        context->burst.left = false;
        if (context->wire->sent != NULL)
            context->wire->sent(context->wire, &context->verbs.context);
    }
    TAILQ_CONCAT(&context->work, &context->waiting, work);
    if (context->starting != NULL)
        soft_timer_started(context);
}

/* True if a timer is due at `due`, and the application may not poll in time: that is before `polls_by`, the time at
 * which the application said it would poll again, or `polls_by` has passed. Compares with the last known time, which is
 * recent: setting a timer reads the clock. */
static bool is_due_before(const struct soft_context *context, uint64_t due)
{
    return due != NEVER_NS && (due < context->polls_by || context->polls_by <= context->now);
}

/* Updates flush_wanted: whether soft_stop_polling() must be called before the application sleeps. */
static void note_waits(struct soft_context *context)
{
    atomic_store_explicit(&context->poll.flush_wanted,
                          !TAILQ_EMPTY(&context->work) || context->wire->unwatched || context->wire->holds ||
                              is_due_before(context, soft_timer_next(context)),
                          memory_order_relaxed);
}

void soft_step(struct soft_context *context)
{
    if (!nothing_to_do(context))
        run_step(context);
    note_waits(context);
    context->now_known = false;
}

void soft_step_posted(struct soft_context *context)
{
    context->wire->may_hold = atomic_load_explicit(&context->poll.polls_again, memory_order_relaxed);
    soft_step(context);
    context->wire->may_hold = false;
}

uint64_t soft_set_next_poll(struct soft_context *context)
{
    return context->polls_by = soft_timer_next(context);
}

void soft_watch_again(struct ibv_context *ibv)
{
    struct soft_context *context = soft_context_of(ibv);
    struct soft_wire *wire = context->wire;

    if (wire->unwatched)
        wire->watch(wire);
    note_waits(context);
}

void soft_flush(struct ibv_context *context)
{
    soft_step(soft_context_of(context));
}

uint64_t soft_deadline(struct ibv_context *ibv)
{
    struct soft_context *context = soft_context_of(ibv);

    soft_timer_start_unhurried(context);
    return TAILQ_EMPTY(&context->work) && !context->wire->holds ? soft_timer_next(context) : 0;
}

static inline int make_progress(struct soft_context *context)
{
    struct ibv_context *ibv = &context->verbs.context;
    struct soft_wire *wire = context->wire;
    int packets = wire->receive == NULL ? 0 : wire->receive(wire, ibv);

    if (soft_timer_next(context) != NEVER_NS)
        soft_timers(ibv);
    else
        soft_step(context);
    return packets;
}

void soft_progress_delaying_acks(struct soft_context *context)
{
    context->delays_acks = true;
    context->packets_found = 0;
    make_progress(context);
    context->delays_acks = false;
}

void soft_flush_acks(struct soft_context *context)
{
    if (!TAILQ_EMPTY(&context->work) || context->wire->holds)
        soft_step(context);
}

int soft_progress(struct ibv_context *ibv)
{
    return make_progress(soft_context_of(ibv));
}

/* True if packets for this queue pair arrive at this local port. */
static bool is_reached_at(const struct soft_qp *qp, in_port_t port)
{
    in_port_t own = qp->path.local.in.sin_port; /* at the same place in sockaddr_in6 */

    return port == 0 || own == 0 || own == port;
}

void soft_overflow(struct ibv_context *ibv, in_port_t port)
{
    struct soft_context *context = soft_context_of(ibv);
    struct soft_qp *qp;

    context->counters.overflows++;
    LIST_FOREACH (qp, &context->qps, link) {
        if (!is_reached_at(qp, port))
            continue;
        soft_answer_overflow(qp);
        soft_completer_overflow(qp);
    }
    soft_step(context);
}
