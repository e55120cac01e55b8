/* SPDX-License-Identifier: BSD-2-Clause */
/* run.c - one turn of a queue: completions first, then connection events and timers. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/device/registry.h"
#include "nic.h"
#include "queue.h"
#include "socket.h"
#include "upcalls.h"

/* While a loop finds completions in each pass, CM events and timers, which cost system calls, are deferred: for
 * this number of passes, or for this time. The clock is read only every BUSY_CLOCK_TURNS passes. */
#define BUSY_TURNS_MAX 256
#define BUSY_NS_MAX (NS_PER_S / 50)
#define BUSY_CLOCK_TURNS 16
#define CM_EVENTS_MAX 64 /* per pass, so that a flood of connection requests can't keep the loop busy */

/* Make an event channel whose calls don't block. NULL and errno. */
static struct rdma_event_channel *make_channel(const struct device *device, struct waitset **waits)
{
    if (device->create_quiet_event_channel != NULL)
        return device->create_quiet_event_channel(waits);
    struct rdma_event_channel *channel = device->create_event_channel();

    *waits = NULL;
    if (channel != NULL && fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) < 0) {
        device->destroy_event_channel(channel);
        channel = NULL;
    }
    return channel;
}

struct rdma_event_channel *xs_queue_channel(struct queue *queue, int device)
{
    struct rdma_event_channel *channel = queue->channels.cm[device];
    struct waitset *waits;

    if (channel != NULL)
        return channel;
    channel = make_channel(xs_device(device), &waits);
    if (channel == NULL) {
        xs_log("device %s has no event channel: %s", xs_device(device)->name, strerror(errno));
        return NULL;
    }
    if (xs_queue_watch(queue, channel->fd, waits) < 0) {
        xs_device(device)->destroy_event_channel(channel);
        return NULL;
    }
    queue->channels.cm_waits[device] = waits;
    return queue->channels.cm[device] = channel;
}

/* Handle one CM event. It is copied and acknowledged before it is handled, because handling it may destroy its
 * id, and rdma_destroy_id() waits until all events of the id are acknowledged. */
static bool run_channel(struct queue *queue, int device)
{
    struct rdma_cm_event *event, copy;
    uint8_t private_data[256];
    size_t length;

    if (xs_device(device)->get_cm_event(queue->channels.cm[device], &event) < 0)
        return false;
    copy = *event;
    length = event->param.conn.private_data_len;
    if (event->param.conn.private_data != NULL && length > 0) {
        memcpy(private_data, event->param.conn.private_data, length);
        copy.param.conn.private_data = private_data;
    } else {
        copy.param.conn.private_data_len = 0;
    }
    xs_device(device)->ack_cm_event(event);

    if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
        xs_listener_request(copy.listen_id->context, &copy, device);
    else
        xs_sock_cm_event(copy.id->context, &copy, device);
    return true;
}

bool xs_queue_needs_timer(const struct queue *queue)
{
    return queue->fd >= 0 || !LIST_EMPTY(&queue->hosts.list) || queue->time.keeps_time;
}

bool xs_queue_keeps_time(const struct queue *queue)
{
    return queue->time.timer.fd >= 0 || !xs_queue_needs_timer(queue);
}

uint64_t xs_queue_due(const struct queue *queue)
{
    const struct sock *first = TAILQ_FIRST(&queue->time.socks);

    return first != NULL && first->deadline < queue->time.device_due ? first->deadline : queue->time.device_due;
}

void xs_queue_set_timer(struct queue *queue)
{
    uint64_t when = xs_queue_due(queue);

    if (when == queue->time.timer.at || !xs_queue_needs_timer(queue))
        return;
    if (queue->time.timer.fd < 0 &&
        (doorbell_make(&queue->time.timer) < 0 || xs_queue_watch(queue, queue->time.timer.fd, NULL) < 0)) {
        xs_log("cannot create a timer: %s; connections will not time out", strerror(errno));
        doorbell_close(&queue->time.timer);
        return;
    }
    doorbell_time(&queue->time.timer, when);
}

void xs_queue_time(struct queue *queue, struct sock *sock, uint64_t deadline)
{
    struct sock *other;

    if (sock->deadline != 0)
        TAILQ_REMOVE(&queue->time.socks, sock, by_time);
    sock->deadline = deadline;
    if (deadline != 0) {
        TAILQ_FOREACH_REVERSE(other, &queue->time.socks, timed_socks, by_time)
        {
            if (other->deadline <= deadline)
                break;
        }
        if (other != NULL) {
            TAILQ_INSERT_AFTER(&queue->time.socks, other, sock, by_time);
        } else {
            TAILQ_INSERT_HEAD(&queue->time.socks, sock, by_time);
            xs_queue_wake_by(queue, deadline);
        }
    }
    xs_queue_set_timer(queue);
}

static void run_timers(struct queue *queue, struct turn *turn)
{
    struct sock *sock = TAILQ_FIRST(&queue->time.socks);
    uint64_t now;

    if (sock == NULL && queue->time.timer.at == NEVER_NS && queue->time.device_due == NEVER_NS)
        return;
    now = now_ns();
    if (now >= queue->time.timer.at)
        doorbell_time(&queue->time.timer, NEVER_NS);
    /* The thread that polls handles the device's timer, and asks the device for the next one before it
     * sleeps. */
    if (now >= queue->time.device_due) {
        queue->time.device_due = NEVER_NS;
        atomic_store_explicit(&queue->waits, true, memory_order_relaxed);
    }
    while ((sock = TAILQ_FIRST(&queue->time.socks)) != NULL && sock->deadline <= now) {
        xs_queue_time(queue, sock, 0);
        xs_sock_timeout(sock);
        turn->others++;
    }
    if (queue->time.timer.at == NEVER_NS)
        xs_queue_set_timer(queue);
}

