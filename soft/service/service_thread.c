/* SPDX-License-Identifier: BSD-2-Clause */
/* service_thread.c - the service thread: does for each member what its state requires (service.h). */
#include <poll.h>
#include "soft/lock.h"
#include "service_thread.h"
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "soft/engine/wire.h"

#define TICK_MAX_NS (8 * SERVICE_TICK_NS) /* Time until the next tick of a member if no timer is due earlier. */
#define PATIENCE_MAX_NS                                                                                        \
    (4 * SERVICE_TICK_NS) /* the same if no timer runs: packets that the application leaves alone wait */
#define SLEEP_MAX_NS                                                                                           \
    (16 *                                                                                                      \
     SERVICE_TICK_NS)  /* the same if a thread sleeps that handles packets and timers as soon as it is woken */
#define QUIET_TICKS 10 /* Ticks without traffic or timer until a member is IDLE. */
#define BATCH 16       /* events taken from epoll in one call */

/* ---- Members ---- */

/* Re-arming a listening unix socket reports a waiting connection again, even if it was reported before. */
static void arm_socket(struct service_member *member, int socket, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = member};

    if (socket == member->listener)
        event.events |= EPOLLET;
    fds_rewatch(service_shared.epoll, socket, &event);
}

void service_arm(struct service_member *member, uint32_t events)
{
    for (int i = 0; i < member->count; i++)
        arm_socket(member, member->sockets[i], events);
}

static bool packets_wait(const struct service_member *member)
{
    struct pollfd sockets[SERVICE_SOCKETS];

    for (int i = 0; i < member->count; i++)
        sockets[i] = (struct pollfd){.fd = member->sockets[i], .events = POLLIN};
    return poll(sockets, (nfds_t)member->count, 0) > 0;
}

void service_watch(struct service_member *member)
{
    int state = atomic_exchange(&member->state, SERVICE_WATCH);

    if (state == SERVICE_IDLE || state == SERVICE_CALLED) {
        TAILQ_INSERT_TAIL(&service_shared.watched, member, watched);
        member->quiet = 0;
        member->late = false;
        member->patience = SERVICE_TICK_NS;
        member->due = now_ns() + SERVICE_TICK_NS;
    }
    service_arm(member, 0);
}

/* The application drives the device again, so the thread stops serving. */
static void step_aside(struct service_member *member)
{
    member->absent = false;
    member->late = false;
    if (atomic_load(&member->state) == SERVICE_SERVE)
        service_watch(member);
}

/* True if the application has driven the device since the last call of this function. That does not count while a
 * completion queue is awaited (soft_is_awaited()): the application has then only announced that it will sleep. */
static bool is_polled(struct service_member *member)
{
    return atomic_exchange(&member->attended, false) && !soft_is_awaited(member->context);
}

/* Processes packets, unless the application does: it has polled, or a thread holds the context's lock. */
static void serve_member(struct service_member *member)
{
    bool attended = is_polled(member);

    if (attended || !soft_trylock(member->context)) {
        if (attended || !soft_is_awaited(member->context)) /* else the application will release the lock soon */
            step_aside(member);
        return;
    }
    if (atomic_load(&member->state) != SERVICE_SERVE) {
        atomic_store(&member->state, SERVICE_SERVE);
        member->absent = true;
        service_arm(member, EPOLLIN);
    }
    soft_progress(member->context);
    soft_unlock(member->context);
}

/* A packet woke the thread. The thread leaves the packet to the application, unless it had to serve the last time and
 * the application has not driven the device since, or a completion queue is awaited. */
static void handle_arrival(struct service_member *member)
{
    int state = atomic_load(&member->state);

    if (member->suspended)
        service_arm(member, 0);
    else if (state == SERVICE_SERVE)
        serve_member(member);
    else {
        service_watch(member);
        if (member->absent || soft_is_awaited(member->context))
            serve_member(member);
    }
}

/* The list `scheduled` begins with the newest member. It is reversed, so that the thread watches members in the order
 * in which they were scheduled, and connections are accepted in the order in which their peers became ready. */
void service_run_scheduled(void)
{
    struct service_member *newest = atomic_exchange(&service_shared.scheduled, NULL), *member = NULL;

    while (newest != NULL) {
        struct service_member *older = newest->scheduled;

        newest->scheduled = member;
        member = newest;
        newest = older;
    }
    while (member != NULL) {
        struct service_member *next = member->scheduled;

        if (atomic_load(&member->state) == SERVICE_CALLED)
            service_watch(member);
        member = next;
    }
}

/* ---- The loop ---- */

/* Handles the events of the members' sockets, and members in CALLED. There are no stale events: service_leave() removes
 * the sockets from the epoll with the same lock that is held here. */
static void collect_events(void)
{
    struct epoll_event events[BATCH];
    int count = epoll_wait(service_shared.epoll, events, BATCH, 0);

    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr != NULL)
            handle_arrival(events[i].data.ptr);
        else
            fds_flag(service_shared.wake, false); /* unless another pass has reset it */
    }
    service_run_scheduled();
}

