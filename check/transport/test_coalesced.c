/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_coalesced.c - datagrams of several packets, each of which says how long the next one is: they are taken in whole, in
 * order, where both ends have agreed to that, and nothing of one in which anything is wrong.
 */
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include "intruding.h"

enum { FEWEST = ROCE_BTH + ICRC_SIZE, MANY = SOFT_TRAIN_PACKETS + 2, BESIDE = 5 };

/* What goes in one datagram. */
static struct chain {
    uint8_t bytes[MANY * 256];
    size_t ends[MANY];
    unsigned count;
    size_t length;
} chain;

static const size_t lengths[PLACES] = {BYTES, 10, 37}; /* no two packets are as long as the third */
static const uint8_t values[PLACES] = {0x11, 0x22, 0x33};

static size_t size_of(unsigned packet)
{
    return chain.ends[packet] - (packet ? chain.ends[packet - 1] : 0);
}

/* One packet more, cut to so many bytes. */
static void add_cut(size_t payload, uint8_t value, uint32_t ahead, size_t size)
{
    size_t full = put_packet_of(chain.bytes + chain.length, payload, value, ahead);

    chain.length += size < full ? size : full;
    chain.ends[chain.count++] = chain.length;
}

static void add(size_t payload, uint8_t value, uint32_t ahead)
{
    add_cut(payload, value, ahead, SIZE_MAX);
}

static void say(unsigned packet, uint32_t word)
{
    memcpy(chain.bytes + chain.ends[packet] - ICRC_SIZE, &word, ICRC_SIZE);
}

/* Each packet says it of the next one. */
static void close_chain(void)
{
    for (unsigned i = 0; i < chain.count; i++)
        say(i, SOFT_CHAIN | (uint32_t)size_of((i + 1) % chain.count));
}

static void empty_chain(void)
{
    chain.count = 0;
    chain.length = 0;
}

/* One message in each. */
static void begin_chain(void)
{
    empty_chain();
    for (unsigned i = 0; i < PLACES; i++)
        add(lengths[i], values[i], i);
    close_chain();
}

static struct soft_counters counters(void)
{
    struct soft_counters now;

    soft_query_counters(world.side.id->verbs, &now);
    return now;
}

static void expect_refused(const char *what, size_t which)
{
    struct soft_counters before = counters(), after;
    struct ibv_wc taken[PLACES];
    int count = sent_from(world.udp, chain.bytes, chain.length, taken);

    after = counters();
    expect(count == 0, "%s, %zu: %d messages are taken", what, which, count);
    expect(after.malformed == before.malformed + 1, "%s, %zu: it counts as %d", what, which,
           (int)(after.malformed - before.malformed));
    expect(after.packets_received == before.packets_received, "%s, %zu: a packet is taken", what, which);
}

static void expect_taken(const size_t *expected)
{
    struct soft_counters before = counters();
    struct ibv_wc taken[PLACES];

    ck_assert_int_eq(sent_from(world.udp, chain.bytes, chain.length, taken), PLACES);
    for (unsigned i = 0; i < PLACES; i++) {
        ck_assert_int_eq(taken[i].status, IBV_WC_SUCCESS);
        ck_assert_uint_eq(taken[i].byte_len, expected[i]);
        expect_byte(world.memory + (size_t)i * BYTES, expected[i], values[i]);
        expect_byte(world.memory + (size_t)i * BYTES + expected[i], BYTES - expected[i], 0);
    }
    ck_assert_uint_eq(counters().packets_received, before.packets_received + PLACES);
    ck_assert_uint_eq(counters().malformed, before.malformed);
}

/* Whatever has been answered so far is nobody's business. */
static void forget_answers(void)
{
    uint8_t syndrome;

    while (answers(&syndrome) > 0)
        ;
}

/* ---- Where both have agreed ---- */

static void enter_agreed(void)
{
    begin(UNCHECKED | COALESCED);
    ck_assert(world.unchecked && world.coalesced);
}

