/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sources.c - the descriptors that a queue watches: in its epoll, in those of its hosts, and for threads that sleep
 * on them. Also the queue's descriptor itself. See queue.h.
 */
#include <errno.h>
#include <stdlib.h>
#include "core/base/fds.h"
#include "core/base/log.h"
#include "core/base/waitset.h"
#include "nic.h"
#include "queue.h"
#include "socket.h"
#include "wait.h"

static int watch_own(const struct queue *queue, int fd)
{
    /* NULL: not a source of an attached queue */
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    return queue->fd >= 0 ? fds_watch(queue->fd, fd, &event) : 0;
}

static int open_source_fd(struct source *source)
{
    if (source->fd < 0)
        source->fd = waitset_fd(source->waits);
    return source->fd < 0 ? -1 : 0;
}

int xs_queue_show(struct queue *queue)
{
    struct source *source;

    LIST_FOREACH (source, &queue->channels.sources, link) {
        if (open_source_fd(source) < 0)
            return -1;
    }
    return 0;
}

void xs_queue_drop_timer(struct queue *queue)
{
    if (queue->time.timer.fd >= 0)
        xs_queue_unwatch(queue, queue->time.timer.fd, NULL);
    doorbell_close(&queue->time.timer);
    queue->time.timer.at = NEVER_NS;
}

void xs_queue_hide(struct queue *queue)
{
    struct source *source;

    LIST_FOREACH (source, &queue->channels.sources, link) {
        if (source->waits != NULL && waitset_hide(source->waits))
            source->fd = -1;
    }
    if (!xs_queue_needs_timer(queue))
        xs_queue_drop_timer(queue);
}

/* Unregister from the queue's own epoll set, and from those of the hosts before `end`. */
static void unwatch_until(const struct queue *queue, const struct attachment *end, const struct source *source)
{
    const struct attachment *attachment;

    if (queue->fd >= 0)
        fds_unwatch(queue->fd, source->fd);
    LIST_FOREACH (attachment, &queue->hosts.list, of_home) {
        if (attachment == end)
            return;
        xs_attachment_unwatch(attachment, source);
    }
}

static int watch_everywhere(struct queue *queue, struct source *source)
{
    struct attachment *attachment;

    if ((queue->fd >= 0 || !LIST_EMPTY(&queue->hosts.list)) && open_source_fd(source) < 0)
        return -1;
    if (watch_own(queue, source->fd) < 0)
        return -1;
    LIST_FOREACH (attachment, &queue->hosts.list, of_home) {
        if (!attachment->unwatched && xs_attachment_watch(attachment, source) < 0) {
            int saved = errno;

            unwatch_until(queue, attachment, source);
            errno = saved;
            return -1;
        }
    }
    return 0;
}

/* Wake the sleeping threads, because the descriptors to wait for have changed. Called with locks of the
 * device. */
static void wake_sleepers(void *home)
{
    struct queue *queue = home;
    const struct xs_sleeper *sleeper;

    mutex_lock(&queue->events.lock);
    LIST_FOREACH (sleeper, &queue->events.sleepers, link)
        doorbell_signal(sleeper->wakefd);
    mutex_unlock(&queue->events.lock);
}

void xs_queue_wake_by(struct queue *queue, uint64_t deadline)
{
    struct xs_sleeper *sleeper;

    mutex_lock(&queue->events.lock);
    LIST_FOREACH (sleeper, &queue->events.sleepers, link) {
        if (sleeper->wakes_by <= deadline)
            continue;
        sleeper->wakes_by = deadline;
        doorbell_signal(sleeper->wakefd);
    }
    mutex_unlock(&queue->events.lock);
}

int xs_queue_watch(struct queue *queue, int fd, struct waitset *waits)
{
    struct source *source;
    int count = 0;

    LIST_FOREACH (source, &queue->channels.sources, link)
        count++;
    if (count == XS_SOURCES_MAX)
        return xs_refuse(ENOSPC, "a queue has %d devices and event channels, and can't have more", count);
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
    LIST_INSERT_HEAD(&queue->channels.sources, source, link);
    return 0;
}

