/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_icrc.c - the invariant CRC, compared with two packets of other vendors, and with a slow implementation written
 * from the specification.
 */
#include <arpa/inet.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "check/support/runner.h"
#include "soft/link/icrc.h"
#include "soft/link/icrc_id.h"

#define LONGEST 4200

/* ---- The slow implementation: all headers, the mutable fields masked, and a bit-by-bit CRC ---- */

static uint32_t crc_bitwise(const uint8_t *bytes, size_t length)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static uint8_t *put(uint8_t *to, uint32_t value, int bytes)
{
    while (bytes--)
        *to++ = (uint8_t)(value >> 8 * bytes);
    return to;
}

/* In the ICRC of IPv4 the type of service, time to live and checksum count as ones. */
static uint8_t *put_ipv4(uint8_t *to, const struct soft_path *path, unsigned id, size_t length)
{
    to = put(to, 0x45ff, 2);
    to = put(to, (uint32_t)(20 + 8 + length + 4), 2);
    to = put(to, id, 2);
    to = put(to, 0x4000, 2); /* don't fragment */
    to = put(to, 0xff11, 2);
    to = put(to, 0xffff, 2);
    memcpy(to, &path->local.in.sin_addr, 4);
    memcpy(to + 4, &path->remote.in.sin_addr, 4);
    return to + 8;
}

/* In the ICRC of IPv6 the traffic class, flow label and hop limit count as ones. */
static uint8_t *put_ipv6(uint8_t *to, const struct soft_path *path, size_t length)
{
    to = put(to, 0x6fffffff, 4);
    to = put(to, (uint32_t)(8 + length + 4), 2);
    to = put(to, 0x11ff, 2);
    memcpy(to, &path->local.in6.sin6_addr, 16);
    memcpy(to + 16, &path->remote.in6.sin6_addr, 16);
    return to + 32;
}

static uint32_t icrc_slow(const struct soft_path *path, unsigned id, const uint8_t *packet, size_t length)
{
    uint8_t all[8 + 40 + 8 + LONGEST], *at = all;
    bool v4 = path->local.sa.sa_family == AF_INET;
    memset(at, 0xff, 8); /* stands for the link header */
    at = v4 ? put_ipv4(at + 8, path, id, length) : put_ipv6(at + 8, path, length);
    at = put(at, ntohs(v4 ? path->local.in.sin_port : path->local.in6.sin6_port), 2);
    at = put(at, ntohs(v4 ? path->remote.in.sin_port : path->remote.in6.sin6_port), 2);
    at = put(at, (uint32_t)(8 + length + 4), 2);
    at = put(at, 0xffff, 2); /* UDP checksum */
    memcpy(at, packet, length);
    at[4] = 0xff; /* FECN, BECN, reserved */
    return crc_bitwise(all, (size_t)(at - all) + length);
}

static uint32_t icrc_fast(const struct soft_path *path, bool sent, unsigned id, const uint8_t *packet,
                          size_t length)
{
    struct icrc_flow flow;
    icrc_flow_init(&flow, path, sent);
    return icrc_compute(&flow, id, packet, length);
}

static struct soft_path path_v4(const char *local, unsigned local_port, const char *remote,
                                unsigned remote_port)
{
    struct soft_path path = {0};
    path.local.in.sin_family = path.remote.in.sin_family = AF_INET;
    path.local.in.sin_port = htons((uint16_t)local_port);
    path.remote.in.sin_port = htons((uint16_t)remote_port);
    ck_assert_int_eq(inet_pton(AF_INET, local, &path.local.in.sin_addr), 1);
    ck_assert_int_eq(inet_pton(AF_INET, remote, &path.remote.in.sin_addr), 1);
    return path;
}

static void check_vector(const struct soft_path *path, unsigned id, const uint8_t *packet, size_t length,
                         const uint8_t *on_wire)
{
    uint8_t stored[ICRC_SIZE];
    icrc_store(stored, icrc_slow(path, id, packet, length));
    ck_assert_mem_eq(stored, on_wire, ICRC_SIZE);
    icrc_store(stored, icrc_fast(path, true, id, packet, length));
    ck_assert_mem_eq(stored, on_wire, ICRC_SIZE);
    ck_assert_uint_eq(icrc_load(on_wire), icrc_fast(path, true, id, packet, length));
}

