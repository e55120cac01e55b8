/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_channel.c - event channels: their descriptor, and the delivery of events.
 *
 * A channel's wait set contains the TCP sockets of its identifiers and their timers. It is also readable as long as
 * there are events that soft_get_cm_event() has not delivered.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "core/base/clock.h"
#include "core/base/settings.h"
#include "cm_id.h"
#include "soft/lock.h"

#define ROUNDS 64 /* sockets handled in one call, while the channel stays locked */

/* An event as delivered: a copy that the application owns until it acknowledges it. */
struct cm_event {
    struct rdma_cm_event public; /* first */
    struct cm_id *id;            /* not destroyed before the event is acknowledged; of a request: listener */
    uint8_t private_data[CM_REP_PRIVATE];
};

/* ---- Life -------------------------------------------------------------------------------------- */

static void free_channel(struct cm_channel *channel)
{
    pthread_cond_destroy(&channel->acknowledged);
    pthread_mutex_destroy(&channel->lock);
    free(channel->spare);
    free(channel);
}

static struct cm_channel *new_channel(void)
{
    struct cm_channel *channel = calloc(1, sizeof *channel);

    if (channel == NULL)
        return NULL;
    channel->spare = calloc(1, sizeof *channel->spare);
    if (channel->spare == NULL) {
        free(channel);
        return NULL;
    }
    pthread_mutex_init(&channel->lock, NULL);
    pthread_cond_init(&channel->acknowledged, NULL);
    waitset_init(&channel->waits, DOORBELL_TIMED);
    TAILQ_INIT(&channel->pending);
    for (int i = 0; i < CM_TIMEOUTS; i++)
        TAILQ_INIT(&channel->timeouts[i]);
    channel->ib.wakefd = (struct doorbell)DOORBELL_INIT(DOORBELL_PLAIN);
    TAILQ_INIT(&channel->ib.news);
    channel->public.fd = -1;
    return channel;
}

struct rdma_event_channel *soft_create_event_channel(void)
{
    struct cm_channel *channel = new_channel();
    int error;

    if (channel == NULL)
        return NULL;
    channel->public.fd = waitset_fd(&channel->waits);
    if (channel->public.fd != -1)
        return &channel->public;
    error = errno;
    waitset_end(&channel->waits);
    free_channel(channel);
    errno = error;
    return NULL;
}

struct rdma_event_channel *soft_create_quiet_event_channel(struct waitset **waits)
{
    struct cm_channel *channel = new_channel();

    if (channel == NULL)
        return NULL;
    *waits = &channel->waits;
    return &channel->public;
}

static bool shared; /* set before there are channels */

void soft_share_context(void)
{
    shared = true;
}

bool cm_is_shared(void)
{
    return shared;
}

void soft_destroy_event_channel(struct rdma_event_channel *public)
{
    struct cm_channel *channel = (struct cm_channel *)public;

    bool waited_for;

    if (channel->home != NULL && !channel->common)
        home_close(channel->home);
    soft_mutex_lock(&channel->lock);
    channel->gone = true;
    waited_for = channel->waiters > 0;
    doorbell_close(&channel->ib.wakefd);
    waitset_end(&channel->waits);
    soft_mutex_unlock(&channel->lock);
    if (!waited_for)
        free_channel(channel);
}

struct ibv_context *cm_context(struct cm_channel *channel)
{
    if (channel->home == NULL) {
        channel->common = shared || settings()->roce_wanted;
        channel->home = channel->common ? home_shared() : home_open();
    }
    return channel->home == NULL ? NULL : channel->home->context;
}

/* ---- Locking ----------------------------------------------------------------------------------- */

struct cm_channel *cm_channel_of(const struct cm_id *id)
{
    /* Atomic, because another thread may be migrating the identifier. */
    return (struct cm_channel *)__atomic_load_n(&id->public.channel, __ATOMIC_ACQUIRE);
}

struct cm_channel *cm_lock(struct cm_id *id)
{
    for (;;) {
        struct cm_channel *channel = cm_channel_of(id);

        soft_mutex_lock(&channel->lock);
        if (channel == cm_channel_of(id))
            return channel;
        soft_mutex_unlock(&channel->lock);
    }
}

static void update_signal(struct cm_channel *channel)
{
    cm_timer_settle(channel);
    waitset_flag(&channel->waits, !TAILQ_EMPTY(&channel->pending));
}

