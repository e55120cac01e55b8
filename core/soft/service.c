/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The service thread: one for the process, over the sockets of all contexts.
 *
 * Locks: a context is locked before the service, since links join and add sockets from inside the engine. The
 * thread itself holds the service lock first, so it only ever tries a context's lock; who holds that one is
 * driving the device, and there is nothing left to do. A member turns IDLE under both locks: had the
 * application sent something in between, nobody would watch its deadline.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "../fds.h"
#include "lock.h"
#include "service.h"
#include "wire.h"

#define TICK_MS 1
#define TICK_NS UINT64_C(1000000)
#define QUIET_TICKS 10 /* without traffic or deadline until a member is IDLE */
#define BATCH 16       /* events taken from epoll at a time */

static struct {
    pthread_mutex_t gate; /* starting and ending the thread; taken before lock */
    pthread_mutex_t lock; /* everything below, and the members */
    pthread_t thread;
    unsigned members;
    bool forks_wait; /* the handlers of fork are in place; under gate */
    bool quit;
    int epoll, wake;
    LIST_HEAD(, service_member) watched; /* all in WATCH and SERVE */
    _Atomic(struct service_member *) summoned;
} service = {
    .gate = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .epoll = -1,
    .wake = -1,
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void wake(void)
{
    const uint64_t one = 1;

    while (write(service.wake, &one, sizeof one) == -1 && errno == EINTR)
        ;
}

/* Let the member's packets wake the thread: EPOLLIN always, with EPOLLONESHOT once, 0 never. */
static void arm(struct service_member *member, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = member};

    for (int i = 0; i < member->count; i++)
        epoll_ctl(service.epoll, EPOLL_CTL_MOD, member->sockets[i], &event);
}

static bool packets_wait(const struct service_member *member)
{
    struct pollfd sockets[SERVICE_SOCKETS];

    for (int i = 0; i < member->count; i++)
        sockets[i] = (struct pollfd){.fd = member->sockets[i], .events = POLLIN};
    return poll(sockets, (nfds_t)member->count, 0) > 0;
}

static void watch(struct service_member *member)
{
    int state = atomic_exchange(&member->state, SERVICE_WATCH);

    if (state == SERVICE_IDLE || state == SERVICE_CALLED) {
        LIST_INSERT_HEAD(&service.watched, member, watched);
        member->quiet = 0;
        member->late = false;
    }
    arm(member, 0);
}

/* The application is back. */
static void step_aside(struct service_member *member)
{
    member->absent = false;
    member->late = false;
    if (atomic_load(&member->state) == SERVICE_SERVE)
        watch(member);
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
        arm(member, EPOLLIN);
    }
    soft_progress(member->context);
    soft_unlock(member->context);
}

/* A packet woke the thread. An application that was not there for the last one is not waited for again. */
static void arrival(struct service_member *member)
{
    int state = atomic_load(&member->state);

    if (member->suspended)
        arm(member, 0);
    else if (state == SERVICE_SERVE)
        serve(member);
    else {
        watch(member);
        if (member->absent || soft_is_awaited(member->context))
            serve(member);
    }
}

static void answer_summons(void)
{
    struct service_member *member = atomic_exchange(&service.summoned, NULL);

    while (member != NULL) {
        struct service_member *next = member->summoned;

        if (atomic_load(&member->state) == SERVICE_CALLED)
            watch(member);
        member = next;
    }
}

/* What the members' own sockets and callers ask for. Stale events can't be: a member that leaves takes its
 * sockets out of epoll under the lock that is held here. */
static void collect(void)
{
    struct epoll_event events[BATCH];
    int count = epoll_wait(service.epoll, events, BATCH, 0);

    for (int i = 0; i < count; i++) {
        uint64_t ignored;

        if (events[i].data.ptr != NULL)
            arrival(events[i].data.ptr);
        else if (read(service.wake, &ignored, sizeof ignored) == -1)
            continue; /* another pass has taken it */
    }
    answer_summons();
}

/* Run the timers that are due, and let a member with none and without traffic go. */
static void tick_timers(struct service_member *member, bool traffic)
{
    uint64_t deadline;

    if (!soft_trylock(member->context))
        return;
    deadline = soft_deadline(member->context);
    if (deadline <= now_ns()) /* progress, not timers alone: the answer may be lying in the socket */
        soft_progress(member->context);
    if (traffic || deadline != SOFT_NEVER) {
        member->quiet = 0;
    } else if (++member->quiet >= QUIET_TICKS) {
        LIST_REMOVE(member, watched);
        atomic_store(&member->state, SERVICE_IDLE);
        arm(member, EPOLLIN | EPOLLONESHOT);
    }
    soft_unlock(member->context);
}

static void tick(struct service_member *member)
{
    unsigned traffic = atomic_load_explicit(&member->traffic, memory_order_relaxed);

    if (is_attended(member))
        step_aside(member);
    else if (atomic_load(&member->state) == SERVICE_WATCH) {
        bool late = packets_wait(member);

        if (late && member->late)
            serve(member);
        member->late = late;
    }
    tick_timers(member, traffic != member->traffic_seen);
    member->traffic_seen = traffic;
}

static void tick_all(void)
{
    struct service_member *member = LIST_FIRST(&service.watched);

    while (member != NULL) {
        struct service_member *next = LIST_NEXT(member, watched);

        if (!member->suspended)
            tick(member);
        member = next;
    }
}

