/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * look.c - exs_qpoll() with EXS_LOOP_BUDGET: for event loops that watch the queue's descriptor level-triggered.
 *
 * The loop calls when the descriptor is readable, and again after each batch of events. The first call of an iteration
 * runs the queue. If that finds no event, and in the calls that follow, the queue is busy-polled, for no longer than
 * the polling time since the iteration began. The call that returns 0 ends the iteration, and so does exs_qprepare(). If
 * nothing came for the polling time, the loop may sleep then; if the time of the iteration has passed before, the
 * descriptor is kept readable, so that the loop comes back after its other watchers.
 *
 * If busy polling is disabled, the queue is polled once per iteration, after its first batch: this finds events that
 * arrived during the callback without an epoll_wait(). The backoff of spin.h limits the cost of polls that find nothing.
 */
#include "queue.h"
#include "upcalls.h"

/* The batch of events that the last call gave to this thread. The thread will call again when it has handled them, so the
 * sends that it starts until then may be held (conn/batch.c). */
static _Thread_local struct {
    exs_qhandle_t queue; /* NULL: the thread handles no batch */
    int left;            /* the number of events, less the sends that the thread has started since then */
    bool holds;          /* a send is held */
} batch __attribute__((tls_model("initial-exec")));

/* Values of `turn_ends` in place of a time, if busy polling is disabled. */
#define TURN_NONE 0   /* no iteration has begun */
#define TURN_BEGUN 1  /* the queue was run */
#define TURN_POLLED 2 /* the one poll after it was made */

static uint64_t turn_of(struct queue *queue)
{
    return atomic_load_explicit(&queue->spin.turn_ends, memory_order_relaxed);
}

static void set_turn(struct queue *queue, uint64_t turn)
{
    atomic_store_explicit(&queue->spin.turn_ends, turn, memory_order_relaxed);
}

/* Ends the iteration. The descriptor stays readable if the loop must come back. Called with events.lock, which it
 * releases. Returns 0. */
static int end_turn(struct queue *queue, bool comes_back)
{
    atomic_store_explicit(&queue->events.is_kept_readable, comes_back, memory_order_relaxed);
    xs_events_show(queue);
    mutex_unlock(&queue->events.lock);
    atomic_store_explicit(&queue->busy_polls, false, memory_order_relaxed);
    set_turn(queue, TURN_NONE);
    return 0;
}

static int take_events(struct queue *queue, exs_event_t *events, int most)
{
    int count = xs_events_take(queue, events, most);

    atomic_store_explicit(&queue->events.is_kept_readable, true, memory_order_relaxed);
    xs_events_show(queue);
    mutex_unlock(&queue->events.lock);
    atomic_store_explicit(&queue->busy_polls, true, memory_order_relaxed);
    xs_prepare_sleep_for_waiters(queue); /* this loop does not sleep yet, but the other waiters may */
    return count;
}

static int spin_for_events(struct queue *queue, exs_event_t *events, int most)
{
    /* If the descriptor is readable already, threads that complete operations need not signal it: no need to
     * count as a dequeuer. */
    bool is_readable = atomic_load_explicit(&queue->events.is_kept_readable, memory_order_relaxed),
         has_lock = false;

    if (!is_readable)
        atomic_fetch_add(&queue->events.dequeuers, 1);
    enum spun spun = xs_spin_in_turn(queue, &has_lock);

    if (!has_lock)
        mutex_lock(&queue->events.lock);
    if (!is_readable)
        atomic_fetch_sub(&queue->events.dequeuers, 1);
    if (spun == SPUN_FOUND && !STAILQ_EMPTY(&queue->events.list)) /* another thread may have taken them */
        return take_events(queue, events, most);
    return end_turn(queue, spun != SPUN_EMPTY);
}

/* Polls once, if busy polling is disabled, the same way as after a wake-up, so that no wake-up is left for what was
 * processed here. */
static int poll_once(struct queue *queue, exs_event_t *events, int most)
{
    set_turn(queue, TURN_POLLED);
    int count = xs_queue_dequeue(queue, events, most, BY_POLLING);

    xs_single_poll_learn(queue, count == 0);
    return count;
}

/* Runs the queue as the iteration's first step. */
static int begin_turn(struct queue *queue, exs_event_t *events, int most)
{
    int count = xs_queue_dequeue(queue, events, most, BY_LEVEL);

    if (!xs_spin_turn(queue, count > 0 || xs_queue_has_activity(queue)))
        set_turn(queue, TURN_BEGUN);
    else if (count > 0)
        atomic_store_explicit(&queue->busy_polls, true, memory_order_relaxed);
    return count;
}

static int continue_turn(struct queue *queue, exs_event_t *events, int most, bool has_begun)
{
    int count = 0;

    if (!xs_spin_is_off(queue))
        return spin_for_events(queue, events, most);
    if (has_begun && turn_of(queue) != TURN_POLLED && xs_single_poll_pays(queue))
        count = poll_once(queue, events, most);
    if (count > 0)
        return count;
    mutex_lock(&queue->events.lock);
    return end_turn(queue, false);
}

bool xs_loop_handles(const struct queue *queue)
{
    return batch.queue != NULL && batch.queue == queue->handle;
}

bool xs_loop_may_hold(const struct queue *home)
{
    return xs_loop_handles(home) && batch.left > 0 && --batch.left > 0;
}

void xs_loop_holds(struct queue *home)
{
    batch.holds = true;
    atomic_store_explicit(&home->waits, true, memory_order_relaxed);
}

void xs_loop_end_batch(void)
{
    struct queue *queue = batch.holds ? xs_queue_get(batch.queue) : NULL;

    batch.queue = NULL;
    batch.holds = false;
    if (queue == NULL)
        return;
    mutex_lock(&queue->lock);
    xs_conns_send_held(queue);
    xs_queue_unlock(queue);
    xs_queue_put(queue);
}

void xs_prepare_sleep_in_loop(struct queue *queue)
{
    xs_loop_end_batch();
    set_turn(queue, TURN_NONE);
    atomic_store_explicit(&queue->busy_polls, false, memory_order_relaxed);
    xs_prepare_sleep_home(queue);
}

int xs_dequeue_in_loop(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt)
{
    struct queue *queue = xs_dequeue_begin(qhandle, evtvec, evtvec_cnt);

    if (queue == NULL)
        return -1;
    bool has_begun = turn_of(queue) != TURN_NONE;
    int count = has_begun ? 0 : begin_turn(queue, evtvec, evtvec_cnt);

    if (count == 0)
        count = continue_turn(queue, evtvec, evtvec_cnt, has_begun);
    if (count > 0) {
        batch.queue = qhandle;
        batch.left = count;
    }
    xs_queue_put(queue);
    return count;
}