/* A congestion notification packet (CNP) as a ConnectX-4 Lx sent it. */
START_TEST(captured_from_hardware)
{
    static const uint8_t packet[12 + 16] = {0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18};
    static const uint8_t check[] = {0x82, 0xfd, 0x00, 0x2a};
    struct soft_path path = path_v4("10.0.17.1", 0, "10.0.18.1", 4791);
    check_vector(&path, 0x718c, packet, sizeof packet, check);
}
END_TEST

/* A UC SEND ONLY with a pad, from a published capture. */
START_TEST(published_send_only)
{
    static const uint8_t packet[] = {0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17,
                                     0x10, 'F',  '0',  0x81, 0x8b, 0xe2, 0x89, '5',  0xd9, 0x0e, 0x9a,
                                     0x95, 'P',  'T',  0x01, 0xbe, 0x88, '^',  'P',  0,    0};
    static const uint8_t check[] = {0x78, 0xf3, 0x53, 0xf3};
    struct soft_path path = path_v4("192.168.0.7", 49152, "192.168.0.7", 4791);
    check_vector(&path, 1144, packet, sizeof packet, check);
}
END_TEST

/* ---- Compared with the slow implementation ---- */

static uint64_t chance; /* state of the random number generator; each test seeds it */

static unsigned next_chance(void)
{
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(chance >> 33);
}

static void random_bytes(void *to, size_t length)
{
    for (uint8_t *at = to; length--; at++)
        *at = (uint8_t)(next_chance() >> 7);
}

static struct soft_path random_path(void)
{
    struct soft_path path;
    random_bytes(&path, sizeof path);
    path.local.sa.sa_family = path.remote.sa.sa_family = next_chance() & 64 ? AF_INET : AF_INET6;
    return path;
}

static struct soft_path other_way(const struct soft_path *path)
{
    return (struct soft_path){.local = path->remote, .remote = path->local};
}

START_TEST(any_packet)
{
    static uint8_t packet[LONGEST];
    chance = 1;
    for (int i = 0; i < 2000; i++) {
        struct soft_path path = random_path(), back = other_way(&path);
        size_t length = i < 400 ? 12 + (size_t)i : 12 + next_chance() % (LONGEST - 12);
        unsigned id = next_chance() & 0xffff;
        random_bytes(packet, length);
        uint32_t slow = icrc_slow(&path, id, packet, length);
        ck_assert_uint_eq(icrc_fast(&path, true, id, packet, length), slow);
        ck_assert_uint_eq(icrc_fast(&back, false, id, packet, length), slow);
        packet[4] ^= 0xff; /* a field that routers may change */
        ck_assert_uint_eq(icrc_fast(&path, true, id, packet, length), slow);
        packet[next_chance() % 4] ^= 1 << (next_chance() & 7); /* a field that they may not change */
        ck_assert_uint_ne(icrc_fast(&path, true, id, packet, length), slow);
    }
}
END_TEST

/* One flow with packets of changing length, identification and congestion bits: the cached state of one packet does not
 * affect the next. */
START_TEST(one_flow_for_many)
{
    static uint8_t packet[LONGEST];
    struct icrc_flow flow;
    chance = 2;
    struct soft_path path = random_path();
    icrc_flow_init(&flow, &path, true);
    for (int i = 0; i < 2000; i++) {
        size_t length = 12 + (i < 1000 ? next_chance() % 300 : next_chance() % 3 * 4);
        unsigned id = i < 1000 ? (unsigned)i & 63 : (next_chance() >> 5) % 9;
        random_bytes(packet, length);
        if (i & 1)
            packet[4] = 0;
        ck_assert_uint_eq(icrc_compute(&flow, id, packet, length), icrc_slow(&path, id, packet, length));
    }
}
END_TEST

/* ---- The IPv4 identification, which UDP receivers do not see ---- */

START_TEST(other_identifications)
{
    static uint8_t packet[LONGEST];
    struct icrc_shift shift = {0};
    struct soft_path path = path_v4("10.1.2.3", 50000, "10.3.2.1", 4791);
    chance = 3;
    for (int i = 0; i < 300; i++) {
        size_t length = i & 1 ? 16 : 12 + next_chance() % (LONGEST - 12);
        random_bytes(packet, length);
        uint32_t zero = icrc_slow(&path, 0, packet, length);
        unsigned id = 1 + next_chance() % (ICRC_IDS - 1);
        ck_assert(icrc_other_id(&shift, length, zero ^ icrc_slow(&path, id, packet, length)));
        ck_assert(!icrc_other_id(&shift, length, zero ^ icrc_slow(&path, ICRC_IDS + id, packet, length)));
        /* A damaged packet, except in byte 4, has no such identification. */
        packet[next_chance() % length] ^= 0x10;
        packet[0] ^= 0x01;
        ck_assert(!icrc_other_id(&shift, length, zero ^ icrc_slow(&path, id, packet, length)));
    }
}
END_TEST

