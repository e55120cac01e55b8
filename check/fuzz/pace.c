/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace.c - fuzzes the answers of the kernel's sock_diag about the receive buffer of a peer's socket (udp_pace.c):
 * valid, truncated, of another type, with attributes of a wrong length, or none at all.
 *
 * For every input: a sender pauses for the time that it should, and not for ever when its peer receives nothing.
 */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include "check/fuzz/calls.h"
#include "check/fuzz/input.h"
#include "check/support/endpoints.h"
#include "core/base/clock.h"
#include "soft/link/udp.h"

#define PAUSE UINT64_C(100000)
#define STEP UINT64_C(50000000) /* time between two attempts of a waiting sender */

enum {
    ROUNDS = 200,
    LOOKS = 12,
    ANSWER = 512,
    FIXED = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct inet_diag_msg))
};

static struct pace_world {
    struct input input;
    struct udp udp;
    uint64_t now;
    bool deaf; /* the kernel accepts no request */
} * world;

MAY_FAIL(int, socket, -1, (int family, int type, int protocol), (family, type, protocol))
MAY_FAIL(void *, calloc, NULL, (size_t count, size_t size), (count, size))

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_MONOTONIC)
        return __real_clock_gettime(clock, now);
    *now = ns_timespec(world->now);
    return 0;
}

/* udp_pace.c binds to an address to learn whether it is this host's. */
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    (void)fd;
    (void)length;
    return ((const struct sockaddr_in *)(const void *)address)->sin_family == AF_INET &&
                   (input_u8(&world->input) & 15) == 15
               ? -1
               : 0;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags)
{
    (void)fd;
    (void)bytes;
    (void)flags;
    return world->deaf ? -1 : (ssize_t)length;
}

/* Writes an attribute, SKMEMINFO or another, perhaps with a wrong length. Returns the length. */
static size_t put_attribute(uint8_t *at, size_t room, uint8_t how)
{
    struct input *input = &world->input;
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    struct nlattr header = {NLA_HDRLEN + sizeof memory, how & 16 ? how >> 5 : INET_DIAG_SKMEMINFO};
    size_t length = NLA_ALIGN(header.nla_len);

    memory[SK_MEMINFO_RCVBUF] = how & 32 ? input_u32(input) : 65536;
    memory[SK_MEMINFO_RMEM_ALLOC] = how & 64 ? input_u32(input) : how & 128 ? 65536 : 0;
    if (how & 8)
        header.nla_len = input_u16(input);
    if (length > room)
        return 0;
    memcpy(at, &header, sizeof header);
    memcpy(at + NLA_HDRLEN, memory, sizeof memory);
    return length;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t length, int flags)
{
    struct input *input = &world->input;
    uint8_t how = input_u8(input), answer[ANSWER] = {0};
    struct nlmsghdr header = {.nlmsg_type = how & 64 ? input_u8(input) : SOCK_DIAG_BY_FAMILY};
    size_t got = FIXED;

    (void)fd;
    (void)flags;
    if ((how & 7) == 7) { /* no answer, as if the peer's socket did not exist */
        errno = EAGAIN;
        return -1;
    }
    memcpy(answer, &header, sizeof header);
    for (unsigned i = 0; i <= (how >> 3 & 3); i++)
        got += put_attribute(answer + got, ANSWER - got, input_u8(input));
    if (how & 128)
        got -= input_below(input, (uint32_t)got);
    got = got < length ? got : length;
    memcpy(bytes, answer, got);
    return (ssize_t)got;
}

static struct soft_path path_to(uint8_t which)
{
    struct soft_path path = {.remote.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)}};

    if (which & 128)
        path.remote.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    /* At the same offset in sockaddr_in6. */
    path.remote.in.sin_port = htons((uint16_t)(SOFT_UDP_PORT + (which & 127)));
    return path;
}

/* Asks for permission to send, as the engine does, until it is given. */
static void send_to(const struct soft_path *path, size_t bytes)
{
    for (int look = 0; look < LOOKS; look++) {
        uint64_t pause = udp_pace(&world->udp.link, path, bytes);

        if (pause == 0)
            return;
        expect(pause == PAUSE, "a pause of %llu ns", (unsigned long long)pause);
        world->now += STEP;
    }
    ck_abort_msg("a sender waits for ever");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pace_world one = {.input = {data, size}, .now = NS_PER_S};
    unsigned before = calls_descriptors(), after;

    world = &one;
    for (int round = 0; round < ROUNDS && input_left(&one.input) > 0; round++) {
        uint8_t how = input_u8(&one.input);
        struct soft_path path = path_to(input_u8(&one.input));

        if (how & 4)
            one.now += UINT64_C(1) << (how >> 3);
        one.deaf = (how & 3) == 1;
        calls_fail((how & 3) == 2, EMFILE);
        send_to(&path, how & 4 ? 1 : (size_t)1 << (how >> 3));
        calls_fail(0, 0);
    }
    udp_pace_end(&one.udp);
    after = calls_descriptors();
    expect(after == before, "%u descriptors before, and %u after", before, after);
    return 0;
}
