/* SPDX-License-Identifier: BSD-2-Clause */
/* queue.c - event queues: making and deleting them. run.c has a pass over one. See queue.h. */
#include <errno.h>
#include <stdlib.h>
#include "core/base/entry.h"
#include "core/base/handle.h"
#include "core/base/log.h"
#include "core/device/registry.h"
#include "nic.h"
#include "queue.h"
#include "socket.h"
#include "upcalls.h"
#include "wait.h"

static struct handle_table handles = HANDLE_TABLE_INIT;

void xs_run(struct queue *home)
{
    struct turn turn = {.watched = BY_LEVEL};

    mutex_lock(&home->lock);
    xs_turn_home(home, &turn);
    xs_queue_unlock(home);
}

void xs_prepare_sleep_home(struct queue *home)
{
    if (!atomic_load_explicit(&home->waits, memory_order_relaxed))
        return;
    mutex_lock(&home->lock);
    xs_queue_prepare_sleep(home);
    xs_queue_unlock(home);
}

void xs_prepare_sleep_for_waiters(struct queue *home)
{
    if (atomic_load_explicit(&home->others, memory_order_relaxed) > 0)
        xs_prepare_sleep_home(home);
}

/* ---- Making and deleting ------------------------------------------------------------------------------- */

struct queue *xs_queue_new(bool private, int depth)
{
    struct queue *queue = calloc(1, sizeof(*queue));

    if (queue == NULL)
        return NULL;
    mutex_init(&queue->lock);
    mutex_init(&queue->events.lock);
    STAILQ_INIT(&queue->events.list);
    STAILQ_INIT(&queue->pool.free_ops);
    STAILQ_INIT(&queue->own.free_ops);
    STAILQ_INIT(&queue->own.done);
    STAILQ_INIT(&queue->pool.chunks);
    TAILQ_INIT(&queue->time.socks);
    TAILQ_INIT(&queue->hosts.standby);
    TAILQ_INIT(&queue->attached.idle);
    atomic_init(&queue->refs, 1);
    queue->fd = -1;
    for (int i = 0; i < DEPTH_PROBES; i++)
        queue->attached.depth_probe[i] = -1;
    xs_spin_init(&queue->spin);
    queue->events.raise = (struct doorbell)DOORBELL_INIT(DOORBELL_PLAIN);
    queue->time.timer = (struct doorbell)DOORBELL_INIT(DOORBELL_TIMED);
    queue->time.device_due = NEVER_NS;
    queue->attached.poll_timer = (struct doorbell)DOORBELL_INIT(DOORBELL_TIMED);
    if (!xs_ops_reach(queue, depth))
        goto no_memory;
    if (private)
        return queue;

    if (xs_queue_make_descriptor(queue) < 0)
        goto fail;
    queue->handle = xs_handle_make(&handles, queue);
    if (queue->handle == NULL)
        goto fail;
    queue->slot = xs_handle_slot(&handles, queue->handle);
    return queue;
no_memory:
    errno = ENOMEM;
fail:
    xs_queue_unref(queue);
    return NULL;
}

inline struct queue *xs_queue_get(exs_qhandle_t handle)
{
    return xs_handle_get(&handles, handle);
}

inline void xs_queue_put(struct queue *queue)
{
    if (queue != NULL)
        handle_leave(queue->slot);
}

struct handle_table *xs_queue_handles(void)
{
    return &handles;
}

void xs_queue_ref(struct queue *queue)
{
    atomic_fetch_add_explicit(&queue->refs, 1, memory_order_relaxed);
}

/* Close everything that drives sockets. It is made again when it is needed. */
static void close_sources(struct queue *queue)
{
    struct nic *nic;

    xs_polls_leave(queue);
    while ((nic = LIST_FIRST(&queue->channels.nics)) != NULL)
        xs_nic_free(nic);
    for (int i = 0; i < DEVICES_MAX; i++) {
        if (queue->channels.cm[i] == NULL)
            continue;
        xs_queue_unwatch(queue, queue->channels.cm[i]->fd, queue->channels.cm_waits[i]);
        xs_device(i)->destroy_event_channel(queue->channels.cm[i]);
        queue->channels.cm[i] = NULL;
    }
    xs_queue_drop_timer(queue);
}

static __attribute__((cold)) void free_queue(struct queue *queue)
{
    int saved = errno;

    close_sources(queue);
    xs_queue_close_descriptor(queue);
    xs_ops_free(queue);
    free(queue);
    errno = saved;
}

