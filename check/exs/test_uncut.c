/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_uncut.c - bursts of packets that the kernel refuses to segment (UDP_SEGMENT), as on a route without
 * checksum offload or on an older kernel, and sockets whose send buffer is full: packets are sent one by one,
 * and all bytes arrive.
 *
 * Both ends are in this process, on the software device and its UDP link. This program replaces sendmsg() and
 * sendmmsg().
 */
#include "check/support/support.h"

#include <dlfcn.h>
#include <netinet/udp.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include "soft/engine/wire.h"

enum { BYTES = 3000000 };

/* What happens to bursts and to single packets. */
static const struct way {
    int cut;            /* errno of a burst */
    unsigned cut_every; /* one in this many bursts fails */
    int apart;          /* errno of single packets; 0: a call sends only some of them */
    unsigned apart_every;
    bool goes_apart; /* only single packets after the first failure */
} ways[] = {
    {EIO, 1, 0, 0, true},           {EINVAL, 1, 0, 2, true},       {EOPNOTSUPP, 1, EAGAIN, 3, true},
    {EIO, 1, ENOBUFS, 20, true},    {EIO, 1, EINTR, 3, true},      {EMSGSIZE, 2, 0, 2, false},
    {EAGAIN, 3, 0, 0, false},       {EINTR, 3, 0, 0, false},       {ECONNREFUSED, 3, 0, 0, false},
    {EHOSTUNREACH, 3, 0, 0, false}, {ENETUNREACH, 3, 0, 0, false}, {ENOBUFS, 20, 0, 0, false},
};
static const struct way *way;
static _Atomic unsigned bursts, failed_bursts, apart, failed_apart;

/* ---- Replacements of the system's functions, for the library -------------------------------------------- */

static bool is_burst(const struct msghdr *message)
{
    struct msghdr copy = *message;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(&copy); part != NULL; part = CMSG_NXTHDR(&copy, part))
        if (part->cmsg_level == IPPROTO_UDP && part->cmsg_type == UDP_SEGMENT)
            return true;
    return false;
}

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t (*next)(int, const struct msghdr *, int);

    if (is_burst(message) && atomic_fetch_add(&bursts, 1) % way->cut_every == 0) {
        atomic_fetch_add(&failed_bursts, 1);
        errno = way->cut;
        return -1;
    }
    *(void **)&next = dlsym(RTLD_NEXT, "sendmsg");
    return next(fd, message, flags);
}

__attribute__((visibility("default"))) int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    int (*next)(int, struct mmsghdr *, unsigned, int);
    unsigned number = atomic_fetch_add(&apart, 1);

    if (way->apart_every > 0 && number % way->apart_every == 1) {
        atomic_fetch_add(&failed_apart, 1);
        errno = way->apart;
        if (way->apart != 0)
            return -1;
        count = count > 1 ? count / 2 : count;
    }
    *(void **)&next = dlsym(RTLD_NEXT, "sendmmsg");
    return next(fd, messages, count, flags);
}

/* ---- The transfer --------------------------------------------------------------------------------------- */

static void pass_both_ways(int family)
{
    struct pair pair;

    pair_open(&pair, family, SOCK_STREAM);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, BYTES, 1);
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, BYTES, 2);
    pair_close(&pair);
}

START_TEST(every_byte_comes)
{
    way = &ways[_i % COUNT(ways)];
    init_library();
    pass_both_ways(_i < COUNT(ways) ? AF_INET : AF_INET6);
    ck_assert_uint_gt(atomic_load(&failed_bursts), 0);
    if (way->goes_apart) /* no socket tries a second burst */
        ck_assert_uint_le(atomic_load(&bursts), 8);
    if (way->goes_apart || way->cut == EMSGSIZE)
        ck_assert_uint_gt(atomic_load(&apart), 10);
    else
        ck_assert_uint_eq(atomic_load(&apart), 0);
    if (way->apart_every > 0)
        ck_assert_uint_gt(atomic_load(&failed_apart), 0);
    else
        ck_assert_uint_eq(atomic_load(&failed_apart), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("uncut");
    TCase *tcase = add_bare_case(suite, "bursts", 20);

    setenv("EXS_LINK", "udp", 1);
    tcase_add_loop_test(tcase, every_byte_comes, 0, 2 * COUNT(ways));
    return run_suite(suite);
}
