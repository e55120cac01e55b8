/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_system.c - the clock and the system calls of the connection manager, under the harness's control (--wrap). TCP is
 * the kernel's, but a call may transfer fewer bytes, time passes when the input says so, and memory runs out.
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include "check/fuzz/calls.h"
#include "check/fuzz/cm_world.h"

#define SECOND UINT64_C(1000000000)
#define TIMERS 16

size_t system_send_most = SIZE_MAX, system_recv_most = SIZE_MAX;
const struct sockaddr *(*system_leads)(const struct sockaddr *address, socklen_t *length);
static _Atomic uint64_t passed; /* ns by which this clock is ahead; the service thread reads it, too */

/* The timers of the existing channels. */
static struct {
    int fd;
    struct timespec when; /* by this clock */
} timers[TIMERS];

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old);
int __real_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    if (calls_fails())
        return -1;
    if (system_leads)
        address = system_leads(address, &length);
    return __real_connect(fd, address, length);
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags);

static uint64_t in_ns(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * SECOND + (uint64_t)time->tv_nsec;
}

static struct timespec from_ns(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = __real_clock_gettime(clock, now);

    if (clock == CLOCK_MONOTONIC)
        *now = from_ns(in_ns(now) + atomic_load(&passed));
    return result;
}

/* Sets the kernel's timer; times that have passed by this clock expire now. 0: off. */
static int set_timer(int fd, const struct timespec *when)
{
    uint64_t at = in_ns(when), ahead = atomic_load(&passed);
    struct itimerspec value = {.it_value = from_ns(at > ahead ? at - ahead : at > 0)};

    return __real_timerfd_settime(fd, TFD_TIMER_ABSTIME, &value, NULL);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    int free = -1, place = -1;

    if (!(flags & TFD_TIMER_ABSTIME) || old)
        return __real_timerfd_settime(fd, flags, value, old);
    for (int i = 0; i < TIMERS; i++) {
        if (timers[i].fd == fd)
            place = i;
        else if (in_ns(&timers[i].when) == 0)
            free = i;
    }
    place = place == -1 ? free : place;
    expect(place != -1, "more than %d timers", TIMERS);
    timers[place].fd = fd;
    timers[place].when = value->it_value;
    return set_timer(fd, &value->it_value);
}

void system_begin(void)
{
    memset(timers, 0, sizeof timers);
    system_send_most = system_recv_most = SIZE_MAX;
    calls_fail(0, 0);
}

/* Advances the clock. The kernel's timers expire by interrupt, so those that are due are waited for, which takes almost
 * no time. */
void system_pass(uint64_t ns)
{
    struct timespec now;

    atomic_fetch_add(&passed, ns);
    __wrap_clock_gettime(CLOCK_MONOTONIC, &now);
    for (int i = 0; i < TIMERS; i++) {
        struct pollfd due = {.fd = timers[i].fd, .events = POLLIN};

        if (in_ns(&timers[i].when) == 0 || in_ns(&timers[i].when) > in_ns(&now))
            continue;
        if (set_timer(timers[i].fd, &timers[i].when) == 0)
            poll(&due, 1, 1000);
        timers[i].when = (struct timespec){0};
    }
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags)
{
    if (system_send_most == 0) {
        errno = EAGAIN;
        return -1;
    }
    return __real_send(fd, bytes, length < system_send_most ? length : system_send_most, flags);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags)
{
    if (system_recv_most == 0) {
        errno = EAGAIN;
        return -1;
    }
    return __real_recv(fd, bytes, length < system_recv_most ? length : system_recv_most, flags);
}

/* ---- Calls that may fail ---- */

MAY_FAIL(int, socket, -1, (int family, int type, int protocol), (family, type, protocol))
MAY_FAIL(int, listen, -1, (int fd, int backlog), (fd, backlog))
MAY_FAIL(int, getsockname, -1, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length))
MAY_FAIL(int, getpeername, -1, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length))
MAY_FAIL(int, epoll_create1, -1, (int flags), (flags))
MAY_FAIL(int, epoll_ctl, -1, (int epoll, int operation, int fd, struct epoll_event *event),
         (epoll, operation, fd, event))
MAY_FAIL(int, eventfd, -1, (unsigned start, int flags), (start, flags))
MAY_FAIL(int, timerfd_create, -1, (clockid_t clock, int flags), (clock, flags))
MAY_FAIL(ssize_t, getrandom, -1, (void *bytes, size_t length, unsigned flags), (bytes, length, flags))
MAY_FAIL(void *, calloc, NULL, (size_t count, size_t size), (count, size))
