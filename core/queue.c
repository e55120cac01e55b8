/* SPDX-License-Identifier: BSD-2-Clause */
/* Event queues: making and deleting them, and the descriptors that they watch. See queue.h. */
#include <errno.h>
#include <stdlib.h>
#include "core.h"
#include "fds.h"
#include "handle.h"
#include "library.h"
#include "nic.h"
#include "poll.h"
#include "queue.h"
#include "sock.h"
#include "waitset.h"

static struct handle_table handles = HANDLE_TABLE_INIT;

/* ---- Descriptors --------------------------------------------------------------------------------------- */

static int watch_own(const struct queue *queue, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}; /* no guest's */

    return queue->fd >= 0 ? fds_watch(queue->fd, fd, &event) : 0;
}

static int show(struct source *source)
{
    if (source->fd < 0)
        source->fd = waitset_fd(source->waits);
    return source->fd < 0 ? -1 : 0;
}

int xs_queue_show(struct queue *queue)
{
    struct source *source;

    LIST_FOREACH (source, &queue->sources, link) {
        if (show(source) < 0)
            return -1;
    }
    return 0;
}

/* In its own epoll and in those of the hosts before `end`. */
static void unwatch_until(const struct queue *queue, const struct guest *end, const struct source *source)
{
    const struct guest *guest;

    if (queue->fd >= 0)
        fds_unwatch(queue->fd, source->fd);
    LIST_FOREACH (guest, &queue->hosts, of_home) {
        if (guest == end)
            return;
        xs_guest_unwatch(guest, source);
    }
}

static int watch_everywhere(struct queue *queue, struct source *source)
{
    struct guest *guest;

    if ((queue->fd >= 0 || !LIST_EMPTY(&queue->hosts)) && show(source) < 0)
        return -1;
    if (watch_own(queue, source->fd) < 0)
        return -1;
    LIST_FOREACH (guest, &queue->hosts, of_home) {
        if (!guest->unwatched && xs_guest_watch(guest, source) < 0) {
            int saved = errno;

            unwatch_until(queue, guest, source);
            errno = saved;
            return -1;
        }
    }
    return 0;
}

/* What they sleep on is not what it was. Called with locks of the device's. */
static void wake_sleepers(void *home)
{
    struct queue *queue = home;
    const struct xs_sleeper *sleeper;

    mutex_lock(&queue->events_lock);
    LIST_FOREACH (sleeper, &queue->sleepers, link)
        doorbell_ring(sleeper->bell);
    mutex_unlock(&queue->events_lock);
}

void xs_queue_wake_by(struct queue *queue, uint64_t deadline)
{
    struct xs_sleeper *sleeper;

    mutex_lock(&queue->events_lock);
    LIST_FOREACH (sleeper, &queue->sleepers, link) {
        if (sleeper->wakes_by <= deadline)
            continue;
        sleeper->wakes_by = deadline;
        doorbell_ring(sleeper->bell);
    }
    mutex_unlock(&queue->events_lock);
}

int xs_queue_watch(struct queue *queue, int fd, struct waitset *waits)
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
    *source = (struct source){.fd = fd, .waits = waits};
    if (watch_everywhere(queue, source) < 0) {
        free(source);
        return -1;
    }
    if (waits != NULL)
        waitset_sleepers(waits, wake_sleepers, queue);
    LIST_INSERT_HEAD(&queue->sources, source, link);
    return 0;
}

void xs_queue_unwatch(struct queue *queue, int fd, const struct waitset *waits)
{
    struct source *source;

    LIST_FOREACH (source, &queue->sources, link) {
        if (waits != NULL ? source->waits != waits : source->fd != fd)
            continue;
        unwatch_until(queue, NULL, source);
        LIST_REMOVE(source, link);
        free(source);
        return;
    }
}

/* Called with the lock. */
static void list_source(const struct source *source, struct xs_sleeper *sleeper)
{
    struct pollfd *fds = &sleeper->fds[sleeper->count];
    uint64_t deadline = NEVER_NS;

    if (source->waits != NULL) {
        sleeper->count += waitset_list(source->waits, fds, &deadline);
    } else {
        *fds = (struct pollfd){.fd = source->fd, .events = POLLIN};
        sleeper->count++;
    }
    if (deadline < sleeper->deadline)
        sleeper->deadline = deadline;
}

/* Called with the lock. */
static void tell_of_sleepers(const struct queue *home, bool sleeps)
{
    const struct nic *nic;

    LIST_FOREACH (nic, &home->nics, link)
        xs_nic_sleeps(nic, sleeps);
}

/* Known first: what changes from then on rings. */
void xs_sleep_begin(struct queue *home, struct xs_sleeper *sleeper)
{
    const struct source *source;

    sleeper->home = home;
    sleeper->fds[0] = (struct pollfd){.fd = sleeper->bell->fd, .events = POLLIN};
    sleeper->count = 1;
    mutex_lock(&home->lock);
    mutex_lock(&home->events_lock);
    LIST_INSERT_HEAD(&home->sleepers, sleeper, link);
    atomic_fetch_add_explicit(&home->others, 1, memory_order_relaxed);
    mutex_unlock(&home->events_lock);
    if (atomic_load_explicit(&home->waits, memory_order_relaxed))
        xs_queue_rest(home);
    sleeper->deadline = sleeper->wakes_by = xs_queue_due(home);
    LIST_FOREACH (source, &home->sources, link)
        list_source(source, sleeper);
    tell_of_sleepers(home, true);
    xs_queue_unlock(home);
}