static void *run(void *unused)
{
    uint64_t next_tick = 0;
    bool quit = false;

    (void)unused;
    pthread_setname_np(pthread_self(), "exs-service");
    while (!quit) {
        struct pollfd epoll = {.fd = service.epoll, .events = POLLIN};
        int timeout;

        soft_mutex_lock(&service.lock);
        timeout = LIST_EMPTY(&service.watched) ? -1 : TICK_MS;
        soft_mutex_unlock(&service.lock);
        /* Not epoll_wait: that would use up events whose member may be gone once the lock is held. */
        poll(&epoll, 1, timeout);

        soft_mutex_lock(&service.lock);
        collect();
        if (now_ns() >= next_tick) {
            tick_all();
            next_tick = now_ns() + TICK_NS;
        }
        quit = service.quit;
        soft_mutex_unlock(&service.lock);
    }
    return NULL;
}

/* A fork waits until the thread has come to a stop between two pieces of work: what it holds in the middle of
 * one, locks of an allocator for example, the child would find locked for ever. */
static void before_fork(void)
{
    soft_mutex_lock(&service.lock);
}

static void after_fork(void)
{
    soft_mutex_unlock(&service.lock);
}

/* The application's signal handlers are not meant to run here. */
static int start_thread(void)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&service.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int start(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int error;

    if (!service.forks_wait && (error = pthread_atfork(before_fork, after_fork, after_fork)) != 0)
        return error;
    service.forks_wait = true;
    service.quit = false;
    service.epoll = fds_own(epoll_create1(EPOLL_CLOEXEC));
    if (service.epoll == -1)
        return errno;
    service.wake = fds_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (service.wake == -1 || epoll_ctl(service.epoll, EPOLL_CTL_ADD, service.wake, &event) == -1) {
        error = errno;
        goto fail;
    }
    error = start_thread();
    if (error == 0)
        return 0;
fail:
    if (service.wake != -1)
        fds_close(service.wake);
    fds_close(service.epoll);
    service.epoll = service.wake = -1;
    return error;
}

static void stop(void)
{
    soft_mutex_lock(&service.lock);
    service.quit = true;
    soft_mutex_unlock(&service.lock);
    wake();
    pthread_join(service.thread, NULL);
    fds_close(service.wake);
    fds_close(service.epoll);
    service.epoll = service.wake = -1;
}

int service_join(struct service_member *member)
{
    int error = 0;

    member->count = 0;
    member->late = member->absent = member->suspended = false;
    atomic_store(&member->state, SERVICE_IDLE);
    soft_mutex_lock(&service.gate);
    if (service.members == 0)
        error = start();
    if (error == 0)
        service.members++;
    soft_mutex_unlock(&service.gate);
    return error;
}

void service_leave(struct service_member *member)
{
    soft_mutex_lock(&service.gate);
    soft_mutex_lock(&service.lock);
    answer_summons(); /* so that nobody finds it there */
    if (atomic_load(&member->state) != SERVICE_IDLE)
        LIST_REMOVE(member, watched);
    for (int i = 0; i < member->count; i++)
        epoll_ctl(service.epoll, EPOLL_CTL_DEL, member->sockets[i], NULL);
    soft_mutex_unlock(&service.lock);
    if (--service.members == 0)
        stop();
    soft_mutex_unlock(&service.gate);
}

int service_add(struct service_member *member, int socket)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = member};
    int error = 0;

    soft_mutex_lock(&service.lock);
    if (epoll_ctl(service.epoll, EPOLL_CTL_ADD, socket, &event) == -1)
        error = errno;
    else
        member->sockets[member->count++] = socket;
    soft_mutex_unlock(&service.lock);
    return error;
}

void service_suspend(struct service_member *member)
{
    soft_mutex_lock(&service.lock);
    member->suspended = true;
    soft_mutex_unlock(&service.lock);
}

void service_resume(struct service_member *member)
{
    soft_mutex_lock(&service.lock);
    member->suspended = false;
    answer_summons();
    watch(member); /* what came meanwhile was not looked at */
    soft_mutex_unlock(&service.lock);
    wake();
}

void service_summon(struct service_member *member)
{
    int idle = SERVICE_IDLE;

    if (!atomic_compare_exchange_strong(&member->state, &idle, SERVICE_CALLED))
        return;
    member->summoned = atomic_load(&service.summoned);
    while (!atomic_compare_exchange_weak(&service.summoned, &member->summoned, member))
        ;
    wake();
}

void service_take_over(struct service_member *member)
{
    int state;

    soft_mutex_lock(&service.lock);
    state = atomic_load(&member->state);
    member->absent = true; /* while IDLE, that is all: the first packet wakes the thread */
    if ((state == SERVICE_CALLED || state == SERVICE_WATCH) && !member->suspended) {
        watch(member);
        atomic_store(&member->state, SERVICE_SERVE);
        arm(member, EPOLLIN);
    }
    soft_mutex_unlock(&service.lock);
}

void service_forget(void)
{
    pthread_mutex_init(&service.gate, NULL);
    pthread_mutex_init(&service.lock, NULL);
    LIST_INIT(&service.watched);
    atomic_store(&service.summoned, NULL);
    service.members = 0;
    service.epoll = service.wake = -1;
}
