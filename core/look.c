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

    *looks_on =
        atomic_load_explicit(&queue->spin.ns, memory_order_relaxed) != 0 && xs_spin_turn(queue, count > 0);
    if (*looks_on)
        atomic_store_explicit(&queue->looks_on, count > 0, memory_order_relaxed);
    xs_queue_put(queue);
    return count;
}

/* What has come, if the look goes on; else none, and the loop may sleep. Called by one of the queue's
 * dequeuers. */
static int end_look(struct queue *queue, exs_event_t *events, int most, bool goes_on)
{
    mutex_lock(&queue->events_lock);
    int count = goes_on ? xs_events_take(queue, events, most) : 0;

    atomic_fetch_sub(&queue->dequeuers, 1);
    queue->is_kept_readable = goes_on; /* and stays so as long as looking pays */
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
    atomic_fetch_add(&queue->dequeuers, 1);
    bool goes_on = may_spin && xs_spin_in_turn(queue);
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
    atomic_fetch_add(&queue->dequeuers, 1);
    end_look(queue, NULL, 0, false);
    xs_rest_home(queue);
    xs_queue_put(queue);
}
