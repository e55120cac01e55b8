/* SPDX-License-Identifier: BSD-2-Clause */
/* Event queues: making and deleting them, and the descriptors that they watch. See queue.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "core.h"
#include "fds.h"
#include "handle.h"
#include "library.h"
#include "nic.h"
#include "queue.h"
#include "sock.h"

static struct handle_table handles = HANDLE_TABLE_INIT;

/* ---- Descriptors --------------------------------------------------------------------------------------- */

static int watch_own(const struct queue *queue, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}; /* no guest's */

    return queue->fd >= 0 ? fds_watch(queue->fd, fd, &event) : 0;
}

/* In its own epoll and in those of the hosts before `end`. */
static void unwatch_until(const struct queue *queue, const struct guest *end, int fd)
{
    const struct guest *guest;

    if (queue->fd >= 0)
        fds_unwatch(queue->fd, fd);
    LIST_FOREACH (guest, &queue->hosts, of_home) {
        if (guest == end)
            return;
        xs_guest_unwatch(guest, fd);
    }
}

static int watch_everywhere(struct queue *queue, int fd)
{
    struct guest *guest;

    if (watch_own(queue, fd) < 0)
        return -1;
    LIST_FOREACH (guest, &queue->hosts, of_home) {
        if (xs_guest_watch(guest, fd) < 0) {
            int saved = errno;

            unwatch_until(queue, guest, fd);
            errno = saved;
            return -1;
        }
    }
    return 0;
}

int xs_queue_watch(struct queue *queue, int fd)
{
    struct source *source;
    int count = 0;

    LIST_FOREACH (source, &queue->sources, link)
        count++;
    if (count == XS_SOURCES_MAX) {
        xs_log("a queue has %d devices and event channels, and can't have more", count);
        errno = ENOSPC;
        return -1;
    }
    source = malloc(sizeof(*source));
    if (source == NULL)
        return -1;
    source->fd = fd;
    if (watch_everywhere(queue, fd) < 0) {
        free(source);
        return -1;
    }
    LIST_INSERT_HEAD(&queue->sources, source, link);
    return 0;
}

void xs_queue_unwatch(struct queue *queue, int fd)
{
    struct source *source;

    LIST_FOREACH (source, &queue->sources, link) {
        if (source->fd != fd)
            continue;
        unwatch_until(queue, NULL, fd);
        LIST_REMOVE(source, link);
        free(source);
        return;
    }
}

int xs_sources(struct queue *home, int fds[XS_SOURCES_MAX], uint64_t *deadline)
{
    const struct source *source;
    int count = 0;

    pthread_mutex_lock(&home->lock);
    const struct sock *first = TAILQ_FIRST(&home->timed);

    *deadline = first != NULL ? first->deadline : UINT64_MAX;
    LIST_FOREACH (source, &home->sources, link)
        fds[count++] = source->fd;
    xs_queue_unlock(home);
    return count;
}

void xs_run(struct queue *home)
{
    struct turn turn = {.watched = BY_LEVEL};

    pthread_mutex_lock(&home->lock);
    xs_turn_home(home, &turn);
    xs_queue_unlock(home);
}

void xs_rest_home(struct queue *home)
{
    if (!atomic_load_explicit(&home->waits, memory_order_relaxed))
        return;
    pthread_mutex_lock(&home->lock);
    xs_queue_rest(home);
    xs_queue_unlock(home);
}

void xs_rest(exs_qhandle_t qhandle)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return;
    xs_rest_home(queue);
    xs_queue_put(queue);
}

/* ---- Making and deleting ------------------------------------------------------------------------------- */

struct queue *xs_queue_new(bool private, int depth)
{
    struct queue *queue = calloc(1, sizeof(*queue));

    if (queue == NULL)
        return NULL;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_mutex_init(&queue->events_lock, NULL);
    STAILQ_INIT(&queue->events);
    STAILQ_INIT(&queue->free_ops);
    STAILQ_INIT(&queue->own_free);
    STAILQ_INIT(&queue->done);
    STAILQ_INIT(&queue->chunks);
    TAILQ_INIT(&queue->timed);
    atomic_init(&queue->refs, 1);
    queue->fd = queue->raise = queue->timer = -1;
    if (depth > 0 && !xs_ops_more(queue, depth))
        goto no_memory;
    if (private)
        return queue;

    queue->fd = fds_epoll();
    queue->raise = fds_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (queue->fd < 0 || queue->raise < 0 || watch_own(queue, queue->raise) < 0)
        goto fail;
    queue->handle = xs_handle_make(&handles, queue);
    if (queue->handle == NULL)
        goto fail;
    return queue;
no_memory:
    errno = ENOMEM;
fail:
    xs_queue_unref(queue);
    return NULL;
}

