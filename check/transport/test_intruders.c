/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_intruders.c - packets on a connection's UDP port from other senders than the peer, or damaged ones: the device
 * checks the ICRC, address and port first, so it does not answer, write memory, or lose a packet of the peer. The same
 * holds for packets without an ICRC, which EXS 2.1 exchanged within a host.
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

/* The peer is EXS 2.1, and offers packets without an ICRC. */
static void enter_old(void)
{
    begin(OLD_FLAGS);
}

/* ---- Packets ---- */

START_TEST(right)
{
    expect_untouched();
}
END_TEST

/* Flips single bits of a packet; byte 4 is skipped, because the ICRC does not cover it. */
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

/* Valid packets with a right ICRC, but from another port of the peer's host, or from another address. */
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

/* Packets that are ahead of the expected PSN, however many, cause a single NAK. */
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

/* Packets with a PSN far from the expected one, as an attacker sends that tries queue pair numbers: the device sends no
 * datagram, so even the counters in /proc/net/snmp reveal nothing. */
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

/* The farthest PSN that a peer's window permits. */
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

/* The value that EXS 2.1 stored if it did not compute the ICRC. */
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
    TCase *tcase = new_case(suite, name);

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