/* Of three lengths, or of the same. */
START_TEST(right_ones)
{
    static const size_t same[PLACES] = {20, 20, 20};
    const size_t *expected = _i ? same : lengths;

    post_at(1);
    post_at(2);
    empty_chain();
    for (unsigned i = 0; i < PLACES; i++)
        add(expected[i], values[i], i);
    close_chain();
    expect_taken(expected);
    world.psn = roce_psn(world.psn + PLACES);
    memset(world.memory, 0, sizeof world.memory);
    post_one();
    forget_answers();
    expect_untouched();
}
END_TEST

/* As many as there may be, and one more; they are too early, so that none is taken as a message. */
START_TEST(many)
{
    struct soft_counters before = counters();
    struct ibv_wc taken[PLACES];

    empty_chain();
    for (unsigned i = 0; i < SOFT_TRAIN_PACKETS; i++)
        add(0, 0, BESIDE + i);
    ck_assert_uint_eq(chain.length, (size_t)FEWEST * SOFT_TRAIN_PACKETS);
    close_chain();
    ck_assert_int_eq(sent_from(world.udp, chain.bytes, chain.length, taken), 0);
    ck_assert_uint_eq(counters().packets_received, before.packets_received + SOFT_TRAIN_PACKETS);
    ck_assert_uint_eq(counters().malformed, before.malformed);
    for (unsigned more = 1; more <= 2; more++) {
        add(0, 0, BESIDE + SOFT_TRAIN_PACKETS + more);
        close_chain();
        expect_refused("so many more than there may be", more);
    }
    forget_answers();
    expect_untouched();
}
END_TEST

/* One number that is wrong, in each of them. */
START_TEST(wrong_sizes)
{
    static const int wrong[] = {0, 1, 3, 4, ICRC_SIZE + 1, ROCE_BTH, FEWEST - 1, 0x7fff, 0xffff};

    for (unsigned i = 0; i < PLACES; i++) {
        for (size_t j = 0; j < sizeof wrong / sizeof wrong[0]; j++) {
            begin_chain();
            say(i, SOFT_CHAIN | (uint32_t)wrong[j]);
            expect_refused("a wrong size", j);
        }
        for (int by = -20; by <= 20; by++) {
            begin_chain();
            say(i, SOFT_CHAIN | (uint32_t)((int)size_of((i + 1) % PLACES) + by));
            if (by != 0)
                expect_refused("a wrong size", (size_t)(by + 20));
        }
        begin_chain();
        if (i < PLACES - 1) { /* the last one may: then all is one packet */
            say(i, SOFT_CHAIN | (uint32_t)chain.length);
            expect_refused("the size of all of them", i);
        }
        say(i, SOFT_CHAIN | (uint32_t)(chain.length - (i ? chain.ends[i - 1] : 0)));
        expect_refused("the size of the rest", i);
    }
    expect_untouched();
}
END_TEST

/* All of them true, and one packet has no room for a BTH. */
START_TEST(too_short)
{
    for (unsigned which = 0; which < PLACES; which++)
        for (size_t size = ICRC_SIZE; size < FEWEST; size++) {
            empty_chain();
            for (unsigned i = 0; i < PLACES; i++)
                add_cut(i == which ? 0 : lengths[i], values[i], i, i == which ? size : SIZE_MAX);
            close_chain();
            ck_assert_uint_eq(size_of(which), size);
            expect_refused("a packet that is too short", size);
        }
    expect_untouched();
}
END_TEST

/* They go round among others than the packets. */
START_TEST(circles)
{
    begin_chain();
    for (unsigned i = 0; i < PLACES; i++)
        say(i, SOFT_CHAIN | (uint32_t)size_of(i));
    expect_refused("each says it of itself", 0);
    for (unsigned i = 0; i < PLACES; i++)
        say(i, SOFT_CHAIN | (uint32_t)size_of((i + 2) % PLACES));
    expect_refused("each says it of the one before", 0);
    for (unsigned said = 0; said < PLACES; said++) {
        for (unsigned i = 0; i < PLACES; i++)
            say(i, SOFT_CHAIN | (uint32_t)size_of(said));
        expect_refused("all say it of one", said);
    }
    for (unsigned i = 0; i < PLACES; i++)
        say(i, SOFT_CHAIN);
    expect_refused("all say 0", 0);
    expect_untouched();
}
END_TEST