static void run_channels(struct queue *queue, struct turn *turn)
{
    for (int device = 0; device < xs_devices(); device++) {
        int most = CM_EVENTS_MAX;

        if (queue->channels.cm[device] == NULL)
            continue;
        while (most > 0 && run_channel(queue, device))
            most--;
        turn->others += CM_EVENTS_MAX - most;
        turn->left = turn->left || most == 0;
    }
}

/* Must CM events be handled now, although there are completions? Counts the pass. */
static bool busy_enough(struct queue *queue)
{
    if (++queue->time.busy_turns % BUSY_CLOCK_TURNS != 0)
        return false;

    uint64_t now = now_ns();

    if (queue->time.busy_turns == BUSY_CLOCK_TURNS)
        queue->time.busy_since = now;
    return queue->time.busy_turns >= BUSY_TURNS_MAX || now - queue->time.busy_since >= BUSY_NS_MAX;
}

/* Does this pass leave CM events and timers to a later one? */
static bool leaves_others(struct queue *queue, const struct turn *turn)
{
    if (turn->watched == BY_EDGE)
        return false;
    return turn->harvested > 0 ? !busy_enough(queue) : turn->watched == BY_POLLING;
}

inline void xs_turn_home(struct queue *queue, struct turn *turn)
{
    int before = turn->harvested; /* completions of other queues in the same pass */
    struct nic *nic = LIST_FIRST(&queue->channels.nics), *next;

    for (; nic != NULL; nic = next) {
        next = LIST_NEXT(nic, link);
        xs_nic_run(nic, turn);
    }
    queue->completions += (unsigned)(turn->harvested - before);
    xs_queue_note_waits(queue);
    if (leaves_others(queue, turn)) {
        turn->left = turn->busy = true;
        return;
    }
    queue->time.busy_turns = 0;
    run_channels(queue, turn);
    run_timers(queue, turn);
    if (!LIST_EMPTY(&queue->polls))
        xs_polls_run(queue);
}

/* Process the devices' completions. True: completions or packets arrived. Called with the lock. */
static inline bool take_completions(struct queue *queue)
{
    struct nic *nic, *next;
    bool activity = false;
    int taken = 0;

    for (nic = LIST_FIRST(&queue->channels.nics); nic != NULL; nic = next) {
        next = LIST_NEXT(nic, link);
        activity = xs_nic_has_activity(nic) || activity;
        taken += xs_nic_look(nic); /* this may free the nic */
    }
    queue->completions += (unsigned)taken;
    xs_queue_note_waits(queue);
    return activity || taken > 0;
}

bool xs_queue_has_activity(struct queue *queue)
{
    struct nic *nic;
    bool activity = false;

    mutex_lock(&queue->lock);
    LIST_FOREACH (nic, &queue->channels.nics, link) {
        activity = xs_nic_has_activity(nic) || activity;
    }
    xs_queue_unlock(queue);
    return activity;
}

bool xs_queue_look(struct queue *queue)
{
    mutex_lock(&queue->lock);
    bool came = take_completions(queue);

    xs_queue_unlock(queue);
    return came;
}

bool xs_queue_look_for_events(struct queue *queue, bool *came)
{
    mutex_lock(&queue->lock);
    *came = take_completions(queue);
    bool gives = !STAILQ_EMPTY(&queue->own.done);

    if (gives) {
        mutex_lock(&queue->events.lock);
        STAILQ_CONCAT(&queue->events.list, &queue->own.done);
    }
    xs_queue_unlock(queue);
    return gives;
}

void xs_turn(struct queue *queue, struct turn *turn)
{
    mutex_lock(&queue->lock);
    xs_turn_home(queue, turn);
    if (!turn->busy && atomic_load(&queue->attachment_count) > 0) {
        xs_queue_unlock(queue);
        xs_turn_attachments(queue, turn);
        mutex_lock(&queue->events.lock);
        return;
    }
    mutex_lock(&queue->events.lock);
    STAILQ_CONCAT(&queue->events.list, &queue->own.done);
    xs_queue_unlock(queue);
}

void xs_queue_note_waits(struct queue *queue)
{
    struct nic *nic;
    bool waits = !LIST_EMPTY(&queue->held);

    LIST_FOREACH (nic, &queue->channels.nics, link) {
        waits = waits || xs_nic_waits(nic);
    }
    atomic_store_explicit(&queue->waits, waits, memory_order_relaxed);
}

void xs_queue_prepare_sleep(struct queue *queue)
{
    struct nic *nic;

    xs_conns_send_held(queue);
    queue->time.device_due = NEVER_NS;
    atomic_store_explicit(&queue->busy_polls, false, memory_order_relaxed);
    LIST_FOREACH (nic, &queue->channels.nics, link) {
        uint64_t due = xs_nic_flush(nic);

        queue->time.device_due = due < queue->time.device_due ? due : queue->time.device_due;
    }
    /* A timer that is set to an earlier time expires too early, which is harmless and rare. */
    if (queue->time.device_due < queue->time.timer.at)
        xs_queue_set_timer(queue);
    atomic_store_explicit(&queue->waits, false, memory_order_relaxed);
}
