/* SPDX-License-Identifier: BSD-2-Clause */
/* events.c - operations and their events, from the pool of a queue to exs_qdequeue. See op.h and queue.h. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/log.h"
#include "core/debug/misuse.h"
#include "core/debug/trace.h"
#include "ask.h"
#include "queue.h"
#include "socket.h"
#include "upcalls.h"
#include "wait.h"

#define OPS_AT_ONCE 32
#define OPS_PRIVATE 4 /* of a private queue: its one socket's blocking calls use few at a time */

struct op_chunk {
    STAILQ_ENTRY(op_chunk) link;
    struct op op[];
};

/* Allocate `count` operations and append them to the list. NULL: no memory. */
static struct op_chunk *new_chunk(struct op_list *list, int count)
{
    struct op_chunk *chunk = calloc(1, sizeof(*chunk) + (size_t)count * sizeof(struct op));

    for (int i = 0; chunk != NULL && i < count; i++)
        STAILQ_INSERT_TAIL(list, &chunk->op[i], link);
    return chunk;
}

/* Called with events.lock. */
static void add_chunk(struct queue *queue, struct op_chunk *chunk, int count)
{
    STAILQ_INSERT_TAIL(&queue->pool.chunks, chunk, link);
    queue->pool.ops += count;
    queue->pool.free_count += count;
}

/* Put `count` more operations into the pool; false: no memory. Called with events.lock. */
static bool ops_more(struct queue *queue, int count)
{
    struct op_chunk *chunk = new_chunk(&queue->pool.free_ops, count);

    if (chunk != NULL)
        add_chunk(queue, chunk, count);
    return chunk != NULL;
}

/* The allocation may be large, so it is done without the lock: other threads need not wait for it. */
bool xs_ops_reach(struct queue *queue, int depth)
{
    struct op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct op_chunk *chunk = NULL;

    mutex_lock(&queue->events.lock);
    int missing = depth - queue->pool.ops;

    mutex_unlock(&queue->events.lock);
    if (missing > 0 && (chunk = new_chunk(&list, missing)) == NULL)
        return false;
    mutex_lock(&queue->events.lock);
    if (chunk != NULL)
        add_chunk(queue, chunk, missing);
    STAILQ_CONCAT(&queue->pool.free_ops, &list);
    queue->pool.depth = depth;
    mutex_unlock(&queue->events.lock);
    return true;
}

/* Clear the members before `pieces`; the members behind it are set before they are read. Four wide memset()
 * calls, because compilers turn one larger memset() into a string instruction, which is slow to start. */
static void clear_op(struct op *op)
{
    const size_t all = offsetof(struct op, pieces), quarter = all / 4;
    uint8_t *at = (uint8_t *)op;

    memset(at, 0, quarter);
    memset(at + quarter, 0, quarter);
    memset(at + 2 * quarter, 0, quarter);
    memset(at + 3 * quarter, 0, all - 3 * quarter);
}

/* Take the first operation of the list. */
static struct op *take_free(struct op_list *list, struct queue *queue)
{
    struct op *op = STAILQ_FIRST(list);

    STAILQ_REMOVE_HEAD(list, link);
    clear_op(op);
    op->pool = queue;
    return op;
}

