/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * misuse.c - EXS_CHECK: reports handles that are used after they were freed, and events that are not dequeued. See
 * misuse.h.
 *
 * A program that waits for the wrong queue does not call the library any more. Therefore a thread checks all queues
 * once a second, and runs a queue whose descriptor was readable at two checks in a row while no thread used it.
 */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include "core/base/clock.h"
#include "core/base/doorbell.h"
#include "core/base/handle.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "core/base/threads.h"
#include "core/queue/queue.h"
#include "core/queue/upcalls.h"
#include "core/queue/wait.h"
#include "misuse.h"

#define LOOK_MS 1000

bool xs_misuse_on;

/* Used to end the thread; `is_watching`: the thread exists. Only exs_init() and exs_fini() use them, one call
 * at a time. */
static struct doorbell wakefd = DOORBELL_INIT(DOORBELL_PLAIN);
static pthread_t watcher;
static bool is_watching;

const char *xs_misuse_name(int type)
{
    static const char *const names[] = {
        [EXS_EVT_CONNECT] = "exs_connect",   [EXS_EVT_ACCEPT] = "exs_accept",
        [EXS_EVT_SEND] = "exs_send",         [EXS_EVT_RECV] = "exs_recv",
        [EXS_EVT_SENDFILE] = "exs_sendfile", [EXS_EVT_SHUTDOWN] = "exs_shutdown",
        [EXS_EVT_CLOSE] = "exs_close",       [EXS_EVT_RREAD] = "exs_rread",
        [EXS_EVT_RWRITE] = "exs_rwrite",     [EXS_EVT_SENDMSG] = "exs_sendmsg",
        [EXS_EVT_RECVMSG] = "exs_recvmsg",   [EXS_EVT_RECVFILE] = "exs_recvfile",
        [EXS_EVT_POLL] = "exs_poll",
    };

    return names[type];
}

/* ---- Handles ------------------------------------------------------------------------------------ */

void xs_misuse_call(const char *call, int sockno)
{
    if (!xs_misuse_on)
        return;
    if (xs_sock_was(sockno))
        xs_misused("%s: socket %d is gone: exs_close was called for it before", call, sockno);
}

void xs_misuse_handle(struct handle_table *table, const char *kind, const void *handle, const char *ended_by)
{
    if (xs_handle_is_parents(table, handle))
        xs_misused("%s: %s %p belongs to the process that forked", xs_last_call.name, kind, handle);
    else if (xs_handle_was(table, handle))
        xs_misused("%s: %s %p is gone: %s was called for it before", xs_last_call.name, kind, handle, ended_by);
}

int xs_no_queue(exs_qhandle_t handle)
{
    if (xs_misuse_on)
        xs_misuse_handle(xs_queue_handles(), "qhandle", handle, "exs_qdelete");
    return xs_invalid("qhandle is not a queue");
}

/* ---- Events ------------------------------------------------------------------------------------- */

void xs_misuse_completed(struct op *op)
{
    xs_held_end(op);
    if (op->waiter == NULL)
        op->deadline = now_ns(); /* the operation does not use it any more; here: the time of completion */
}

/* Report the queue's first event if it was not dequeued for UNTAKEN_S, once. Called with events.lock. */
static void look_at_event(const struct queue *queue, uint64_t now)
{
    struct op *op = STAILQ_FIRST(&queue->events.list);

    if (op == NULL || ns_after(op->deadline, UNTAKEN_S * NS_PER_S) > now)
        return;
    op->deadline = NEVER_NS;
    xs_misused("%s on socket %d: its event has waited on queue %p for %d s: call exs_qdequeue",
               xs_misuse_name(op->event.exs_evt_type), op->event.exs_evt_socket, queue->handle, UNTAKEN_S);
}

/* Has no thread polled the queue since the last check? Called with both locks. */
static bool is_left_alone(struct queue *queue)
{
    bool is_left =
        queue->untaken.turns == queue->events.turns && queue->untaken.completions == queue->completions;

    queue->untaken.turns = queue->events.turns;
    queue->untaken.completions = queue->completions;
    return is_left;
}

static bool is_readable(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};

    return poll(&look, 1, 0) == 1;
}

/* Check one queue. Called only by the checking thread, while no thread can delete the queue. A readable
 * descriptor may mean an event or internal work of the library: one pass tells which. */
static void look_at(void *object, void *unused)
{
    struct queue *queue = object;

    (void)unused;
    mutex_lock(&queue->lock);
    mutex_lock(&queue->events.lock);
    bool has_events = !STAILQ_EMPTY(&queue->events.list);
    bool waits = is_left_alone(queue) && !has_events && queue->pool.pending + queue->own.pending > 0;

    if (has_events)
        look_at_event(queue, now_ns());
    mutex_unlock(&queue->events.lock);
    xs_queue_unlock(queue);
    bool readable = waits && is_readable(queue->fd);

    if (readable && queue->untaken.readable)
        xs_queue_dequeue(queue, NULL, 0, BY_EDGE);
    queue->untaken.readable = readable;
}

static void *watch_queues(void *unused)
{
    struct pollfd ring = {.fd = wakefd.fd, .events = POLLIN};

    (void)unused;
    pthread_setname_np(pthread_self(), "exs-check");
    do
        xs_handles_each(xs_queue_handles(), look_at, NULL);
    while (poll(&ring, 1, LOOK_MS) == 0);
    return NULL;
}

/* ---- On and off --------------------------------------------------------------------------------- */

void xs_misuse_begin(void)
{
    int error = 0;

    xs_misuse_on = settings()->check;
    xs_held_reset();
    is_watching = false;
    /* a forked child has closed the parent's descriptor */
    wakefd = (struct doorbell)DOORBELL_INIT(DOORBELL_PLAIN);
    if (!xs_misuse_on)
        return;
    if (doorbell_make(&wakefd) < 0 || (error = threads_start(&watcher, watch_queues)) != 0)
        xs_log("EXS_CHECK: cannot start a thread: %s; events that are never dequeued are not reported",
               strerror(error));
    else
        is_watching = true;
}

void xs_misuse_end(void)
{
    if (is_watching) {
        doorbell_signal(&wakefd);
        pthread_join(watcher, NULL);
    }
    is_watching = xs_misuse_on = false;
    doorbell_close(&wakefd);
}
