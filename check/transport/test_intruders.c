/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_intruders.c - packets on a connection's UDP port that are not the peer's, or not as the peer sent them:
 * the check, the address and the port are looked at before anything else, so nothing is answered, written or
 * lost. So is a packet without the check that EXS 2.1 left out between its own devices within a host.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "intruding.h"
#include "soft/engine/recovery.h"

static void enter(void)
{
    begin(0);
}

/* The peer is EXS 2.1 and offers what is no more. */
static void enter_old(void)
{
    begin(OLD_FLAGS);
}

/* ---- What comes ---- */

START_TEST(right)
{
    expect_untouched();
}
END_TEST

/* Each bit of a packet, one at a time; but those that the check leaves to routers are nobody's business. */
START_TEST(damaged)
{
    uint8_t bytes[ROCE_MAX];
    size_t length = put_packet(bytes, 0xee, 0);

    for (size_t bit = 0; bit < 8 * length; bit += bit < 8 * 64 ? 5 : 1) {
        if (bit / 8 == 4)
            continue;
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        expect(!send_from(world.udp, bytes, length), "taken with bit %zu wrong", bit);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    expect_untouched();
}
END_TEST

START_TEST(cut)
{
    uint8_t bytes[ROCE_MAX];
    size_t full = put_packet(bytes, 0xee, 0);

    for (size_t length = 0; length < full; length++)
        expect(!send_from(world.udp, bytes, length), "taken though cut to %zu bytes", length);
    expect_untouched();
}
END_TEST

/* Right in every bit, its check included, but from another port of the peer's host, or another address. */
START_TEST(from_elsewhere)
{
    in_port_t port = world.path.local.in.sin_port;
    int fd = _i ? udp_at(INADDR_LOOPBACK + 1, port) : udp_at(INADDR_LOOPBACK, 0);
    struct soft_path own = world.path;
    socklen_t length = sizeof world.path.local;
    struct soft_counters counters;
    uint8_t bytes[ROCE_MAX];
    size_t size;

    ck_assert_int_eq(getsockname(fd, &world.path.local.sa, &length), 0);
    size = put_packet(bytes, 0xee, 0);
    ck_assert(!send_from(fd, bytes, size));
    size = put_packet(bytes, 0xee, 5);
    ck_assert(!send_from(fd, bytes, size));
    soft_query_counters(world.side.id->verbs, &counters);
    ck_assert_uint_eq(counters.refused, 2);
    ck_assert_uint_eq(counters.malformed, 0);
    world.path = own;
    close(fd);
    expect_untouched();
}
END_TEST

/* Too early, however many: that asks for what is missing once. */
START_TEST(ahead)
{
    uint8_t bytes[ROCE_MAX], syndrome = 0;
    struct pollfd wait = {.fd = world.udp, .events = POLLIN};
    unsigned count = 0;

    for (uint32_t i = 1; i <= 100; i++) {
        size_t length = put_packet(bytes, 0xee, i);

        ck_assert(!send_from(world.udp, bytes, length));
    }
    while ((count = answers(&syndrome)) == 0)
        ck_assert_int_eq(poll(&wait, 1, PATIENCE_S * 1000), 1);
    ck_assert_uint_eq(syndrome, SYNDROME_SEQUENCE);
    ck_assert_uint_eq(count, 1);
    expect_untouched();
}
END_TEST

/* Any packet far from the expected PSN, as an attacker sends who tries one queue pair number after another: no
 * datagram leaves, so that /proc/net/snmp tells nothing. */
START_TEST(far_away)
{
    static const uint32_t far[] = {SOFT_WINDOW_MAX + 1, 0x7fffff, 0x800000, 0xffffff - SOFT_WINDOW_MAX};
    uint8_t bytes[ROCE_MAX], syndrome = 0;

    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        size_t length = put_packet(bytes, 0xee, far[i]);

        ck_assert(!send_from(world.udp, bytes, length));
        ck_assert(!send_from(world.udp, bytes, length));
    }
    ck_assert_uint_eq(answers(&syndrome), 0);
    expect_untouched();
    ck_assert_uint_eq(answers(&syndrome), 0);
}
END_TEST

/* The farthest that a peer of the same kind can be ahead. */
START_TEST(just_near_enough)
{
    uint8_t bytes[ROCE_MAX], syndrome = 0;
    struct pollfd wait = {.fd = world.udp, .events = POLLIN};
    size_t length = put_packet(bytes, 0xee, SOFT_WINDOW_MAX);

    ck_assert(!send_from(world.udp, bytes, length));
    while (answers(&syndrome) == 0)
        ck_assert_int_eq(poll(&wait, 1, PATIENCE_S * 1000), 1);
    ck_assert_uint_eq(syndrome, SYNDROME_SEQUENCE);
    expect_untouched();
}
END_TEST

/* What EXS 2.1 had in the place of a check that it had not computed. */
START_TEST(without_a_check)
{
    uint8_t bytes[ROCE_MAX];
    size_t length = put_packet(bytes, 0xee, 0);

    icrc_store(bytes + length - ICRC_SIZE, 0);
    ck_assert(!send_from(world.udp, bytes, length));
    expect_untouched();
}
END_TEST

static TCase *add(Suite *suite, const char *name, void (*come)(void))
{
    TCase *tcase = tcase_create(name);

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, come, leave);
    tcase_add_test(tcase, right);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("intruders");
    TCase *tcase = add(suite, "old", enter_old);

    tcase_add_test(tcase, without_a_check);
    tcase = add(suite, "packets", enter);
    tcase_add_test(tcase, without_a_check);
    tcase_add_test(tcase, damaged);
    tcase_add_test(tcase, cut);
    tcase_add_loop_test(tcase, from_elsewhere, 0, 2);
    tcase_add_test(tcase, ahead);
    tcase_add_test(tcase, far_away);
    tcase_add_test(tcase, just_near_enough);
    return run_suite(suite);
}