void xs_sleep_end(struct xs_sleeper *sleeper)
{
    struct queue *home = sleeper->home;

    mutex_lock(&home->lock);
    mutex_lock(&home->events_lock);
    LIST_REMOVE(sleeper, link);
    atomic_fetch_sub_explicit(&home->others, 1, memory_order_relaxed);
    mutex_unlock(&home->events_lock);
    tell_of_sleepers(home, !LIST_EMPTY(&home->sleepers));
    xs_queue_unlock(home);
}

void xs_run(struct queue *home)
{
    struct turn turn = {.watched = BY_LEVEL};

    mutex_lock(&home->lock);
    xs_turn_home(home, &turn);
    xs_queue_unlock(home);
}

void xs_rest_home(struct queue *home)
{
    if (!atomic_load_explicit(&home->waits, memory_order_relaxed))
        return;
    mutex_lock(&home->lock);
    xs_queue_rest(home);
    xs_queue_unlock(home);
}

void xs_rest_for_others(struct queue *home)
{
    if (atomic_load_explicit(&home->others, memory_order_relaxed) > 0)
        xs_rest_home(home);
}

/* ---- Making and deleting ------------------------------------------------------------------------------- */

struct queue *xs_queue_new(bool private, int depth)
{
    struct queue *queue = calloc(1, sizeof(*queue));

    if (queue == NULL)
        return NULL;
    mutex_init(&queue->lock);
    mutex_init(&queue->events_lock);
    STAILQ_INIT(&queue->events);
    STAILQ_INIT(&queue->free_ops);
    STAILQ_INIT(&queue->own_free);
    STAILQ_INIT(&queue->done);
    STAILQ_INIT(&queue->chunks);
    TAILQ_INIT(&queue->timed);
    TAILQ_INIT(&queue->line);
    atomic_init(&queue->refs, 1);
    queue->fd = -1;
    xs_spin_init(&queue->spin);
    queue->raise = (struct doorbell)DOORBELL_INIT(DOORBELL_PLAIN);
    queue->timer = (struct doorbell)DOORBELL_INIT(DOORBELL_TIMED);
    queue->device_due = NEVER_NS;
    queue->look = (struct doorbell)DOORBELL_INIT(DOORBELL_TIMED);
    if (!xs_ops_reach(queue, depth))
        goto no_memory;
    if (private)
        return queue;

    queue->fd = fds_epoll();
    if (queue->fd < 0 || doorbell_make(&queue->raise) < 0 || watch_own(queue, queue->raise.fd) < 0)
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

/* All that drives sockets. What is needed again is made again. */
static void close_sources(struct queue *queue)
{
    struct nic *nic;

    xs_polls_leave(queue);
    while ((nic = LIST_FIRST(&queue->nics)) != NULL)
        xs_nic_free(nic);
    for (int i = 0; i < DEVICES_MAX; i++) {
        if (queue->channel[i] == NULL)
            continue;
        xs_queue_unwatch(queue, queue->channel[i]->fd, queue->channel_waits[i]);
        xs_device(i)->destroy_event_channel(queue->channel[i]);
        queue->channel[i] = NULL;
    }
    if (queue->timer.fd >= 0)
        xs_queue_unwatch(queue, queue->timer.fd, NULL);
    doorbell_close(&queue->timer);
    queue->timer.at = NEVER_NS;
}

static __attribute__((cold)) void free_queue(struct queue *queue)
{
    int saved = errno;

    close_sources(queue);
    doorbell_close(&queue->raise);
    doorbell_close(&queue->look);
    if (queue->fd >= 0)
        fds_close(queue->fd);
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
    if (atomic_load_explicit(&home->failed, memory_order_acquire)) { /* pairs with xs_open_failed */
        mutex_lock(&home->lock);
        xs_queue_strip(home, 2); /* the socket's, and this */
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
        errno = EAGAIN; /* no descriptor left: a later call may succeed */
    return queue;
}

/* Those that lodge here have been given to other queues, which drive them: so it is theirs, until they are
 * gone. Those on their way in have been given to nobody, and are driven with their listener. */
int xs_queue_own_socks(const struct queue *queue)
{
    const struct sock *sock;
    int count = 0;

    LIST_FOREACH (sock, &queue->socks, at_home)
        count += !sock->lodges && sock->listener == NULL;
    return count;
}

int exs_qdelete(exs_qhandle_t qhandle)
{
    if (xs_enter(__func__) < 0)
        return -1;
    struct queue *queue = xs_handle_begin_take(&handles, qhandle);

    if (queue == NULL)
        return xs_no_queue(qhandle);
    /* An operation that others are about to start here needs these locks, or has been counted: either as
     * pending, or as a user. */
    mutex_lock(&queue->lock);
    mutex_lock(&queue->events_lock);
    bool busy = queue->pending + queue->own_pending > 0 || xs_queue_own_socks(queue) > 0 ||
                !xs_handle_take(&handles, qhandle);

    if (!busy)
        queue->handle = NULL;
    mutex_unlock(&queue->events_lock);
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
    if (xs_enter(__func__) < 0)
        return -1;
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return xs_no_queue(qhandle);
    int fd = queue->fd;

    xs_queue_put(queue);
    return fd;
}
