/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port.c - fuzzes how a process joins those that share RoCE's port, and how it hands the sockets to a process that
 * joins later. Other processes have bound the names; they send sockets or anything else, in any order, too few, or end.
 * A process that connects to our listener may leave at once. The names get the process's number (--wrap), as if the
 * host had no other processes. The UDP port is free, in use, or without IPv6, and waiting advances the clock.
 *
 * For every input: no descriptor leaks. A joining process gets all sockets, or none and an errno, and waits no longer
 * than it should.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "check/fuzz/calls.h"
#include "check/fuzz/input.h"
#include "check/support/endpoints.h"
#include "core/base/clock.h"
#include "soft/link/roce_port.h"
#include "soft/link/udp.h"

#define READING UINT64_C(1000000) /* what a call of clock_gettime takes, ns */
#define TURN (-1)

enum { NAMES = ROCE_SHARES + 1, FILES = 4, STEPS = 4, TIMES = 24 };

static struct port_world {
    struct input input;
    uint64_t now;
    /* Sockets that have bound the names; the last one is for the joining process's name; -1: none. */
    int inboxes[NAMES];
    int guest;         /* a connection accepted at an inbox, or -1 */
    unsigned standing; /* connections to our listener that were not accepted */
    bool foreign;      /* the other end belongs to another user */
    int taken;         /* binding the UDP port fails with this errno; 0: it succeeds */
    unsigned times;    /* how many more times it fails */
} * world;

MAY_FAIL(void *, calloc, NULL, (size_t count, size_t size), (count, size))
MAY_FAIL(int, listen, -1, (int fd, int backlog), (fd, backlog))
MAY_FAIL(int, setsockopt, -1, (int fd, int level, int option, const void *value, socklen_t length),
         (fd, level, option, value, length))

int __real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __real_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length);
int __real_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_MONOTONIC)
        return __real_clock_gettime(clock, now);
    world->now += READING;
    *now = ns_timespec(world->now);
    return 0;
}

/* Keeps count of the connections that wait. */
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    int guest = calls_fails() ? -1 : __real_accept4(fd, address, length, flags);

    if (guest != -1 && world->standing > 0) /* some connect to the other inboxes */
        world->standing--;
    return guest;
}

/* The host may have no IPv6. */
int __wrap_socket(int family, int type, int protocol)
{
    if (calls_fails())
        return -1;
    if (family == AF_INET6 && world->taken == EAFNOSUPPORT) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    return __real_socket(family, type, protocol);
}

/* A name that no other process has. */
static socklen_t own_name(struct sockaddr_un *un, const struct sockaddr *address, socklen_t length)
{
    size_t used = length - offsetof(struct sockaddr_un, sun_path);
    int more;

    memcpy(un, address, length);
    more = snprintf(un->sun_path + used, sizeof un->sun_path - used, "/%d", (int)getpid());
    return length + (socklen_t)more;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_un un;

    if (calls_fails())
        return -1;
    if (address->sa_family == AF_UNIX)
        return __real_bind(fd, (struct sockaddr *)&un, own_name(&un, address, length));
    if (world->taken == 0 || world->taken == EAFNOSUPPORT || world->times == 0)
        return 0;
    world->times--;
    errno = world->taken;
    return -1;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_un un;

    return calls_fails() ? -1 : __real_connect(fd, (struct sockaddr *)&un, own_name(&un, address, length));
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    int result = __real_getsockopt(fd, level, option, value, length);

    if (result == 0 && option == SO_PEERCRED && world->foreign)
        ((struct ucred *)value)->uid++;
    return result;
}

/* ---- Other processes ---- */

static socklen_t name(struct sockaddr_un *un, int share)
{
    int length;

    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    length = snprintf(un->sun_path + 1, sizeof un->sun_path - 1, "exs/roce/%u/%d", (unsigned)geteuid(), share);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int inbox_at(int share, bool listens)
{
    struct sockaddr_un plain, un;
    socklen_t length = name(&plain, share);
    int fd = __real_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    length = own_name(&un, (struct sockaddr *)&plain, length);
    expect(__real_bind(fd, (struct sockaddr *)&un, length) == 0, "bind: %s", strerror(errno));
    expect(!listens || __real_listen(fd, 4) == 0, "listen: %s", strerror(errno));
    return fd;
}

static void close_inbox(int which)
{
    close(world->inboxes[which]);
    world->inboxes[which] = -1;
}

/* Sends the sockets of one share, or a wrong message. */
static void give(int guest, uint8_t how)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(FILES * sizeof(int))] = {0};
    uint8_t families[2] = {how & 4 ? input_u8(&world->input) : 2};
    size_t count = how & 8 ? how >> 4 & 3 : 2;
    struct iovec vector = {families, how & 64 ? how >> 7 : 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    int files[FILES];

    for (size_t i = 0; i < count; i++)
        files[i] = __real_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        *CMSG_FIRSTHDR(&message) = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), files, count * sizeof(int));
    }
    (void)!sendmsg(guest, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    for (size_t i = 0; i < count; i++)
        close(files[i]);
}

