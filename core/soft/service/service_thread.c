/* SPDX-License-Identifier: BSD-2-Clause */
/* service_thread.c - what the service thread does: it looks after every member as its state wants (service.h).
 */
#include <errno.h>
#include <poll.h>
#include "service_thread.h"
#include "core/clock.h"
#include "core/fds.h"
#include "core/soft/engine/wire.h"

#define TICK_MAX_NS (8 * SERVICE_TICK_NS) /* where nothing is due before, */
#define PATIENCE_MAX_NS                                                                                        \
    (4 * SERVICE_TICK_NS) /* or nothing is, but what it left alone waits for the thread if it goes */
#define SLEEP_MAX_NS                                                                                           \
    (16 *                                                                                                      \
     SERVICE_TICK_NS)  /* or somebody sees to it himself, who may go, and do something else, when he wakes */
#define QUIET_TICKS 10 /* without traffic or deadline until a member is IDLE */
#define BATCH 16       /* events taken from epoll at a time */

/* ---- Members ---- */

/* Armed anew the door tells of who stands there, whether it has told of him before or not. */
static void arm(struct service_member *member, int socket, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = member};

    if (socket == member->door)
        event.events |= EPOLLET;
    fds_rewatch(service_shared.epoll, socket, &event);
}

void service_arm(struct service_member *member, uint32_t events)
{
    for (int i = 0; i < member->count; i++)
        arm(member, member->sockets[i], events);
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
        LIST_INSERT_HEAD(&service_shared.watched, member, watched);
        member->quiet = 0;
        member->late = false;
        member->patience = SERVICE_TICK_NS;
        member->due = now_ns() + SERVICE_TICK_NS;
    }
    service_arm(member, 0);
}

/* The application is back. */
static void step_aside(struct service_member *member)
{
    member->absent = false;
    member->late = false;
    if (atomic_load(&member->state) == SERVICE_SERVE)
        service_watch(member);
}

/* Is the application there? One that waits for an event elsewhere was here only to say so. */
static bool is_attended(struct service_member *member)
{
    return atomic_exchange(&member->attended, false) && !soft_is_awaited(member->context);
}

/* Take in what has come, unless the application is there to do it. */
static void serve(struct service_member *member)
{
    bool attended = is_attended(member);

    if (attended || !soft_trylock(member->context)) {
        if (attended || !soft_is_awaited(member->context)) /* else it lets go in a moment */
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

/* A packet woke the thread. An application that was not there for the last one is not waited for again. */
static void arrival(struct service_member *member)
{
    int state = atomic_load(&member->state);

    if (member->suspended)
        service_arm(member, 0);
    else if (state == SERVICE_SERVE)
        serve(member);
    else {
        service_watch(member);
        if (member->absent || soft_is_awaited(member->context))
            serve(member);
    }
}

void service_answer_summons(void)
{
    struct service_member *member = atomic_exchange(&service_shared.summoned, NULL);

    while (member != NULL) {
        struct service_member *next = member->summoned;

        if (atomic_load(&member->state) == SERVICE_CALLED)
            service_watch(member);
        member = next;
    }
}

/* ---- The loop ---- */

/* What the members' own sockets and callers ask for. Stale events can't be: a member that leaves takes its
 * sockets out of epoll under the lock that is held here. */
static void collect(void)
{
    struct epoll_event events[BATCH];
    int count = epoll_wait(service_shared.epoll, events, BATCH, 0);

    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr != NULL)
            arrival(events[i].data.ptr);
        else
            fds_flag(service_shared.wake, false); /* unless another pass has taken it */
    }
    service_answer_summons();
}

/* Thousands of processes that each looked once a millisecond would do little else: whoever waits for an answer
 * that is not due yet is looked at when it is. What comes meanwhile wakes the application, or else has to wait
 * a little for the thread, once. Nor is one that is found there each time to be disturbed so often. */
