/* SPDX-License-Identifier: BSD-2-Clause */
/* What a poll waits for besides sockets: ordinary descriptors, and the time. See poll.h. */
#include <errno.h>
#include <sys/epoll.h>
#include "clock.h"
#include "fds.h"
#include "poll.h"
#include "queue.h"

/* How many of the ordinary descriptors are ready; others[].revents says for what. Doesn't wait. */
static int look_at_others(struct polling *polling)
{
    const struct timespec at_once = {0};

    return ppoll(polling->others, (nfds_t)polling->count, &at_once, NULL);
}

int xs_poll_tell_others(struct polling *polling)
{
    int ready = 0;

    if (look_at_others(polling) <= 0)
        return 0;
    for (int i = 0; i < polling->count; i++) {
        if (polling->others[i].fd >= 0)
            ready += xs_poll_tell(&polling->fds[i], polling->others[i].revents);
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

void xs_polls_run(struct queue *queue)
{
    struct polling *polling, *next;

    for (polling = LIST_FIRST(&queue->polls); polling != NULL; polling = next) {
        next = LIST_NEXT(polling, of_queue);
        if (!atomic_load(&polling->over) && (look_at_others(polling) > 0 || now_ns() >= polling->deadline) &&
            xs_poll_claim(polling))
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

/* A descriptor may be named twice. What an epoll doesn't take, a file, is always ready, or nothing of it is
 * wanted. */
static int watch_other(int epoll, struct pollfd *others, int index)
{
    struct epoll_event event = {.events = (uint32_t)others[index].events};

    for (int i = 0; i < index; i++) {
        if (others[i].fd == others[index].fd)
            event.events |= (uint32_t)others[i].events;
    }
    return fds_watch_foreign(epoll, others[index].fd, &event) == 0 || errno == EPERM ? 0 : -1;
}

static int watch_others(struct polling *polling)
{
    struct epoll_event event = {.events = EPOLLIN};

    polling->epoll = fds_epoll();
    if (polling->epoll < 0)
        return -1;
    for (int i = 0; i < polling->count; i++) {
        if (polling->others[i].fd >= 0 && watch_other(polling->epoll, polling->others, i) < 0)
            return -1;
    }
    if (polling->deadline == NEVER_NS)
        return 0;
    doorbell_time(&polling->timer, polling->deadline);
    return doorbell_make(&polling->timer) < 0 ? -1 : fds_watch(polling->epoll, polling->timer.fd, &event);
}

static bool has_others(const struct polling *polling)
{
    for (int i = 0; i < polling->count; i++) {
        if (polling->others[i].fd >= 0)
            return true;
    }
    return false;
}

int xs_poll_begin_others(struct polling *polling, struct queue *queue)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (!has_others(polling) && polling->deadline == NEVER_NS)
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