inline void xs_queue_unref(struct queue *queue)
{
    if (atomic_fetch_sub_explicit(&queue->refs, 1, memory_order_acq_rel) == 1)
        free_queue(queue);
}

void xs_queue_strip(struct queue *queue, int refs)
{
    const struct sock *sock = LIST_FIRST(&queue->socks);

    if (queue->handle == NULL && atomic_load(&queue->refs) == refs && sock != NULL &&
        sock->state == SOCK_FRESH && !xs_sock_has_peer(sock))
        close_sources(queue);
    atomic_store(&queue->failed, false);
}

void xs_release_home(struct queue *home)
{
    /* Pairs with the release store in xs_open_failed(). */
    if (atomic_load_explicit(&home->failed, memory_order_acquire)) {
        mutex_lock(&home->lock);
        xs_queue_strip(home, 2); /* references: the socket's, and the caller's */
        xs_queue_unlock(home);
    }
    xs_queue_unref(home);
}

uint32_t xs_queue_count(void)
{
    return xs_handle_count(&handles);
}

void xs_queue_reset(void)
{
    xs_handle_reset(&handles);
}

int xs_check_depth(int depth)
{
    if (depth >= 0 && depth <= EXS_QDEPTH_MAX)
        return 0;
    return xs_invalid("depth is %d: from 0 to EXS_QDEPTH_MAX, %d", depth, EXS_QDEPTH_MAX);
}

exs_qhandle_t xs_queue_make(int depth)
{
    struct queue *queue = xs_queue_new(false, depth);

    return queue != NULL ? queue->handle : EXS_QHANDLE_INVALID;
}

exs_qhandle_t exs_qcreate(int depth)
{
    if (xs_enter(__func__) < 0 || xs_check_depth(depth) < 0)
        return EXS_QHANDLE_INVALID;
    exs_qhandle_t queue = xs_queue_make(depth);

    if (queue == EXS_QHANDLE_INVALID && errno != ENOMEM)
        errno = EAGAIN; /* no descriptor available: a later call may succeed */
    return queue;
}

int xs_queue_own_socks(const struct queue *queue)
{
    const struct sock *sock;
    int count = queue->attached.migrated;

    LIST_FOREACH (sock, &queue->socks, at_home)
        count += sock->owner == queue;
    return count;
}

int xs_queue_own_pending(const struct queue *queue)
{
    const struct sock *sock;
    int count = queue->pool.pending + queue->own.pending;

    LIST_FOREACH (sock, &queue->socks, at_home) {
        if (sock->owner != queue)
            count -= xs_sock_foreign_ops(sock, queue);
    }
    return count;
}

/* The queue was deleted. It may still drive sockets that are owned by other queues. */
static void become_private(struct queue *queue)
{
    mutex_lock(&queue->lock);
    xs_queue_close_descriptor(queue);
    if (LIST_EMPTY(&queue->hosts.list))
        xs_queue_hide(queue);
    xs_queue_unlock(queue);
}

int exs_qdelete(exs_qhandle_t qhandle)
{
    if (xs_enter(__func__) < 0)
        return -1;
    struct queue *queue = xs_handle_begin_take(&handles, qhandle);

    if (queue == NULL)
        return xs_no_queue(qhandle);
    /* Another thread that is about to start an operation on this queue waits for these locks, or is counted already:
     * its operation as pending, or the thread as a user of the handle. */
    mutex_lock(&queue->lock);
    mutex_lock(&queue->events.lock);
    bool busy =
        xs_queue_own_pending(queue) > 0 || xs_queue_own_socks(queue) > 0 || !xs_handle_take(&handles, qhandle);

    if (!busy)
        queue->handle = NULL;
    mutex_unlock(&queue->events.lock);
    if (!busy && LIST_EMPTY(&queue->socks))
        xs_queue_leave_hosts(queue);
    xs_queue_unlock(queue);
    xs_handle_end_take(&handles);
    if (busy) {
        errno = EBUSY;
        return -1;
    }
    /* Two queues that are attached to each other would hold references to each other for ever. */
    xs_queue_release_attachments(queue);
    become_private(queue);
    xs_queue_unref(queue);
    return 0;
}

int exs_qfd(exs_qhandle_t qhandle)
{
    if (xs_enter(__func__) < 0)
        return -1;
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return xs_no_queue(qhandle);
    int fd = queue->fd;

    xs_queue_put(queue);
    return fd;
}
