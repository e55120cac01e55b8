/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_narrow.c - a loopback that somebody has made narrower than it comes: datagrams of several packets are too long for
 * it, so a new connection has none; of one that there is the packets go each by itself, and every byte comes.
 *
 * In a network of its own, by UDP.
 */
#include "check/support/support.h"
#include "check/support/twonets.h"

#include <errno.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include "core/soft/engine/wire.h"

enum { BYTES = 1000000, WIDE = 65536 };

static const int mtus[] = {1500, 4000, 9000, 16000, 65500};

/* Datagrams of several packets that were too long, and those that were not; what went apart. Atomic: the device's own
 * thread sends, too. */
static _Atomic unsigned refused, passed, apart;

/* These stand before the C library's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    const struct iovec *one = message->msg_iov;
    size_t length = message->msg_iovlen == 1 ? one->iov_len : 0;
    bool coalesced = length > 16 && soft_chained((const uint8_t *)one->iov_base + length) > 0;
    ssize_t sent = syscall(SYS_sendmsg, fd, message, flags);

    if (coalesced && sent >= 0)
        passed++;
    if (coalesced && sent == -1 && errno == EMSGSIZE)
        refused++;
    return sent;
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    for (unsigned i = 0; i < count; i++) {
        const struct iovec *one = messages[i].msg_hdr.msg_iov;

        ck_assert_uint_eq(soft_chained((const uint8_t *)one->iov_base + one->iov_len), 0);
    }
    apart += count;
    return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static void set_mtu(int mtu)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_mtu = mtu};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(ioctl(fd, SIOCSIFMTU, &request), 0);
    close(fd);
}

static void pass_both_ways(struct pair *pair)
{
    pass_bytes(pair->client_box, pair->client, pair->server_box, pair->server, BYTES, 1);
    pass_bytes(pair->server_box, pair->server, pair->client_box, pair->client, BYTES, 2);
}

static void begin(struct pair *pair, int mtu, int family)
{
    must(setenv("EXS_DEVICE", "soft", 1));
    must(setenv("EXS_LINK", "udp", 1));
    must(unsetenv("EXS_ICRC"));
    set_mtu(mtu);
    init_library();
    pair_open(pair, family, SOCK_STREAM);
}

START_TEST(narrow_from_the_start)
{
    struct pair pair;

    begin(&pair, mtus[_i / 2], _i % 2 ? AF_INET6 : AF_INET);
    pass_both_ways(&pair);
    pair_close(&pair);
    ck_assert_uint_eq(refused, 0);
    ck_assert_uint_eq(passed, 0);
    ck_assert_uint_eq(apart, 0); /* the kernel cuts them */
}
END_TEST

/* Not so narrow that one packet alone is too long. */
START_TEST(narrow_for_a_while)
{
    struct pair pair;

    begin(&pair, WIDE, _i % 2 ? AF_INET6 : AF_INET);
    pass_both_ways(&pair);
    ck_assert_uint_eq(refused, 0);
    ck_assert_uint_gt(passed, 0);
    set_mtu(9000);
    pass_both_ways(&pair);
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_gt(apart, BYTES / 4096);
    refused = 0;
    set_mtu(WIDE);
    passed = 0;
    pass_both_ways(&pair);
    pair_close(&pair);
    ck_assert_uint_gt(passed, 0);
    ck_assert_uint_eq(refused, 0);
}
END_TEST

static Suite *narrow_suite(void)
{
    Suite *suite = suite_create("narrow");
    TCase *tcase = add_bare_case(suite, "loopback", 20);

    tcase_add_loop_test(tcase, narrow_from_the_start, 0, 2 * COUNT(mtus));
    tcase_add_loop_test(tcase, narrow_for_a_while, 0, 2);
    return suite;
}

int main(void)
{
    return twonets_main(twonets_alone, narrow_suite);
}