/* When to wake for this member again. If thousands of processes woke once a millisecond, they would do little else. A
 * member with a timer is therefore visited when the timer is due. Packets that arrive earlier wake the application, or
 * wait once for the thread. A member whose application is found active each time is visited less often, too. */
static uint64_t next_look(const struct service_member *member, uint64_t now, uint64_t deadline)
{
    uint64_t most = deadline == NEVER_NS ? member->patience : TICK_MAX_NS;

    if (soft_is_slept_on(member->context) && !member->late && atomic_load(&member->state) == SERVICE_WATCH)
        return now + SLEEP_MAX_NS;
    if (member->late || deadline < now + SERVICE_TICK_NS)
        return now + SERVICE_TICK_NS;
    return deadline < now + most ? deadline : now + most;
}

static void record_poll(struct service_member *member, bool attended)
{
    if (!attended)
        member->patience = SERVICE_TICK_NS;
    else if (member->patience < PATIENCE_MAX_NS)
        member->patience *= 2;
}

/* Runs the timers that are due, and makes a member without timers and traffic IDLE. If the application has not polled
 * since the last tick, packets wake a waiting thread again (soft_watch_again). */
static void tick_timers(struct service_member *member, uint64_t now, bool traffic, bool attended)
{
    uint64_t deadline;

    member->due = now + SERVICE_TICK_NS;
    if (!soft_trylock(member->context))
        return;
    deadline = soft_deadline(member->context);
    if (deadline <= now) { /* not only timers: the answer may be in the socket */
        soft_progress(member->context);
        deadline = soft_deadline(member->context);
    }
    member->due = next_look(member, now, deadline);
    if (traffic || deadline != NEVER_NS) {
        member->quiet = 0;
    } else if (++member->quiet >= QUIET_TICKS) {
        TAILQ_REMOVE(&service_shared.watched, member, watched);
        atomic_store(&member->state, SERVICE_IDLE);
        service_arm(member, EPOLLIN | EPOLLONESHOT);
    }
    if (!attended || atomic_load(&member->state) == SERVICE_IDLE)
        soft_watch_again(member->context);
    soft_unlock(member->context);
}

static void tick_member(struct service_member *member, uint64_t now)
{
    unsigned traffic = atomic_load_explicit(&member->traffic, memory_order_relaxed);
    bool attended = is_polled(member);

    record_poll(member, attended);
    if (attended)
        step_aside(member);
    else if (atomic_load(&member->state) == SERVICE_WATCH) {
        bool late = packets_wait(member);

        if (late && member->late)
            serve_member(member);
        member->late = late;
    } else if (member->listener != -1) { /* a connection may have been missed among packets */
        arm_socket(member, member->listener, EPOLLIN);
    }
    tick_timers(member, now, traffic != member->traffic_seen, attended);
    member->traffic_seen = traffic;
}

/* Ticks all members that are due. */
static void tick_all(uint64_t now)
{
    struct service_member *member = TAILQ_FIRST(&service_shared.watched);

    while (member != NULL) {
        struct service_member *next = TAILQ_NEXT(member, watched);

        if (!member->suspended && member->due <= now)
            tick_member(member, now);
        member = next;
    }
}

/* Returns milliseconds until the next member or the additional task is due; -1: never. A suspended member is visited
 * later. */
static int until_next_look(void)
{
    const struct service_member *member;
    uint64_t now = now_ns(), next = atomic_load(&service_shared.task_due);

    if (!TAILQ_EMPTY(&service_shared.watched) && next > now + SLEEP_MAX_NS)
        next = now + SLEEP_MAX_NS;
    TAILQ_FOREACH (member, &service_shared.watched, watched) {
        if (!member->suspended && member->due < next)
            next = member->due;
    }
    return next == NEVER_NS ? -1 : ns_milliseconds(ns_left(next, now));
}

/* The service lock is not held. */
static void run_task(bool called)
{
    if (!called && atomic_load(&service_shared.task_due) > now_ns())
        return;
    soft_mutex_lock(&service_shared.task_lock);
    service_shared.run_task();
    soft_mutex_unlock(&service_shared.task_lock);
}

void *service_run(void *unused)
{
    bool quit = false;

    (void)unused;
    pthread_setname_np(pthread_self(), "exs-service");
    sem_post(&service_shared.begun);
    while (!quit) {
        struct pollfd calls[] = {{.fd = service_shared.epoll, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
        int timeout;

        soft_mutex_lock(&service_shared.lock);
        timeout = until_next_look();
        calls[1].fd = service_shared.task;
        soft_mutex_unlock(&service_shared.lock);
        /* Not epoll_wait(): it would consume events whose member may have left before the lock is taken. */
        poll(calls, 2, timeout);

        soft_mutex_lock(&service_shared.lock);
        collect_events();
        tick_all(now_ns());
        quit = service_shared.quit;
        soft_mutex_unlock(&service_shared.lock);
        if (calls[1].fd != -1)
            run_task(calls[1].revents != 0);
    }
    return NULL;
}
