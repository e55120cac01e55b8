/* SPDX-License-Identifier: BSD-2-Clause */
/* poll_others.c - the ordinary descriptors and the timeout of an exs_poll. See poll.h. */
#include <errno.h>
#include <sys/epoll.h>
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "core/base/handle.h"
#include "core/queue/queue.h"
#include "core/queue/upcalls.h"
#include "poll.h"
#include "sock.h"

/* Poll the descriptors once, and set their revents. Returns how many are ready; 0 if interrupted by a signal.
 * ppoll() accepts no more elements than the process may have descriptors, but an application may name one
 * several times: then the array is split. */
static int poll_descriptors(struct pollfd *others, int count)
{
    const struct timespec at_once = {0};
    int half = count / 2, ready = count > 0 ? ppoll(others, (nfds_t)count, &at_once, NULL) : 0;

    if (ready >= 0 || errno != EINVAL || half == 0) {
        for (int i = 0; ready < 0 && i < count; i++)
            others[i].revents = 0;
        return ready > 0 ? ready : 0;
    }
    return poll_descriptors(others, half) + poll_descriptors(others + half, count - half);
}

int xs_poll_tell_others(struct polling *polling)
{
    const struct pollfd *other = polling->others;
    int ready = 0;

    if (poll_descriptors(polling->others, polling->other_count) <= 0)
        return 0;
    for (int i = 0; i < polling->count; i++) {
        if (polling->polled[i].is_other)
            ready += xs_poll_tell(&polling->fds[i], other++->revents);
    }
    return ready;
}

static void close_epoll(struct polling *polling)
{
    if (polling->epoll >= 0)
        fds_close(polling->epoll);
    polling->epoll = -1;
    doorbell_close(&polling->timer);
}

static void leave_queue(struct polling *polling)
{
    LIST_REMOVE(polling, of_queue);
    close_epoll(polling);
    xs_poll_put(polling);
}

/* Is one of the poll's descriptors ready, or its time over? Asks the epoll set and does not use `others`,
 * because that belongs to the thread that claims the poll, which may be another thread that holds a socket's
 * lock. */
static bool is_due(const struct polling *polling)
{
    struct epoll_event event;

    return now_ns() >= polling->deadline || epoll_wait(polling->epoll, &event, 1, 0) > 0;
}

void xs_polls_run(struct queue *queue)
{
    struct polling *polling, *next;

    for (polling = LIST_FIRST(&queue->polls); polling != NULL; polling = next) {
        next = LIST_NEXT(polling, of_queue);
        if (!atomic_load(&polling->over) && is_due(polling) && xs_poll_claim(polling))
            xs_poll_finish(polling, queue);
        if (atomic_load(&polling->over))
            leave_queue(polling);
    }
}

void xs_polls_leave(struct queue *queue)
{
    while (!LIST_EMPTY(&queue->polls))
        leave_queue(LIST_FIRST(&queue->polls));
}

static bool names_other(const struct polling *polling, int fd)
{
    for (int i = 0; i < polling->other_count; i++) {
        if (polling->others[i].fd == fd)
            return true;
    }
    return false;
}

struct stop_of_fd { /* which polls to end; out: how many ended */
    int fd;
    const struct stop *stop;
    int count;
};

static void stop_queues_polls(void *object, void *argument)
{
    struct queue *queue = object;
    struct stop_of_fd *of = argument;
    struct polling *polling, *next;

    mutex_lock(&queue->lock);
    for (polling = LIST_FIRST(&queue->polls); polling != NULL; polling = next) {
        next = LIST_NEXT(polling, of_queue);
        if (!names_other(polling, of->fd) || !(of->stop->all || polling->ahandle == of->stop->ahandle) ||
            !xs_poll_claim(polling))
            continue;
        xs_poll_release(polling);
        xs_op_complete(polling->op, of->stop->error);
        leave_queue(polling);
        of->count++;
    }
    xs_queue_unlock(queue);
}

int xs_polls_stop(int fd, const struct stop *stop)
{
    struct stop_of_fd of = {.fd = fd, .stop = stop};

    xs_handles_each(xs_queue_handles(), stop_queues_polls, &of);
    return of.count;
}

/* Epoll has the same bits as poll(2). The cast keeps the highest bit of the short, its sign, from spreading to
 * the epoll flags above. */
static uint32_t epoll_bits(short events)
{
    return (uint16_t)events;
}

/* Register one descriptor. Epoll refuses a regular file (EPERM), which is always ready; while a poll waits,
 * none of its events were asked for. If a descriptor is named twice, the first element registers the events of
 * both. */
static int watch_other(int epoll, struct pollfd *others, int index)
{
    struct epoll_event event = {.events = epoll_bits(others[index].events)};
    struct pollfd *first = others;

    if (fds_watch_foreign(epoll, others[index].fd, &event) == 0 || errno == EPERM)
        return 0;
    if (errno != EEXIST)
        return -1;
    while (first->fd != others[index].fd)
        first++;
    first->events |= others[index].events;
    event.events = epoll_bits(first->events);
    return fds_rewatch(epoll, first->fd, &event);
}

static int watch_others(struct polling *polling)
{
    struct epoll_event event = {.events = EPOLLIN};

    polling->epoll = fds_epoll();
    if (polling->epoll < 0)
        return -1;
    for (int i = 0; i < polling->other_count; i++) {
        if (watch_other(polling->epoll, polling->others, i) < 0)
            return -1;
    }
    if (polling->deadline == NEVER_NS)
        return 0;
    doorbell_time(&polling->timer, polling->deadline);
    return doorbell_make(&polling->timer) < 0 ? -1 : fds_watch(polling->epoll, polling->timer.fd, &event);
}

int xs_poll_begin_others(struct polling *polling, struct queue *queue)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (polling->other_count == 0 && polling->deadline == NEVER_NS)
        return 0;
    if (watch_others(polling) < 0 || fds_watch(queue->fd, polling->epoll, &event) < 0) {
        int saved = errno;

        close_epoll(polling);
        errno = saved;
        return -1;
    }
    atomic_fetch_add(&polling->refs, 1);
    mutex_lock(&queue->lock);
    LIST_INSERT_HEAD(&queue->polls, polling, of_queue);
    xs_queue_unlock(queue);
    return 0;
}
