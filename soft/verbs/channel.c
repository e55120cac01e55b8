/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channel.c - completion channels: a list of completion queues with an event, and a descriptor to wait on.
 *
 * A channel's wait set contains a doorbell (an eventfd), which is readable while the list is not empty, and each
 * descriptor that the links want watched (their sockets). A packet thus wakes the application directly, and the
 * application's own call processes the packet. A thread that is about to read the list does not set the doorbell for
 * itself.
 *
 * Programs written for rdma-core may take a readable descriptor to mean an event, so their descriptor is the doorbell
 * alone. In soft_get_cq_event() they wait for the whole wait set nevertheless. If they sleep elsewhere, the service
 * thread must process the packets; it is notified when they arm a completion queue.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include "soft/engine/engine.h"
#include "verbs.h"

/* This number of consecutive events found at once shows that the application waits elsewhere. */
#define OUTSIDE 3

/* (locked) */
static int watch_all(const struct soft_context *context, struct soft_channel *channel)
{
    int error = 0;

    for (int i = 0; i < context->watched_count && error == 0; i++)
        error = waitset_add(&channel->waits, context->watched[i], EPOLLIN, NULL);
    return error;
}

static void free_channel(struct soft_channel *channel)
{
    waitset_end(&channel->waits);
    free(channel);
}

static struct soft_channel *new_channel(struct ibv_context *ibv, enum doorbell_kind kind)
{
    struct soft_channel *channel = calloc(1, sizeof *channel);

    if (channel == NULL)
        return NULL;
    TAILQ_INIT(&channel->pending);
    waitset_init(&channel->waits, kind);
    channel->ibv.context = ibv;
    channel->ibv.fd = -1;
    channel->outside = OUTSIDE;
    return channel;
}

/* Adds the channel to its context. NULL and errno: then it is freed. */
static struct ibv_comp_channel *join_context(struct soft_channel *channel)
{
    struct soft_context *context = soft_context_of(channel->ibv.context);
    int error;

    soft_lock(channel->ibv.context);
    if ((error = watch_all(context, channel)) == 0) {
        LIST_INSERT_HEAD(&context->channels, channel, link);
        context->objects.count++;
    }
    soft_unlock(channel->ibv.context);
    if (error == 0)
        return &channel->ibv;
    free_channel(channel);
    errno = error;
    return NULL;
}

struct ibv_comp_channel *soft_create_comp_channel(struct ibv_context *ibv)
{
    struct soft_channel *channel = new_channel(ibv, DOORBELL_SHOWN);
    int fd, error;

    if (channel == NULL)
        return NULL;
    fd = waitset_fd(&channel->waits);
    if (fd < 0) {
        error = errno;
        free_channel(channel);
        errno = error;
        return NULL;
    }
    channel->ibv.fd = soft_context_of(ibv)->names.lid != 0 ? channel->waits.wakefd.fd : fd;
    return join_context(channel);
}

struct ibv_comp_channel *soft_create_quiet_comp_channel(struct ibv_context *ibv, struct waitset **waits)
{
    struct soft_channel *channel = new_channel(ibv, DOORBELL_PLAIN);

    if (channel == NULL)
        return NULL;
    *waits = &channel->waits;
    return join_context(channel);
}

int soft_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
    struct soft_channel *channel = (struct soft_channel *)ibv;
    struct ibv_context *context = ibv->context;
    bool busy;

    soft_lock(context);
    busy = ibv->refcnt > 0;
    if (!busy) {
        LIST_REMOVE(channel, link);
        soft_context_of(context)->objects.count--;
    }
    soft_unlock(context);
    if (busy)
        return EBUSY;
    free_channel(channel);
    return 0;
}

int soft_watch(struct ibv_context *ibv, int fd)
{
    struct soft_context *context = soft_context_of(ibv);
    int *grown = realloc(context->watched, ((size_t)context->watched_count + 1) * sizeof *grown);
    struct soft_channel *channel;
    int error = 0;

    if (grown == NULL)
        return errno;
    context->watched = grown;
    context->watched[context->watched_count++] = fd;
    LIST_FOREACH (channel, &context->channels, link) {
        if ((error = waitset_add(&channel->waits, fd, EPOLLIN, NULL)) != 0)
            break;
    }
    if (error != 0)
        soft_unwatch(ibv, fd);
    errno = error;
    return error;
}

void soft_unwatch(struct ibv_context *ibv, int fd)
{
    struct soft_context *context = soft_context_of(ibv);
    struct soft_channel *channel;

    for (int i = 0; i < context->watched_count; i++)
        if (context->watched[i] == fd) {
            context->watched[i] = context->watched[--context->watched_count];
            break;
        }
    LIST_FOREACH (channel, &context->channels, link) {
        waitset_remove(&channel->waits, fd);
    }
}

inline void soft_channel_flag(struct soft_channel *channel)
{
    waitset_flag(&channel->waits, !TAILQ_EMPTY(&channel->pending));
}

void soft_channel_notify(struct soft_channel *channel, struct soft_cq *cq)
{
    if (cq->events++ == 0)
        TAILQ_INSERT_TAIL(&channel->pending, cq, link);
    if (soft_context_of(channel->ibv.context)->inside != channel)
        soft_channel_flag(channel);
}

void soft_channel_forget(struct soft_channel *channel, struct soft_cq *cq)
{
    if (cq->events > 0)
        TAILQ_REMOVE(&channel->pending, cq, link);
    cq->events = 0;
    soft_channel_flag(channel);
}

/* (locked) Takes the next event's queue from the list, or returns NULL. A queue with further events goes to the end. */
static struct soft_cq *pop_cq(struct soft_channel *channel)
{
    struct soft_cq *cq = TAILQ_FIRST(&channel->pending);