static void take_guest(void)
{
    for (int i = 0; i < NAMES && world->guest == -1; i++)
        if (world->inboxes[i] != -1)
            world->guest = __real_accept4(world->inboxes[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* What others do while the process under test waits. */
static void others_act(void)
{
    uint8_t how = input_u8(&world->input);

    take_guest();
    switch (how & 3) {
    case 0:
        if (world->guest != -1 && how & 128)
            for (int share = 0; share < ROCE_SOCKETS; share++)
                give(world->guest, 0);
        break;
    case 1:
        if (world->guest != -1)
            give(world->guest, input_u8(&world->input));
        break;
    case 2:
        close(world->guest);
        world->guest = -1;
        break;
    default:
        close_inbox(how & 4 ? ROCE_SHARES : (how >> 3) % NAMES);
    }
}

/* If nothing has happened yet, the others act; if there is still nothing, the whole timeout passes. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    int got = __real_poll(fds, count, 0);

    if (calls_fails())
        return -1;
    expect(timeout >= 0 && timeout <= ROCE_PATIENCE_MS, "it waits for %d ms", timeout);
    if (got > 0)
        return got;
    for (int step = 0; step < STEPS && count > 0 && got == 0; step++) {
        others_act();
        got = __real_poll(fds, count, 0);
    }
    if (got == 0)
        world->now += (uint64_t)timeout * 1000000;
    return got;
}

/* ---- Our side ---- */

static void check(const struct roce_port *roce)
{
    expect(roce->share < ROCE_SHARES && roce->listener != -1, "no share");
    for (int share = 0; share < ROCE_SOCKETS; share++)
        expect(roce->fds[share][ROCE_IPV4] != -1, "a socket is not there");
}

/* A process connects to our listener, and may be gone before we accept. */
static void come(struct roce_port *roce, uint8_t how)
{
    struct sockaddr_un plain, un;
    socklen_t length = name(&plain, (int)roce->share);
    int fd = __real_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    length = own_name(&un, (struct sockaddr *)&plain, length);
    if (how & 2) {
        bool came = __real_connect(fd, (struct sockaddr *)&un, length) == 0;

        expect(came || (errno == EAGAIN && world->standing > ROCE_SHARES), "connect: %s", strerror(errno));
        world->standing += came;
    }
    if (how & 4)
        shutdown(fd, SHUT_RDWR);
    world->foreign = how & 8;
    calls_fail(how & 16, ECONNABORTED);
    roce_port_answer(roce);
    calls_fail(0, 0);
    close(fd);
}

static void world_open(void)
{
    static const int errors[] = {0, EADDRINUSE, EAFNOSUPPORT, EACCES};
    struct input *input = &world->input;
    uint8_t how = input_u8(input), when = input_u8(input);
    uint32_t there = input_u8(input);

    if (how & 128)
        there = (1u << ROCE_SHARES) - 1; /* all shares are in use */
    for (int i = 0; i < NAMES; i++)
        world->inboxes[i] = -1;
    for (int share = 0; share < ROCE_SHARES; share++)
        if (there >> share & 1)
            world->inboxes[share] = inbox_at(share, !(how & 64));
    if (how & 8)
        world->inboxes[ROCE_SHARES] = inbox_at(TURN, how & 16);
    world->taken = errors[how & 3];
    world->times = how & 4 ? UINT32_MAX : TIMES;
    world->foreign = how & 32;
    calls_fail(when & 127, when & 128 ? EINTR : ENOMEM);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct port_world one = {.input = {data, size}, .guest = -1, .now = NS_PER_S};
    unsigned before = calls_descriptors(), after;
    struct roce_port *roce;

    world = &one;
    world_open();
    errno = 0;
    roce = roce_port_join();
    expect(roce || errno != 0, "there is no port, and no reason");
    calls_fail(0, 0);
    if (roce)
        check(roce);
    for (uint8_t how; roce && (how = input_u8(&one.input)) & 1;)
        come(roce, how);
    if (roce)
        roce_port_leave(roce);
    for (int i = 0; i < NAMES; i++)
        close(one.inboxes[i]);
    close(one.guest);
    after = calls_descriptors_left(before);
    expect(after == before, "%u descriptors before, and %u after", before, after);
    return 0;
}