static uint64_t next_look(const struct service_member *member, uint64_t now, uint64_t deadline)
{
    uint64_t most = deadline == NEVER_NS ? member->patience : TICK_MAX_NS;

    if (soft_is_slept_on(member->context) && !member->late && atomic_load(&member->state) == SERVICE_WATCH)
        return now + SLEEP_MAX_NS;
    if (member->late || deadline < now + SERVICE_TICK_NS)
        return now + SERVICE_TICK_NS;
    return deadline < now + most ? deadline : now + most;
}

static void note_attendance(struct service_member *member, bool attended)
{
    if (!attended)
        member->patience = SERVICE_TICK_NS;
    else if (member->patience < PATIENCE_MAX_NS)
        member->patience *= 2;
}

/* Run the timers that are due, and let a member with none and without traffic go. Whoever looked, and was to
 * look again, is not waited for. */
static void tick_timers(struct service_member *member, uint64_t now, bool traffic, bool attended)
{
    uint64_t deadline;

    member->due = now + SERVICE_TICK_NS;
    if (!soft_trylock(member->context))
        return;
    deadline = soft_deadline(member->context);
    if (deadline <= now) { /* progress, not timers alone: the answer may be lying in the socket */
        soft_progress(member->context);
        deadline = soft_deadline(member->context);
    }
    member->due = next_look(member, now, deadline);
    if (traffic || deadline != NEVER_NS) {
        member->quiet = 0;
    } else if (++member->quiet >= QUIET_TICKS) {
        LIST_REMOVE(member, watched);
        atomic_store(&member->state, SERVICE_IDLE);
        service_arm(member, EPOLLIN | EPOLLONESHOT);
    }
    if (!attended || atomic_load(&member->state) == SERVICE_IDLE)
        soft_watch_again(member->context);
    soft_unlock(member->context);
}

static void tick(struct service_member *member, uint64_t now)
{
    unsigned traffic = atomic_load_explicit(&member->traffic, memory_order_relaxed);
    bool attended = is_attended(member);

    note_attendance(member, attended);
    if (attended)
        step_aside(member);
    else if (atomic_load(&member->state) == SERVICE_WATCH) {
        bool late = packets_wait(member);

        if (late && member->late)
            serve(member);
        member->late = late;
    } else if (member->door != -1) { /* packets that came with him may have kept him from being seen */
        arm(member, member->door, EPOLLIN);
    }
    tick_timers(member, now, traffic != member->traffic_seen, attended);
    member->traffic_seen = traffic;
}

/* All that are due. */
static void tick_all(uint64_t now)
{
    struct service_member *member = LIST_FIRST(&service_shared.watched);

    while (member != NULL) {
        struct service_member *next = LIST_NEXT(member, watched);

        if (!member->suspended && member->due <= now)
            tick(member, now);
        member = next;
    }
}

/* Milliseconds until the next of them is due, or the errand; -1: none ever. One that is suspended is looked at
 * again later. */
static int until_next_look(void)
{
    const struct service_member *member;
    uint64_t now = now_ns(), next = atomic_load(&service_shared.errand_due);

    if (!LIST_EMPTY(&service_shared.watched) && next > now + SLEEP_MAX_NS)
        next = now + SLEEP_MAX_NS;
    LIST_FOREACH (member, &service_shared.watched, watched) {
        if (!member->suspended && member->due < next)
            next = member->due;
    }
    return next == NEVER_NS ? -1 : ns_milliseconds(ns_left(next, now));
}

/* (not locked) */
static void run_errand(bool called)
{
    if (!called && atomic_load(&service_shared.errand_due) > now_ns())
        return;
    soft_mutex_lock(&service_shared.errand_lock);
    service_shared.run_errand();
    soft_mutex_unlock(&service_shared.errand_lock);
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
        calls[1].fd = service_shared.errand;
        soft_mutex_unlock(&service_shared.lock);
        /* Not epoll_wait: that would use up events whose member may be gone once the lock is held. */
        poll(calls, 2, timeout);

        soft_mutex_lock(&service_shared.lock);
        collect();
        tick_all(now_ns());
        quit = service_shared.quit;
        soft_mutex_unlock(&service_shared.lock);
        if (calls[1].fd != -1)
            run_errand(calls[1].revents != 0);
    }
    return NULL;
}