void cm_unlock(struct cm_channel *channel)
{
    int error = errno;

    update_signal(channel);
    soft_mutex_unlock(&channel->lock);
    errno = error;
}

/* ---- Pending events ------------------------------------------------------------------------------ */

void cm_post_pending(struct cm_id *id, struct cm_pending *pending, enum rdma_cm_event_type type, int status)
{
    pending->id = id;
    pending->type = type;
    pending->status = status;
    if (!pending->queued)
        TAILQ_INSERT_TAIL(&cm_channel_of(id)->pending, pending, entry);
    pending->queued = true;
}

void cm_post(struct cm_id *id, enum cm_kind kind, enum rdma_cm_event_type type, int status)
{
    cm_post_pending(id, &id->pending[kind], type, status);
}

void cm_unpost_pending(struct cm_id *id, struct cm_pending *pending)
{
    if (pending->queued)
        TAILQ_REMOVE(&cm_channel_of(id)->pending, pending, entry);
    pending->queued = false;
}

void cm_unpost(struct cm_id *id)
{
    for (int kind = 0; kind < CM_KINDS; kind++)
        cm_unpost_pending(id, &id->pending[kind]);
}

void cm_await_acknowledgement(struct cm_id *id)
{
    struct cm_channel *channel = cm_channel_of(id);

    update_signal(channel);
    while (id->unacknowledged > 0)
        pthread_cond_wait(&channel->acknowledged, &channel->lock);
}

/* ---- Sockets -------------------------------------------------------------------------------------- */

int cm_register(struct cm_id *id, uint32_t events)
{
    return waitset_add(&cm_channel_of(id)->waits, id->fd, events, id);
}

void cm_want(struct cm_id *id, uint32_t events)
{
    waitset_change(&cm_channel_of(id)->waits, id->fd, events, id);
}

static void handle_ready(struct cm_id *id, uint32_t events)
{
    if (id->out_length > 0 && (events & EPOLLOUT) != 0)
        cm_send_rest(id);
    switch (id->state) {
    case CM_LISTENING:
        cm_listener_ready(id);
        break;
    case CM_HALF_OPEN:
    case CM_REFUSING:
    case CM_REQUESTED:
    case CM_REPLIED:
        cm_passive_ready(id);
        break;
    case CM_TCP_CONNECTING:
    case CM_REQUEST_SENT:
        cm_active_ready(id, events);
        break;
    default:
        cm_established_ready(id);
    }
}

/* Handles expired timers. Uses one time for all, so that a timer that is started again here does not expire in this
 * call. */
static void handle_timers(struct cm_channel *channel)
{
    uint64_t now = now_ns();
    struct cm_id *id;

    while ((id = cm_timer_expired(channel, now)) != NULL) {
        if (id->state == CM_LISTENING)
            cm_listener_resume(id);
        else if (id->state == CM_TCP_CONNECTING || id->state == CM_REQUEST_SENT)
            cm_active_expired(id);
        else if (id->state == CM_DISCONNECTED)
            cm_timewait_expired(id);
        else
            cm_passive_expired(id);
    }
}

/* Handles ready sockets, one at a time, because handling one may free the identifier of the next. */
static void handle_sockets(struct cm_channel *channel)
{
    struct epoll_event event;

    for (int round = 0; round < ROUNDS && waitset_next(&channel->waits, &event); round++) {
        if (event.data.ptr == &channel->ib) {
            cm_ib_ready(channel);
        } else if (event.data.ptr != NULL) {
            handle_ready(event.data.ptr, event.events);
        } else {
            update_signal(channel);
            handle_timers(channel);
        }
    }
}

/* ---- Delivery ---------------------------------------------------------------------------------------- */

static void describe_peer(struct cm_event *event, struct cm_id *id)
{
    struct rdma_conn_param *conn = &event->public.param.conn;
    const struct cm_message *peer = &id->peer;

    _Static_assert(sizeof event->private_data == sizeof peer->private_data, "all that a message holds");
    _Static_assert(offsetof(struct rdma_ud_param, private_data_len) ==
                       offsetof(struct rdma_conn_param, private_data_len),
                   "at the same place, whichever it is");
    if (peer->private_length > 0 && peer->private_length <= sizeof event->private_data) {
        memcpy(event->private_data, peer->private_data, peer->private_length);
        conn->private_data = event->private_data;
        conn->private_data_len = peer->private_length;
    }
    if (cm_is_datagram(id))
        cm_datagram_describe(id, &event->public.param.ud);
    else
        cm_connection_describe(conn, peer);
}