/* Any identification is found; for a damaged packet none is found. */
START_TEST(any_identification)
{
    static uint8_t packet[LONGEST];
    struct icrc_ids ids = {.known = {{.length = 0}}};
    struct soft_path path = path_v4("10.1.2.3", 50000, "10.3.2.1", 4791);
    uint16_t found;
    chance = 4;
    for (int i = 0; i < 3000; i++) {
        size_t length = i & 1 ? 16 : 12 + next_chance() % (LONGEST - 12);
        random_bytes(packet, length);
        uint32_t zero = icrc_slow(&path, 0, packet, length);
        uint16_t id = i < 16 ? (uint16_t)(1 << i) : (uint16_t)next_chance();
        ck_assert(icrc_id_solve(&ids, length, zero ^ icrc_slow(&path, id, packet, length), &found));
        ck_assert_uint_eq(found, id);
        packet[0] ^= 0x01;
        ck_assert(!icrc_id_solve(&ids, length, zero ^ icrc_slow(&path, id, packet, length), &found));
    }
}
END_TEST

#define MS UINT64_C(1000000)

/* Identifications that count up, are reordered, pause, and wrap around. */
START_TEST(identifications_that_count)
{
    struct icrc_count count = {.known = false};
    uint16_t id = 65000;
    uint64_t now = 5 * MS;
    for (int i = 0; i < 2000; i++) {
        ck_assert(icrc_count_fits(&count, id, now));
        ck_assert(icrc_count_fits(&count, (uint16_t)(id - ICRC_COUNT_BEHIND), now));
        id = (uint16_t)(id + 1 + i % 3);
        now += i % 7;
    }
    ck_assert(icrc_count_fits(&count, id = (uint16_t)(id + ICRC_COUNT_AHEAD - 3), now));
    ck_assert(icrc_count_fits(&count, (uint16_t)(id + ICRC_COUNT_AHEAD + 3000), now + 3000 * MS));
}
END_TEST

/* If a damaged packet's ICRC matches some identification by chance, that probably does not fit the sequence; the
 * sequence continues. */
START_TEST(identifications_that_do_not_fit)
{
    struct icrc_count count = {.known = false};
    ck_assert(icrc_count_fits(&count, 100, 0));
    ck_assert(!icrc_count_fits(&count, 101 + ICRC_COUNT_AHEAD, 0));
    ck_assert(icrc_count_fits(&count, 102, 0));
    ck_assert(!icrc_count_fits(&count, (uint16_t)(101 - ICRC_COUNT_BEHIND), 0));
    ck_assert(icrc_count_fits(&count, 103, 0));
    /* If the sequence jumps, one packet is lost. */
    ck_assert(!icrc_count_fits(&count, 30000, 0));
    ck_assert(icrc_count_fits(&count, 30001, 0));
    ck_assert(icrc_count_fits(&count, 30002, 0));
    ck_assert(!icrc_count_fits(&count, 103, 0));
    ck_assert(icrc_count_fits(&count, 30003, 0));
    /* If the identifications do not count, a few packets are lost. */
    for (unsigned i = 1; i < ICRC_COUNT_MISFITS; i++)
        ck_assert(!icrc_count_fits(&count, (uint16_t)(30003 - 5000 * i), 0));
    ck_assert(icrc_count_fits(&count, 200, 0));
    ck_assert(icrc_count_fits(&count, 50000, 0));
    ck_assert(icrc_count_fits(&count, 20000, 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("icrc");
    TCase *tcase = new_case(suite, "icrc");
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, captured_from_hardware);
    tcase_add_test(tcase, published_send_only);
    tcase_add_test(tcase, any_packet);
    tcase_add_test(tcase, one_flow_for_many);
    tcase_add_test(tcase, other_identifications);
    tcase_add_test(tcase, any_identification);
    tcase_add_test(tcase, identifications_that_count);
    tcase_add_test(tcase, identifications_that_do_not_fit);
    return run_suite(suite);
}
