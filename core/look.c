/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * look.c - a queue in a loop that watches its descriptor by level, as exs_ev does for libev.
 *
 * The loop's turn begins when the descriptor is readable: xs_loop_dequeue. Where looking pays, the next events
 * are then looked for without going back to the loop, for no longer than the time to spin: xs_loop_look. After
 * that either nothing came for so long, and the loop may sleep; or others have their turn, and the descriptor
 * is kept readable, so that the loop comes back as soon as they have had it.
 */
#include "queue.h"

int xs_loop_dequeue(exs_qhandle_t qhandle, exs_event_t *events, int most, bool *looks_on)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return -1;
    int count = xs_queue_dequeue(queue, events, most, BY_LEVEL);

    *looks_on = atomic_load_explicit(&queue->spin.ns, memory_order_relaxed) != 0 &&
                xs_spin_turn(queue, count > 0 || xs_queue_stirs(queue));
    if (*looks_on)
        atomic_store_explicit(&queue->looks_on, count > 0, memory_order_relaxed);
    xs_queue_put(queue);
    return count;
}

/* What has come, if the look goes on; else none, and the loop may sleep. Called with events_lock, and gives it back. */
static int end_look(struct queue *queue, exs_event_t *events, int most, bool goes_on)
{
    int count = goes_on ? xs_events_take(queue, events, most) : 0;

    /* And stays so as long as looking pays. */
    atomic_store_explicit(&queue->is_kept_readable, goes_on, memory_order_relaxed);
    xs_events_show(queue);
    mutex_unlock(&queue->events_lock);
    atomic_store_explicit(&queue->looks_on, count > 0, memory_order_relaxed);
    if (count > 0)
        xs_rest_for_others(queue); /* the loop does not sleep yet, but they may */
    return count;
}

int xs_loop_look(exs_qhandle_t qhandle, exs_event_t *events, int most, bool may_spin)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return -1;
    /* Who completes something need not make it so. */
    bool is_readable = atomic_load_explicit(&queue->is_kept_readable, memory_order_relaxed), has_lock = false;

    if (!is_readable)
        atomic_fetch_add(&queue->dequeuers, 1);
    bool goes_on = may_spin && xs_spin_in_turn(queue, &has_lock);

    if (!has_lock)
        mutex_lock(&queue->events_lock);
    if (!is_readable)
        atomic_fetch_sub(&queue->dequeuers, 1);
    int count = end_look(queue, events, most, goes_on);

    xs_queue_put(queue);
    return count;
}

void xs_loop_rest(exs_qhandle_t qhandle)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return;
    atomic_store_explicit(&queue->looks_on, false, memory_order_relaxed);
    xs_rest_home(queue);
    xs_queue_put(queue);
}

void xs_loop_leave(exs_qhandle_t qhandle)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return;
    mutex_lock(&queue->events_lock);
    end_look(queue, NULL, 0, false);
    xs_rest_home(queue);
    xs_queue_put(queue);
}
