/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service.c - waking the service thread, and letting it idle: the thread's own code, service_run(), and an application
 * that reports traffic, or is about to sleep on something else than the device. The thread must not sleep without a
 * timeout while a timer of a context runs or packets for it have arrived.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include "core/base/threads.h"
#include "kernel.h"
#include "scenarios.h"

#define pthread_mutex_lock race_lock
#define pthread_mutex_trylock(lock) (race_trylock(lock) ? 0 : 1)
#define pthread_mutex_unlock race_unlock
#define threads_start(...) 0 /* the scenario starts the thread */
#define pthread_join(...) (void)0
#define pthread_atfork(prepare, parent, child) ((void)(prepare), (void)(parent), (void)(child), 0)
#define pthread_setname_np(...) (void)0
#define sem_init(...) (void)0
#define sem_wait(...) 0
#define sem_post(...) (void)0
#define clock_gettime(clock, time) race_clock(time)
#define poll race_poll
#define epoll_wait race_epoll_wait
#define eventfd(...) WAKE

enum { EPOLL, WAKE, SOCKET };

static void race_clock(struct timespec *time);
static int race_poll(struct pollfd *fds, unsigned long count, int most);
static int race_epoll_wait(int epoll, struct epoll_event *events, int most, int wait);

#include "soft/service/service.c"
#include "soft/service/service_thread.c"

static struct kernel_epoll watched;
static struct service_member member;
static pthread_mutex_t context_lock;
/* Guarded by context_lock. */
static uint64_t deadline;
static unsigned timers, progressed, taken;
static _Atomic bool awaited; /* the application sleeps, and not on the device */

/* A ring of shared memory: the number of packets in it, and whether its need-wakeup flag is set. */
static _Atomic unsigned lying;
static _Atomic bool flag;

/* ---- Functions of the kernel and of the engine ----------------------------------------------- */

static void race_clock(struct timespec *time)
{
    uint64_t now = watched_now(&watched);

    *time = (struct timespec){.tv_sec = (time_t)(now / 1000000000), .tv_nsec = (long)(now % 1000000000)};
}

static int race_poll(struct pollfd *fds, unsigned long count, int most)
{
    (void)count;
    if (fds[0].fd == SOCKET)
        return watched_packets(&watched) > 0;
    watched_sleep(&watched, most);
    fds[0].revents = fds[1].revents = 0;
    return 1;
}

static int race_epoll_wait(int epoll, struct epoll_event *events, int most, int wait)
{
    unsigned ready = watched_collect(&watched);
    int count = 0;

    EXPECT(epoll == EPOLL && most >= 2 && wait == 0);
    if (ready & WAKE_READY)
        events[count++] = (struct epoll_event){.data.ptr = NULL};
    if (ready & SOCKET_READY)
        events[count++] = (struct epoll_event){.data.ptr = &member};
    return count;
}

int fds_epoll_private(void)
{
    return EPOLL;
}

void fds_hold_fork(void)
{
}

int fds_own_private_held(int fd)
{
    return fd;
}

int fds_watch(int epoll, int fd, struct epoll_event *event)
{
    EXPECT(epoll == EPOLL);
    if (fd == SOCKET)
        watched_arm(&watched, event->events);
    return 0;
}

int fds_rewatch(int epoll, int fd, struct epoll_event *event)
{
    return fds_watch(epoll, fd, event);
}

bool fds_flag(int fd, bool up)
{
    EXPECT(fd == WAKE);
    if (up)
        watched_wake(&watched);
    else
        watched_hear(&watched);
    return true;
}

bool soft_trylock(struct ibv_context *context)
{
    (void)context;
    return race_trylock(&context_lock);
}

void soft_unlock(struct ibv_context *context)
{
    (void)context;
    race_unlock(&context_lock);
}

bool soft_is_awaited(struct ibv_context *context)
{
    (void)context;
    return atomic_load(&awaited);
}

bool soft_is_slept_on(struct ibv_context *context)
{
    (void)context;
    return false;
}