/* Nothing of one that is cut anywhere; where it ends with a packet, that one says it of another than the first. */
START_TEST(cut)
{
    begin_chain();
    for (size_t full = chain.length, length = 0; length < full; length++) {
        chain.length = length;
        expect_refused("cut", length);
    }
    expect_untouched();
}
END_TEST

/* Nor of one that goes on. */
START_TEST(longer)
{
    begin_chain();
    for (unsigned more = 1; more <= 2 * FEWEST; more++) {
        chain.bytes[chain.length++] = 0x77;
        expect_refused("longer", more);
    }
    begin_chain();
    chain.length += ICRC_SIZE;
    chain.ends[chain.count++] = chain.length;
    say(PLACES, SOFT_CHAIN | (uint32_t)size_of(0));
    expect_refused("its last word comes twice", 0);
    expect_untouched();
}
END_TEST

/* It leads on to another packet's end all the same: several of them are one. */
static bool leads_to_an_end(unsigned packet)
{
    size_t begin = packet + 1 < chain.count ? chain.ends[packet] : 0;
    size_t size = soft_chained(chain.bytes + chain.ends[packet]);

    for (unsigned i = 0; i < chain.count; i++)
        if (size > 0 && chain.ends[i] == begin + size)
            return true;
    return false;
}

/* Any byte of the words, with any value but its own. */
START_TEST(changed)
{
    begin_chain();
    for (size_t i = 0; i < PLACES * ICRC_SIZE; i++) {
        unsigned packet = (unsigned)i / ICRC_SIZE;
        uint8_t *byte = &chain.bytes[chain.ends[packet] - 1 - i % ICRC_SIZE];

        for (unsigned by = 1; by < 256; by++) {
            *byte ^= (uint8_t)by;
            if (!leads_to_an_end(packet))
                expect_refused("a byte changed", i << 8 | by);
            *byte ^= (uint8_t)by;
        }
    }
    expect_untouched();
}
END_TEST

/* The peer's in all but the port, or the address. */
START_TEST(from_elsewhere)
{
    in_port_t port = world.path.local.in.sin_port;
    int fd = _i ? udp_at(INADDR_LOOPBACK + 1, port) : udp_at(INADDR_LOOPBACK, 0);
    struct ibv_wc taken[PLACES];
    uint64_t before = counters().refused + counters().malformed;

    begin_chain();
    ck_assert_int_eq(sent_from(fd, chain.bytes, chain.length, taken), 0);
    ck_assert_uint_gt(counters().refused + counters().malformed, before);
    close(fd);
    expect_untouched();
}
END_TEST

/* ---- Where they have not ---- */

static void enter_old(void)
{
    begin(UNCHECKED);
    ck_assert(world.unchecked && !world.coalesced);
}

static void enter_checked(void)
{
    begin(0);
    ck_assert(!world.unchecked && !world.coalesced);
}

/* Nobody says that alone. */
static void enter_half(void)
{
    begin(COALESCED);
    ck_assert(!world.unchecked && !world.coalesced);
}

static void enter_unheard(void)
{
    begin_unheard(UNCHECKED | COALESCED);
}

START_TEST(unagreed)
{
    begin_chain();
    expect_refused("unagreed", 0);
    expect_untouched();
}
END_TEST

static TCase *add_world(Suite *suite, const char *name, void (*come)(void))
{
    TCase *tcase = tcase_create(name);

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, come, leave);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("coalesced");
    TCase *tcase = add_world(suite, "agreed", enter_agreed);

    tcase_add_loop_test(tcase, right_ones, 0, 2);
    tcase_add_test(tcase, many);
    tcase_add_test(tcase, wrong_sizes);
    tcase_add_test(tcase, too_short);
    tcase_add_test(tcase, circles);
    tcase_add_test(tcase, cut);
    tcase_add_test(tcase, longer);
    tcase_add_test(tcase, changed);
    tcase_add_loop_test(tcase, from_elsewhere, 0, 2);
    tcase_add_test(add_world(suite, "old", enter_old), unagreed);
    tcase_add_test(add_world(suite, "half", enter_half), unagreed);
    tcase_add_test(add_world(suite, "checked", enter_checked), unagreed);
    tcase_add_test(add_world(suite, "unheard", enter_unheard), unagreed);
    return run_suite(suite);
}