void xs_queue_unwatch(struct queue *queue, int fd, const struct waitset *waits)
{
    struct source *source;

    LIST_FOREACH (source, &queue->channels.sources, link) {
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

    LIST_FOREACH (nic, &home->channels.nics, link)
        xs_nic_sleeps(nic, sleeps);
}

/* The sleeper is on the list before it reads what to wait for, so a change after that wakes it. */
void xs_sleep_begin(struct queue *home, struct xs_sleeper *sleeper)
{
    const struct source *source;

    sleeper->home = home;
    sleeper->fds[0] = (struct pollfd){.fd = sleeper->wakefd->fd, .events = POLLIN};
    sleeper->count = 1;
    mutex_lock(&home->lock);
    mutex_lock(&home->events.lock);
    LIST_INSERT_HEAD(&home->events.sleepers, sleeper, link);
    atomic_fetch_add_explicit(&home->others, 1, memory_order_relaxed);
    mutex_unlock(&home->events.lock);
    if (atomic_load_explicit(&home->waits, memory_order_relaxed))
        xs_queue_prepare_sleep(home);
    sleeper->deadline = sleeper->wakes_by = xs_queue_due(home);
    LIST_FOREACH (source, &home->channels.sources, link)
        list_source(source, sleeper);
    tell_of_sleepers(home, true);
    xs_queue_unlock(home);
}

void xs_sleep_end(struct xs_sleeper *sleeper)
{
    struct queue *home = sleeper->home;

    mutex_lock(&home->lock);
    mutex_lock(&home->events.lock);
    LIST_REMOVE(sleeper, link);
    atomic_fetch_sub_explicit(&home->others, 1, memory_order_relaxed);
    mutex_unlock(&home->events.lock);
    tell_of_sleepers(home, !LIST_EMPTY(&home->events.sleepers));
    xs_queue_unlock(home);
}

/* ---- The queue's own descriptor ------------------------------------------------------------------------- */

/* The kernel limits the number of paths from a descriptor to the epoll sets that it wakes; the longer the path,
 * the fewer are allowed. It checks this when a descriptor is added. So a device's descriptor that is added to a
 * queue with many watchers might be refused, and with it a connection that is not at fault. Therefore each
 * queue registers from the start an epoll set that is nested as deep as anything it will ever register, and
 * each of its hosts registers it, too. The kernel then refuses the loop, or the operation, that adds one queue
 * too many. */
static int make_depth_probe(struct queue *queue)
{
    struct epoll_event nothing = {.data.ptr = NULL};
    int fd = queue->attached.poll_timer.fd;

    for (int i = 0; i < DEPTH_PROBES; i++) {
        queue->attached.depth_probe[i] = fds_epoll();
        if (queue->attached.depth_probe[i] < 0 || fds_watch(queue->attached.depth_probe[i], fd, &nothing) < 0)
            return -1;
        fd = queue->attached.depth_probe[i];
    }
    return xs_queue_watch(queue, fd, NULL);
}

static void close_depth_probe(struct queue *queue)
{
    int fd = queue->attached.poll_timer.fd;

    if (queue->attached.depth_probe[DEPTH_PROBES - 1] >= 0)
        xs_queue_unwatch(queue, queue->attached.depth_probe[DEPTH_PROBES - 1], NULL);
    for (int i = 0; i < DEPTH_PROBES && queue->attached.depth_probe[i] >= 0; i++) {
        fds_unwatch(queue->attached.depth_probe[i], fd);
        fd = queue->attached.depth_probe[i];
    }
    for (int i = 0; i < DEPTH_PROBES; i++) {
        if (queue->attached.depth_probe[i] >= 0)
            fds_close(queue->attached.depth_probe[i]);
        queue->attached.depth_probe[i] = -1;
    }
}

int xs_queue_make_descriptor(struct queue *queue)
{
    queue->fd = fds_epoll();
    if (queue->fd < 0 || doorbell_make(&queue->events.raise) < 0 ||
        watch_own(queue, queue->events.raise.fd) < 0)
        return -1;
    if (doorbell_make(&queue->attached.poll_timer) < 0 || watch_own(queue, queue->attached.poll_timer.fd) < 0)
        return -1;
    return make_depth_probe(queue);
}

void xs_queue_close_descriptor(struct queue *queue)
{
    const struct source *source;

    close_depth_probe(queue);
    doorbell_close(&queue->attached.poll_timer);
    doorbell_close(&queue->events.raise);
    if (queue->fd < 0)
        return;
    LIST_FOREACH (source, &queue->channels.sources, link)
        fds_unwatch(queue->fd, source->fd);
    fds_close(queue->fd);
    queue->fd = -1;
}