/* Memory for an event. NULL: there is none. (locked) */
static struct cm_event *take_event(struct cm_channel *channel)
{
    struct cm_event *event = channel->spare;

    if (event == NULL)
        return calloc(1, sizeof *event);
    channel->spare = NULL;
    memset(event, 0, sizeof *event);
    return event;
}

/* Frees an event, or keeps it as the spare one. (locked) */
static void give_event(struct cm_channel *channel, struct cm_event *event)
{
    if (channel->spare == NULL)
        channel->spare = event;
    else
        free(event);
}

static int deliver_event(struct cm_channel *channel, struct rdma_cm_event **out)
{
    struct cm_pending *pending = TAILQ_FIRST(&channel->pending);
    struct cm_event *event = take_event(channel);
    struct cm_id *id = pending->id;

    if (event == NULL)
        return -1;
    event->public.id = &id->public;
    event->id = id;
    event->public.event = pending->type;
    event->public.status = pending->status;
    if (pending == &id->pending[CM_KIND_CONNECT])
        describe_peer(event, id);
    else
        cm_multicast_describe(id, pending, &event->public);
    if (pending->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        event->public.listen_id = &id->listener->public;
        event->id = id->listener;
        TAILQ_REMOVE(&id->listener->children, id, child); /* now the application owns it */
        id->listener = NULL;
    }
    TAILQ_REMOVE(&channel->pending, pending, entry);
    pending->queued = false;
    event->id->unacknowledged++;
    *out = &event->public;
    return 0;
}

/* ---- Waiting ------------------------------------------------------------------------------------------- */

/* (locked) Ends a wait. True: the channel was destroyed, and is unlocked; the last waiter has freed it. */
static bool stop_waiting(struct cm_channel *channel)
{
    bool last = --channel->waiters == 0;

    if (!channel->gone)
        return false;
    soft_mutex_unlock(&channel->lock);
    if (last)
        free_channel(channel);
    return true;
}

static void wait_cancelled(void *arg)
{
    struct cm_channel *channel = arg;

    soft_mutex_lock(&channel->lock);
    if (!stop_waiting(channel))
        cm_unlock(channel);
}

/* (locked) Waits until the descriptor is readable; unlocks while it waits. 0, or -1 and errno. With the kernel a
 * blocked read outlives its file, so applications destroy a channel on which one of their threads waits, and then
 * exit. That thread must get neither an error, which it would report, nor freed memory. */
static int wait_readable(struct cm_channel *channel)
{
    struct pollfd fd = {.fd = channel->public.fd, .events = POLLIN};
    int result, error;

    channel->waiters++;
    cm_unlock(channel);
    pthread_cleanup_push(wait_cancelled, channel);
    result = poll(&fd, 1, -1);
    error = errno;
    pthread_cleanup_pop(0);
    soft_mutex_lock(&channel->lock);
    if (stop_waiting(channel)) {
        for (;;)
            pause();
    }
    errno = error;
    return result == -1 ? -1 : 0;
}

/* (locked) Returns 0 and an event, or -1 and errno. */
static int next_event(struct cm_channel *channel, struct rdma_cm_event **event)
{
    for (;;) {
        int flags;

        if (TAILQ_EMPTY(&channel->pending))
            handle_sockets(channel);
        if (!TAILQ_EMPTY(&channel->pending))
            return deliver_event(channel, event);
        if (channel->public.fd == -1) /* a quiet channel: its user sleeps on the wait set */
            return cm_result(EAGAIN);
        flags = fcntl(channel->public.fd, F_GETFL);
        if (flags == -1)
            return -1;
        if ((flags & O_NONBLOCK) != 0)
            return cm_result(EAGAIN);
        if (wait_readable(channel) == -1)
            return -1;
    }
}

int soft_get_cm_event(struct rdma_event_channel *public, struct rdma_cm_event **event)
{
    struct cm_channel *channel = (struct cm_channel *)public;
    int result;

    soft_mutex_lock(&channel->lock);
    result = next_event(channel, event);
    cm_unlock(channel);
    return result;
}

int soft_ack_cm_event(struct rdma_cm_event *public)
{
    struct cm_event *event = (struct cm_event *)public;
    struct cm_channel *channel = cm_lock(event->id);

    event->id->unacknowledged--;
    pthread_cond_broadcast(&channel->acknowledged);
    give_event(channel, event);
    cm_unlock(channel);
    return 0;
}