struct queue *xs_queue_get(exs_qhandle_t handle)
{
    return xs_handle_get(&handles, handle);
}

void xs_queue_put(struct queue *queue)
{
    if (queue != NULL)
        xs_handle_put(&handles, queue->handle);
}

void xs_queue_ref(struct queue *queue)
{
    atomic_fetch_add_explicit(&queue->refs, 1, memory_order_relaxed);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        fds_close(*fd);
    *fd = -1;
}

/* All that drives sockets. What is needed again is made again. */
static void close_sources(struct queue *queue)
{
    struct nic *nic;

    while ((nic = LIST_FIRST(&queue->nics)) != NULL)
        xs_nic_free(nic);
    for (int i = 0; i < DEVICES_MAX; i++) {
        if (queue->channel[i] == NULL)
            continue;
        xs_queue_unwatch(queue, queue->channel[i]->fd);
        xs_device(i)->destroy_event_channel(queue->channel[i]);
        queue->channel[i] = NULL;
    }
    if (queue->timer >= 0)
        xs_queue_unwatch(queue, queue->timer);
    close_fd(&queue->timer);
    queue->timer_set = 0;
}

void xs_queue_unref(struct queue *queue)
{
    if (atomic_fetch_sub_explicit(&queue->refs, 1, memory_order_acq_rel) != 1)
        return;
    int saved = errno;

    close_sources(queue);
    close_fd(&queue->raise);
    close_fd(&queue->fd);
    xs_ops_free(queue);
    pthread_mutex_destroy(&queue->lock);
    pthread_mutex_destroy(&queue->events_lock);
    free(queue);
    errno = saved;
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
    if (atomic_load_explicit(&home->failed, memory_order_acquire)) { /* pairs with xs_open_failed */
        pthread_mutex_lock(&home->lock);
        xs_queue_strip(home, 2); /* the socket's, and this */
        xs_queue_unlock(home);
    }
    xs_queue_unref(home);
}

void xs_queue_reset(void)
{
    xs_handle_reset(&handles);
}

exs_qhandle_t exs_qcreate(int depth)
{
    if (xs_enter() < 0)
        return EXS_QHANDLE_INVALID;
    if (depth < 0 || depth > EXS_QDEPTH_MAX) {
        xs_invalid("depth is %d: from 0 to EXS_QDEPTH_MAX, %d", depth, EXS_QDEPTH_MAX);
        return EXS_QHANDLE_INVALID;
    }
    struct queue *queue = xs_queue_new(false, depth);

    if (queue != NULL)
        return queue->handle;
    if (errno != ENOMEM)
        errno = EAGAIN; /* no descriptor left: a later call may succeed */
    return EXS_QHANDLE_INVALID;
}

/* Those that lodge here have been given to other queues, which drive them: so it is theirs, until they are
 * gone. Called with the lock. */
static bool has_own_socks(const struct queue *queue)
{
    const struct sock *sock;

    LIST_FOREACH (sock, &queue->socks, at_home) {
        if (!sock->lodges)
            return true;
    }
    return false;
}

int exs_qdelete(exs_qhandle_t qhandle)
{
    if (xs_enter() < 0)
        return -1;
    struct queue *queue = xs_handle_begin_take(&handles, qhandle);

    if (queue == NULL)
        return xs_invalid("qhandle is no queue");
    xs_incoming_leave(queue);
    /* An operation that others are about to start here needs these locks, or has been counted: either as
     * pending, or as a user. */
    pthread_mutex_lock(&queue->lock);
    pthread_mutex_lock(&queue->events_lock);
    bool busy =
        queue->pending + queue->own_pending > 0 || has_own_socks(queue) || !xs_handle_take(&handles, qhandle);

    pthread_mutex_unlock(&queue->events_lock);
    if (!busy)
        queue->handle = NULL;
    if (!busy && LIST_EMPTY(&queue->socks))
        xs_queue_leave_hosts(queue);
    xs_queue_unlock(queue);
    xs_handle_end_take(&handles);
    if (busy) {
        errno = EBUSY;
        return -1;
    }
    xs_queue_release_guests(queue); /* two that are each other's would keep each other for ever */
    xs_queue_unref(queue);
    return 0;
}

int exs_qfd(exs_qhandle_t qhandle)
{
    if (xs_enter() < 0)
        return -1;
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return xs_invalid("qhandle is no queue");
    int fd = queue->fd;

    xs_queue_put(queue);
    return fd;
}