    if (cq == NULL)
        return NULL;
    TAILQ_REMOVE(&channel->pending, cq, link);
    if (--cq->events > 0)
        TAILQ_INSERT_TAIL(&channel->pending, cq, link);
    cq->delivered++;
    return cq;
}

/* (locked) Takes completions of a queue that is in the list. If it becomes empty it leaves the list, and is armed. */
static inline int take_pending(struct soft_channel *channel, struct soft_cq *cq, int room, struct ibv_wc *wc)
{
    int count = soft_cq_take(cq, room, wc);

    if (cq->count > 0)
        return count;
    TAILQ_REMOVE(&channel->pending, cq, link);
    cq->events = 0;
    soft_cq_arm(cq, SOFT_ARM_ANY);
    return count;
}

/* (locked) Takes completions of all queues in the list, as far as there is room. Any queue with completions is in the
 * list, because each is armed when it is empty. */
static int take_all_pending(struct soft_channel *channel, int room, struct ibv_wc *wc)
{
    struct soft_cq *cq;
    int count = 0;

    while (count < room && (cq = TAILQ_FIRST(&channel->pending)) != NULL)
        count += take_pending(channel, cq, room - count, wc + count);
    return count;
}

/* (locked) Drives the device unless an event is pending. The caller then updates the descriptor. */
static inline __attribute__((always_inline)) void look_for_event(struct soft_channel *channel)
{
    struct ibv_context *ibv = channel->ibv.context;
    struct soft_context *context = soft_context_of(ibv);

    if (context->wire->attended != NULL)
        context->wire->attended(context->wire, ibv);
    if (!TAILQ_EMPTY(&channel->pending)) {
        soft_watch_again(ibv);
        return;
    }
    context->inside = channel;
    soft_progress_delaying_acks(context);
    context->inside = NULL;
    if (TAILQ_EMPTY(&channel->pending))
        soft_nothing_completed(context);
}

/* (locked) */
static struct soft_cq *pop_or_progress(struct soft_channel *channel)
{
    struct soft_cq *cq;

    look_for_event(channel);
    cq = pop_cq(channel);
    soft_channel_flag(channel);
    return cq;
}

inline int soft_harvest(struct ibv_comp_channel *ibv, struct ibv_cq **of, int room, struct ibv_wc *wc,
                        bool *left)
{
    struct soft_channel *channel = (struct soft_channel *)ibv;
    struct soft_cq *cq;
    int count = -1;

    *left = false;
    soft_lock(ibv->context);
    look_for_event(channel);
    cq = TAILQ_FIRST(&channel->pending);
    if (cq != NULL) {
        *of = ibv_cq_ex_to_cq(&cq->ibv);
        count = take_pending(channel, cq, room, wc);
        *left = cq->count > 0;
    }
    soft_channel_flag(channel);
    soft_unlock(ibv->context);
    return count;
}

/* A poll of each queue would drive the device as many times, so a message for the last one would wait for all others. */
int soft_poll_channel(struct ibv_comp_channel *ibv, int room, struct ibv_wc *wc)
{
    struct soft_channel *channel = (struct soft_channel *)ibv;
    struct soft_context *context = soft_context_of(ibv->context);
    struct soft_wire *wire = context->wire;

    soft_lock(ibv->context);
    if (wire->attended != NULL)
        wire->attended(wire, ibv->context);
    int count = take_all_pending(channel, room, wc);

    if (count == 0) {
        wire->poll_mode = SOFT_POLLS_RESTS;
        context->inside = channel;
        soft_progress_delaying_acks(context);
        context->inside = NULL;
        wire->poll_mode = SOFT_POLLS_ONCE;
        count = take_all_pending(channel, room, wc);
        if (count == 0)
            soft_nothing_completed(context);
    }
    soft_channel_flag(channel);
    soft_unlock(ibv->context);
    return count;
}

/* Waits for the descriptor, at most `nanoseconds`, when a timer of the device is due. */
static int wait_for(int fd, uint64_t nanoseconds)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    struct timespec limit;

    return ppoll(&poller, 1, ns_limit(nanoseconds, &limit), NULL) < 0 ? -1 : 0;
}

/* (locked) Returns nanoseconds until soft_timers() has something to do. */
static uint64_t time_left(struct ibv_context *ibv)
{
    struct soft_context *context = soft_context_of(ibv);
    uint64_t deadline = soft_deadline(ibv);

    return deadline == NEVER_NS ? NEVER_NS : ns_left(deadline, context->clock->now(context->clock));
}

bool soft_channel_sleeps_outside(const struct soft_channel *channel)
{
    return soft_context_of(channel->ibv.context)->names.lid != 0 && channel->outside >= OUTSIDE;
}

int soft_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
    struct soft_channel *channel = (struct soft_channel *)ibv;

    for (bool first = true;; first = false) {
        struct soft_cq *found;
        uint64_t left;
        int flags;

        soft_lock(ibv->context);
        found = pop_or_progress(channel);
        channel->outside = found == NULL || !first ? 0 : channel->outside + 1;
        left = time_left(ibv->context);
        soft_unlock(ibv->context);
        if (found != NULL) {
            *cq = ibv_cq_ex_to_cq(&found->ibv);
            *cq_context = found->ibv.cq_context;
            return 0;
        }
        if (ibv->fd < 0) { /* its user waits elsewhere */
            errno = EAGAIN;
            return -1;
        }
        if ((flags = fcntl(ibv->fd, F_GETFL)) < 0)
            return -1;
        if (flags & O_NONBLOCK) {
            errno = EAGAIN;
            return -1;
        }
        if (wait_for(channel->waits.epoll, left) < 0)
            return -1;
    }
}