int soft_watch(struct ibv_context *context, int fd)
{
    (void)context, (void)fd;
    race_fail("a socket is watched by channels");
}

void soft_unwatch(struct ibv_context *context, int fd)
{
    (void)context, (void)fd;
    race_fail("a socket is watched by channels");
}

uint64_t soft_deadline(struct ibv_context *context)
{
    (void)context;
    return deadline;
}

void soft_watch_again(struct ibv_context *context)
{
    (void)context;
    if (atomic_load(&flag))
        return;
    atomic_store(&flag, true);
    if (atomic_load(&lying) > 0)
        watched_arrive(&watched);
}

int soft_progress(struct ibv_context *context)
{
    taken += watched_take(&watched); /* the eventfd is read before the rings are polled */
    atomic_store(&lying, 0);
    soft_watch_again(context);
    if (deadline <= watched_now(&watched)) {
        deadline = NEVER_NS;
        timers++;
    }
    progressed++;
    return 0;
}

/* ---- The threads ----------------------------------------------------------------------------- */

static void prepare(void)
{
    watched_clear(&watched);
    memset(&service_shared, 0, sizeof service_shared);
    TAILQ_INIT(&service_shared.watched);
    service_shared.task = -1;
    atomic_store(&service_shared.task_due, NEVER_NS);
    memset(&member, 0, sizeof member);
    deadline = NEVER_NS;
    timers = progressed = taken = 0;
    atomic_store(&awaited, false);
    atomic_store(&lying, 0);
    atomic_store(&flag, true);
    EXPECT(service_join(&member) == 0 && service_add(&member, SOCKET) == 0);
}

/* The member becomes IDLE after one more tick. */
static void prepare_watch(void)
{
    prepare();
    service_watch(&member);
    member.quiet = QUIET_TICKS - 1;
}

/* The same; the application has polled, so its need-wakeup flag is clear, and does not poll any more. */
static void prepare_polled(void)
{
    prepare_watch();
    service_polled(&member);
    atomic_store(&flag, false);
}

static void run_service(void)
{
    service_run(NULL);
}

/* Like soft_post(): sends something, and a timer runs until it is acknowledged. */
static void post(void)
{
    race_lock(&context_lock);
    service_polled(&member);
    deadline = watched_now(&watched) + SERVICE_TICK_NS / 2;
    service_traffic(&member);
    race_unlock(&context_lock);
}

/* Only a completion will wake the application, so the service thread must process packets for it. */
static void sleep_elsewhere(void)
{
    race_lock(&context_lock);
    service_polled(&member);
    atomic_store(&awaited, true);
    service_take_over(&member);
    race_unlock(&context_lock);
}

static void packet_comes(void)
{
    watched_arrive(&watched);
}

static void burst_comes(void)
{
    atomic_fetch_add(&lying, 1);
    if (atomic_exchange(&flag, false))
        watched_arrive(&watched);
}

static bool nothing_waits(void)
{
    return atomic_load(&lying) == 0 && deadline == NEVER_NS && watched_packets(&watched) == 0;
}

SCENARIOS({"service-post", "an idle one is scheduled", prepare, {run_service, post}, NULL, nothing_waits},
          {"service-idle",
           "it is to become idle, and there is traffic",
           prepare_watch,
           {run_service, post},
           NULL,
           nothing_waits},
          {"service-posts",
           "two of its application's threads",
           prepare,
           {run_service, post, post},
           NULL,
           nothing_waits},
          {"service-packet",
           "a packet comes to who sleeps elsewhere",
           prepare,
           {run_service, sleep_elsewhere, packet_comes},
           NULL,
           nothing_waits},
          {"service-taken",
           "the same, as it is to become idle",
           prepare_watch,
           {run_service, sleep_elsewhere, packet_comes},
           NULL,
           nothing_waits},
          {"service-polled",
           "a burst comes to one who has polled",
           prepare_polled,
           {run_service, burst_comes},
           NULL,
           nothing_waits});
