/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timer.c - one timer for each queue pair (ACK timeout, probe, or end of a pause), in a heap.
 *
 * Progress restarts the timer of a busy queue pair again and again. To make this cheap, moving a deadline to a later
 * time does not change the heap: the time in the heap may be too early but never too late, and is corrected when the
 * entry reaches the top. The heap has space for each queue pair from its creation on.
 */
#include <stdlib.h>
#include "engine.h"

bool soft_timer_reserve(struct soft_context *context, size_t qps)
{
    size_t room = context->heap_room == 0 ? 16 : context->heap_room;
    void *grown;

    while (room < qps)
        room *= 2;
    if (room == context->heap_room)
        return true;
    if ((grown = realloc(context->heap, room * sizeof *context->heap)) == NULL)
        return false;
    context->heap = grown;
    context->heap_room = room;
    return true;
}

/* Positions are counted from 1: the children of i are 2i and 2i + 1. */
static void place_timer(struct soft_context *context, size_t at, struct soft_timer timer)
{
    context->heap[at - 1] = timer;
    timer.qp->heap_at = at;
}

static void sift_up(struct soft_context *context, size_t at, struct soft_timer timer)
{
    while (at > 1 && context->heap[at / 2 - 1].at > timer.at) {
        place_timer(context, at, context->heap[at / 2 - 1]);
        at /= 2;
    }
    place_timer(context, at, timer);
}

static void sift_down(struct soft_context *context, size_t at, struct soft_timer timer)
{
    size_t child;

    while ((child = at * 2) <= context->heap_count) {
        if (child < context->heap_count && context->heap[child].at < context->heap[child - 1].at)
            child++;
        if (context->heap[child - 1].at >= timer.at)
            break;
        place_timer(context, at, context->heap[child - 1]);
        at = child;
    }
    place_timer(context, at, timer);
}

void soft_timer_forget(struct soft_qp *qp)
{
    struct soft_context *context = qp->context;
    size_t at = qp->heap_at;
    struct soft_timer last;

    qp->deadline = NEVER_NS;
    qp->heap_at = 0;
    if (at == 0)
        return;
    last = context->heap[--context->heap_count];
    if (last.qp == qp)
        return;
    if (at > 1 && context->heap[at / 2 - 1].at > last.at)
        sift_up(context, at, last);
    else
        sift_down(context, at, last);
}

void soft_timer_set(struct soft_qp *qp, uint64_t deadline)
{
    struct soft_context *context = qp->context;

    qp->deadline = deadline;
    if (deadline == NEVER_NS)
        return;
    if (qp->heap_at == 0)
        sift_up(context, ++context->heap_count, (struct soft_timer){deadline, qp});
    else if (deadline < context->heap[qp->heap_at - 1].at)
        sift_up(context, qp->heap_at, (struct soft_timer){deadline, qp});
}

/* The clock is read after the packets have been sent: if the thread were preempted between reading it and sending, the
 * timeout would be too short. Within one step no queue pair is destroyed. */
void soft_timer_start(struct soft_qp *qp)
{
    if (qp->starting)
        return;
    qp->starting = true;
    qp->starting_next = qp->context->starting;
    qp->context->starting = qp;
}

void soft_timer_started(struct soft_context *context)
{
    struct soft_qp *qp;

    context->now_known = false;
    while ((qp = context->starting) != NULL) {
        context->starting = qp->starting_next;
        qp->starting = false;
        soft_silence_begin(qp);
    }
}

void soft_timer_start_later(struct soft_qp *qp)
{
    if (qp->timer_pending)
        return;
    qp->timer_pending = true;
    LIST_INSERT_HEAD(&qp->context->timer_pending, qp, later);
}

static void clear_unhurried(struct soft_qp *qp)
{
    if (qp->timer_pending)
        LIST_REMOVE(qp, later);
    qp->timer_pending = false;
}

/* soft_silence_begin() does nothing for a queue pair that has been answered in the meantime. */
void soft_timer_start_unhurried(struct soft_context *context)
{
    struct soft_qp *qp;

    if (LIST_EMPTY(&context->timer_pending))
        return;
    context->now_known = false;
    while ((qp = LIST_FIRST(&context->timer_pending)) != NULL) {
        clear_unhurried(qp);
        soft_silence_begin(qp);
    }
    context->now_known = false;
}

void soft_timer_end(struct soft_qp *qp)
{
    clear_unhurried(qp);
    soft_timer_forget(qp);
}

/* Separate from the fast path, on which no timer runs. */
static __attribute__((noinline)) uint64_t first_due(struct soft_context *context)
{
    while (context->heap_count > 0) {
        struct soft_timer top = context->heap[0];

        if (top.qp->deadline == top.at)
            return top.at;
        if (top.qp->deadline == NEVER_NS)
            soft_timer_forget(top.qp);
        else
            sift_down(context, 1, (struct soft_timer){top.qp->deadline, top.qp});
    }
    return NEVER_NS;
}

inline uint64_t soft_timer_next(struct soft_context *context)
{
    return context->heap_count == 0 ? NEVER_NS : first_due(context);
}
