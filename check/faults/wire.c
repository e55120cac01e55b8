/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.c - replaces functions of the C library in these programs: datagrams are lost, duplicated, delayed or
 * corrupted, each packet independently; and the wall clock is wrong.
 */
#include "faults.h"

#include <dlfcn.h>
#include <netinet/udp.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#define SHOWN __attribute__((visibility("default")))
#define OF 10000
#define PACKET 65536

/* Written while no other thread sends; atomic for the threads that read them. */
static _Atomic unsigned lost, twice, late, bent;
static _Atomic uint64_t die;
static _Atomic long step; /* seconds */

void wire_set(unsigned lost_, unsigned twice_, unsigned late_, unsigned bent_, uint64_t seed)
{
    atomic_store(&die, seed);
    atomic_store(&lost, lost_);
    atomic_store(&twice, twice_);
    atomic_store(&late, late_);
    atomic_store(&bent, bent_);
}

static bool is_bad(void)
{
    return atomic_load(&lost) + atomic_load(&twice) + atomic_load(&late) + atomic_load(&bent) > 0;
}

static bool falls(unsigned chance_of)
{
    struct chance c = {.state = atomic_fetch_add(&die, 1)};

    return chance_of > 0 && chance_below(&c, OF) < chance_of;
}

static ssize_t real_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return syscall(SYS_sendmsg, fd, message, flags);
}

/* ---- Packets ------------------------------------------------------------------------- */

/* A packet that is delayed until the next one has been sent. Per thread, so no lock is needed; it is lost if
 * the thread sends no other packet. */
static _Thread_local struct {
    unsigned char bytes[PACKET];
    size_t length;
    struct sockaddr_storage to;
    socklen_t to_length;
    int fd;
} held;

static void send_one(int fd, const void *bytes, size_t length, const struct msghdr *as)
{
    struct iovec piece = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr one = {
        .msg_name = as->msg_name, .msg_namelen = as->msg_namelen, .msg_iov = &piece, .msg_iovlen = 1};

    real_sendmsg(fd, &one, MSG_DONTWAIT);
}

static void release_held(void)
{
    struct msghdr as = {.msg_name = held.to_length ? &held.to : NULL, .msg_namelen = held.to_length};

    if (held.length > 0)
        send_one(held.fd, held.bytes, held.length, &as);
    held.length = 0;
}

static void hold(int fd, const void *bytes, size_t length, const struct msghdr *as)
{
    memcpy(held.bytes, bytes, length);
    held.length = length;
    held.to_length = as->msg_namelen;
    if (as->msg_namelen > 0)
        memcpy(&held.to, as->msg_name, as->msg_namelen);
    held.fd = fd;
}

static void send_badly(int fd, unsigned char *bytes, size_t length, const struct msghdr *as)
{
    if (falls(atomic_load(&lost)))
        return;
    if (held.length == 0 && falls(atomic_load(&late))) {
        hold(fd, bytes, length, as);
        return;
    }
    if (falls(atomic_load(&bent))) {
        struct chance c = {.state = atomic_fetch_add(&die, 1)};
        bytes[chance_below(&c, length)] ^= (unsigned char)(1u << chance_below(&c, 8));
    }
    send_one(fd, bytes, length, as);
    if (falls(atomic_load(&twice)))
        send_one(fd, bytes, length, as);
    release_held();
}

/* Returns the size of the packets into which the kernel would segment this message; 0: it would not. */
static size_t segment_of(const struct msghdr *message)
{
    struct msghdr *all = (struct msghdr *)(uintptr_t)message;
    uint16_t segment = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(all); c; c = CMSG_NXTHDR(all, c))
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT)
            memcpy(&segment, CMSG_DATA(c), sizeof segment);
    return segment;
}

static ssize_t send_packets(int fd, const struct msghdr *message)
{
    static _Thread_local unsigned char burst[PACKET];
    size_t length = 0, segment = segment_of(message);

    for (size_t i = 0; i < message->msg_iovlen; i++) {
        ck_assert_uint_le(length + message->msg_iov[i].iov_len, PACKET);
        memcpy(burst + length, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
        length += message->msg_iov[i].iov_len;
    }
    for (size_t at = 0, n; at < length; at += n) {
        n = segment && segment < length - at ? segment : length - at;
        send_badly(fd, burst + at, n, message);
    }
    return (ssize_t)length;
}

static bool is_datagram(int fd)
{
    int domain = 0, type = 0;
    socklen_t length = sizeof type;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain != AF_UNIX;
}

SHOWN ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (!is_bad() || !is_datagram(fd))
        return real_sendmsg(fd, message, flags);
    return send_packets(fd, message);
}

SHOWN int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
    if (!is_bad() || !is_datagram(fd))
        return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
    for (unsigned i = 0; i < count; i++)
        messages[i].msg_len = (unsigned)send_packets(fd, &messages[i].msg_hdr);
    return (int)count;
}

/* ---- The wall clock ------------------------------------------------------------------ */

void clock_step(long seconds)
{
    atomic_store(&step, seconds);
}

SHOWN int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*_Atomic next)(clockid_t, struct timespec *); /* each thread finds the same function */
    int (*real)(clockid_t, struct timespec *) = atomic_load(&next);

    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
        atomic_store(&next, real);
    }
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += atomic_load(&step);
    return result;
}

SHOWN int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec t;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    *now = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
    return 0;
}

SHOWN time_t time(time_t *to)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    if (to)
        *to = t.tv_sec;
    return t.tv_sec;
}
