/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * look.c - for event loops that watch the queue's descriptor level-triggered, as exs_ev does for libev.
 *
 * When the descriptor is readable, the loop calls xs_loop_dequeue(). If busy polling is enabled, it then calls
 * xs_loop_busy_poll(), which polls for further events before it returns to the loop, for no longer than the polling
 * time. If that passes without an event, the loop may sleep. If other watchers are pending, the descriptor is kept
 * readable, so that the loop calls back right after them.
 *
 * If busy polling is disabled, the queue is polled once per iteration: this finds events that arrived during the
 * callback without an epoll_wait(). The backoff of spin.h limits the cost of polls that find nothing.
 */
#include "queue.h"

int xs_loop_dequeue(exs_qhandle_t qhandle, exs_event_t *events, int most, bool *busy_polls)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return -1;
    int count = xs_queue_dequeue(queue, events, most, BY_LEVEL);

    if (xs_spin_is_off(queue)) {
        *busy_polls = *busy_polls && count > 0 && xs_single_poll_pays(queue);
    } else {
        *busy_polls = xs_spin_turn(queue, count > 0 || xs_queue_has_activity(queue));
        if (*busy_polls)
            atomic_store_explicit(&queue->busy_polls, count > 0, memory_order_relaxed);
    }
    xs_queue_put(queue);
    return count;
}

/* Returns the events if busy polling goes on; otherwise 0, and the loop may block. Called with events_lock,
 * which it releases. */
static int end_look(struct queue *queue, exs_event_t *events, int most, bool goes_on)
{
    int count = goes_on ? xs_events_take(queue, events, most) : 0;

    /* The descriptor stays readable as long as busy polling goes on. */
    atomic_store_explicit(&queue->is_kept_readable, goes_on, memory_order_relaxed);
    xs_events_show(queue);
    mutex_unlock(&queue->events_lock);
    atomic_store_explicit(&queue->busy_polls, count > 0, memory_order_relaxed);
    if (count > 0)
        xs_prepare_sleep_for_waiters(queue); /* this loop does not sleep yet, but the other waiters may */
    return count;
}

/* Poll once, the same way as after a wake-up, so that no wake-up is left for what was processed here. */
static int poll_once(struct queue *queue, exs_event_t *events, int most)
{
    int count = xs_queue_dequeue(queue, events, most, BY_POLLING);

    xs_single_poll_learn(queue, count == 0);
    return count;
}

static int spin(struct queue *queue, exs_event_t *events, int most, bool may_spin)
{
    /* If the descriptor is readable already, threads that complete operations need not signal it: no need to
     * count as a dequeuer. */
    bool is_readable = atomic_load_explicit(&queue->is_kept_readable, memory_order_relaxed), has_lock = false;

    if (!is_readable)
        atomic_fetch_add(&queue->dequeuers, 1);
    bool goes_on = may_spin && xs_spin_in_turn(queue, &has_lock);

    if (!has_lock)
        mutex_lock(&queue->events_lock);
    if (!is_readable)
        atomic_fetch_sub(&queue->dequeuers, 1);
    return end_look(queue, events, most, goes_on);
}

int xs_loop_busy_poll(exs_qhandle_t qhandle, exs_event_t *events, int most, bool *busy_polls)
{
    struct queue *queue = xs_queue_get(qhandle);
    int count;

    if (queue == NULL)
        return -1;
    if (*busy_polls && xs_spin_is_off(queue)) {
        count = poll_once(queue, events, most);
        *busy_polls = false;
    } else {
        count = spin(queue, events, most, *busy_polls);
        *busy_polls = *busy_polls && count > 0;
    }
    xs_queue_put(queue);
    return count;
}

void xs_loop_prepare(exs_qhandle_t qhandle)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return;
    atomic_store_explicit(&queue->busy_polls, false, memory_order_relaxed);
    xs_prepare_sleep_home(queue);
    xs_queue_put(queue);
}

void xs_loop_leave(exs_qhandle_t qhandle)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return;
    mutex_lock(&queue->events_lock);
    end_look(queue, NULL, 0, false);
    xs_prepare_sleep_home(queue);
    xs_queue_put(queue);
}