static struct op *fill_op(struct op *op, int type, int sockno, exs_ahandle_t ahandle, struct waiter *waiter)
{
    if (op == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    op->event.exs_evt_type = type;
    op->event.exs_evt_socket = sockno;
    op->event.exs_evt_ahandle = ahandle;
    op->waiter = waiter;
    return op;
}

/* Make sure that the pool has a free operation. Called with events.lock. False: no memory. */
static bool have_free(struct queue *queue)
{
    return !STAILQ_EMPTY(&queue->pool.free_ops) ||
           ops_more(queue, queue->handle != NULL ? OPS_AT_ONCE : OPS_PRIVATE);
}

void xs_ops_return(struct queue *queue)
{
    mutex_lock(&queue->events.lock);
    if (STAILQ_EMPTY(&queue->pool.free_ops)) {
        const struct op *op;

        STAILQ_FOREACH (op, &queue->own.free_ops, link)
            queue->pool.free_count++;
        STAILQ_CONCAT(&queue->pool.free_ops, &queue->own.free_ops);
    }
    mutex_unlock(&queue->events.lock);
}

/* The pool is empty: take back free operations from own.free_ops. The caller may hold the lock of another queue, so
 * it only tries to lock this queue. */
static __attribute__((noinline)) void try_return(struct queue *queue)
{
    mutex_unlock(&queue->events.lock);
    if (mutex_trylock(&queue->lock)) {
        xs_ops_return(queue);
        mutex_unlock(&queue->lock);
    }
    mutex_lock(&queue->events.lock);
}

struct op *xs_op_new(struct queue *queue, struct attachment *attachment, int type, int sockno,
                     exs_ahandle_t ahandle, struct waiter *waiter)
{
    struct op *op = NULL;

    mutex_lock(&queue->events.lock);
    if (STAILQ_EMPTY(&queue->pool.free_ops))
        try_return(queue);
    if (have_free(queue)) {
        op = take_free(&queue->pool.free_ops, queue);
        op->attachment = attachment;
        if (attachment != NULL)
            xs_attachment_use(attachment, 1);
        queue->pool.free_count--;
        xs_queue_ref(queue);
        queue->pool.pending++;
    }
    mutex_unlock(&queue->events.lock);
    return fill_op(op, type, sockno, ahandle, waiter);
}

/* Move several free operations to own.free_ops at once, because the lock costs more than the move. No more than
 * OPS_AT_ONCE are moved: otherwise xs_op_new() would find none and allocate more, which would be moved in turn,
 * without end. */
static void take_over_free(struct queue *queue)
{
    mutex_lock(&queue->events.lock);
    if (have_free(queue) && queue->pool.free_count <= OPS_AT_ONCE) {
        STAILQ_CONCAT(&queue->own.free_ops, &queue->pool.free_ops);
        queue->pool.free_count = 0;
    } else {
        for (int i = 0; i < OPS_AT_ONCE && !STAILQ_EMPTY(&queue->pool.free_ops);
             i++, queue->pool.free_count--) {
            struct op *op = STAILQ_FIRST(&queue->pool.free_ops);

            STAILQ_REMOVE_HEAD(&queue->pool.free_ops, link);
            STAILQ_INSERT_TAIL(&queue->own.free_ops, op, link);
        }
    }
    mutex_unlock(&queue->events.lock);
}

/* No reference to the queue is needed: the socket that the queue drives holds one. */
static inline struct op *take_own(struct queue *queue)
{
    struct op *op = take_free(&queue->own.free_ops, queue);

    op->at_home = true;
    queue->own.pending++;
    return op;
}

static __attribute__((noinline)) struct op *take_own_or_more(struct queue *queue, int type, int sockno,
                                                             exs_ahandle_t ahandle, struct waiter *waiter)
{
    take_over_free(queue);
    return fill_op(STAILQ_EMPTY(&queue->own.free_ops) ? NULL : take_own(queue), type, sockno, ahandle, waiter);
}

inline __attribute__((always_inline)) struct op *xs_op_new_at_home(struct queue *queue, int type, int sockno,
                                                                   exs_ahandle_t ahandle, struct waiter *waiter)
{
    if (STAILQ_EMPTY(&queue->own.free_ops))
        return take_own_or_more(queue, type, sockno, ahandle, waiter);
    return fill_op(take_own(queue), type, sockno, ahandle, waiter);
}

/* Called with events.lock. */
static void op_free(struct queue *queue, struct op *op)
{
    STAILQ_INSERT_HEAD(&queue->pool.free_ops, op, link);
    queue->pool.free_count++;
}

/* Called with events.lock. */
static void raise_events(struct queue *queue)
{
    doorbell_set(&queue->events.raise, true);
}

void xs_queue_tell(struct queue *queue)
{
    mutex_lock(&queue->events.lock);
    STAILQ_CONCAT(&queue->events.list, &queue->own.done);
    if (atomic_load(&queue->events.dequeuers) == 0)
        raise_events(queue);
    mutex_unlock(&queue->events.lock);
}

/* Move an operation that has ended to the list of events or, if it has none, to the free operations. */
static inline __attribute__((always_inline)) void give_at_home(struct queue *queue, struct op *op,
                                                               bool has_event)
{
    queue->own.pending--;
    if (has_event)
        STAILQ_INSERT_TAIL(&queue->own.done, op, link);
    else
        STAILQ_INSERT_HEAD(&queue->own.free_ops, op, link);
}

/* Like give_at_home(), for an operation that was not made at_home. Drops its reference to the queue. */
static void give_elsewhere(struct queue *queue, struct op *op, bool has_event)
{
    mutex_lock(&queue->events.lock);
    queue->pool.pending--;
    if (op->attachment != NULL)
        xs_attachment_use(op->attachment, -1);
    if (!has_event) {
        op_free(queue, op);
    } else {
        STAILQ_INSERT_TAIL(&queue->events.list, op, link);
        if (atomic_load(&queue->events.dequeuers) == 0)
            raise_events(queue);
    }
    mutex_unlock(&queue->events.lock);
    xs_queue_unref(queue);
}

/* The operation's queue may be freed by this. */
static void release_op(struct op *op, bool has_event)
{
    if (op->at_home)
        give_at_home(op->pool, op, has_event);
    else
        give_elsewhere(op->pool, op, has_event);
}

/* The event is copied first, because the operation may be reused as soon as it is free. The queue stays valid:
 * the waiter has a reference to it. */
static void deliver_op(struct op *op)
{
    struct waiter *waiter = op->waiter;
    exs_event_t event = op->event;

    release_op(op, false);
    waiter->deliver(waiter, &event);
}

void xs_op_moved(struct op *op, uint64_t bytes)
{
    if (op->event.exs_evt_type == EXS_EVT_SEND || op->event.exs_evt_type == EXS_EVT_RECV) {
        op->event.exs_evt_union.exs_evt_xfer.exs_evt_length = bytes;
        return;
    }
    switch (op->event.exs_evt_type) {
    case EXS_EVT_SENDFILE:
    case EXS_EVT_RECVFILE:
        op->event.exs_evt_union.exs_evt_xferfile.exs_evt_length = (off_t)bytes;
        break;
    case EXS_EVT_SENDMSG:
    case EXS_EVT_RECVMSG:
        op->event.exs_evt_union.exs_evt_xfermsg.exs_evt_length = bytes;
        break;
    case EXS_EVT_SHUTDOWN:
        break;
    default:
        op->event.exs_evt_union.exs_evt_xfer.exs_evt_length = bytes;
    }
}

void xs_op_flag(struct op *op, int flag)
{
    if (op->event.exs_evt_type == EXS_EVT_RECVMSG)
        op->event.exs_evt_union.exs_evt_xfermsg.exs_evt_flags |= flag;
    else if (op->event.exs_evt_type == EXS_EVT_RECVFILE)
        op->event.exs_evt_union.exs_evt_xferfile.exs_evt_flags |= flag;
    else
        op->event.exs_evt_union.exs_evt_xfer.exs_evt_flags |= flag;
}

/* Report the end of an operation to the trace (EXS_DEBUG=2) and to the checks of EXS_CHECK. */
static void tell_of(struct op *op)
{
    if (xs_tracing)
        xs_trace_done(op);
    if (xs_misuse_on)
        xs_misuse_completed(op);
}

/* Out of line, because most operations don't need it. */
static __attribute__((noinline)) void complete_otherwise(struct op *op, bool has_event)
{
    if (xs_watched)
        tell_of(op);
    if (op->waiter != NULL)
        deliver_op(op);
    else
        release_op(op, has_event);
}

inline __attribute__((always_inline)) void xs_op_complete(struct op *op, int error)
{
    bool silent = op->silent || (op->unsignaled && error == 0);

    op->event.exs_evt_errno = error;
    XS_PROBE_DONE(&op->event);
    if (xs_watched || op->waiter != NULL || !op->at_home) {
        complete_otherwise(op, !silent);
        return;
    }
    give_at_home(op->pool, op, !silent);
}

void xs_op_cancel(struct op *op)
{
    release_op(op, false);
}

/* Events that were never dequeued are discarded with the queue. If one of them is that of a failed send, that counts as
 * reported. */
void xs_ops_free(struct queue *queue)
{
    struct op_chunk *chunk;
    const struct op *op;

    STAILQ_FOREACH (op, &queue->events.list, link) {
        if (op->unreported)
            xs_sock_reported(op->event.exs_evt_socket, op->out.identity);
    }
    while ((chunk = STAILQ_FIRST(&queue->pool.chunks)) != NULL) {
        STAILQ_REMOVE_HEAD(&queue->pool.chunks, link);
        free(chunk);
    }
}

/* ---- Dequeuing ------------------------------------------------------------------------- */

int xs_events_take(struct queue *queue, exs_event_t *events, int most)
{
    int count = 0;

    while (count < most && !STAILQ_EMPTY(&queue->events.list)) {
        struct op *op = STAILQ_FIRST(&queue->events.list);

        STAILQ_REMOVE_HEAD(&queue->events.list, link);
        events[count++] = op->event;
        if (op->unreported)
            xs_sock_reported(op->event.exs_evt_socket, op->out.identity);
        op_free(queue, op);
    }
    queue->events.taken += (unsigned)count;
    return count;
}

void xs_events_show(struct queue *queue)
{
    bool is_kept = atomic_load_explicit(&queue->events.is_kept_readable, memory_order_relaxed);

    doorbell_set(&queue->events.raise, is_kept || !STAILQ_EMPTY(&queue->events.list) ||
                                           queue->attached.has_stuck || queue->events.is_stuck);
}

int xs_queue_dequeue(struct queue *queue, exs_event_t *events, int most, enum watched watched)
{
    struct turn turn = {.watched = watched};

    atomic_fetch_add(&queue->events.dequeuers, 1);
    xs_turn(queue, &turn);
    int count = xs_events_take(queue, events, most);

    if (watched != BY_POLLING) { /* a poll without a wake-up is not counted */
        queue->events.turns++;
        queue->events.empty_turns += count == 0;
    }
    atomic_fetch_sub(&queue->events.dequeuers, 1);
    if (watched == BY_EDGE)
        atomic_store_explicit(&queue->events.is_kept_readable, false,
                              memory_order_relaxed); /* this flag concerns only event loops */
    queue->events.is_stuck = turn.stuck;
    if (turn.stuck || (turn.left && watched == BY_EDGE))
        doorbell_retrigger(&queue->events.raise);
    else
        xs_events_show(queue);
    mutex_unlock(&queue->events.lock);
    return count;
}

struct queue *xs_dequeue_begin(exs_qhandle_t qhandle, const exs_event_t *evtvec, int evtvec_cnt)
{
    if (evtvec_cnt < 1 || evtvec_cnt > EXS_EVTVEC_MAX) {
        xs_invalid("evtvec_cnt is %d: from 1 to EXS_EVTVEC_MAX, %d", evtvec_cnt, EXS_EVTVEC_MAX);
        return NULL;
    }
    xs_loop_end_batch();
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL) {
        xs_no_queue(qhandle);
        return NULL;
    }
    if (evtvec == NULL || (uintptr_t)evtvec > UINTPTR_MAX - (size_t)evtvec_cnt * sizeof(*evtvec)) {
        xs_queue_put(queue);
        xs_nowhere("evtvec");
        return NULL;
    }
    return queue;
}

int xs_dequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt)
{
    struct queue *queue = xs_dequeue_begin(qhandle, evtvec, evtvec_cnt);

    if (queue == NULL)
        return -1;
    int count = xs_queue_dequeue(queue, evtvec, evtvec_cnt, BY_EDGE);

    xs_queue_put(queue);
    return count;
}
