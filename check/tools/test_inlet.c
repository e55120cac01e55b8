/* SPDX-License-Identifier: BSD-2-Clause */
/* test_inlet.c - tools/files/inlet.h: limits on the number and the speed of clients, and on the server's memory.
 * test_inlet_giving.c tests sending of files. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "check/support/fake_exs.h"
#include "check/support/runner.h"
#include "inlet_fixture.h"

/* Sends a header and a name. */
static void begin_file(int sock, uint64_t size)
{
    const struct transfer_header header = {.name_length = 4, .size = size};
    unsigned char bytes[TRANSFER_HEADER + 4];

    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, "file", 4);
    ck_assert_uint_eq(fake_arrive(sock, bytes, sizeof(bytes)), sizeof(bytes));
}

/* Composes a complete empty file with the name n. */
static size_t compose_empty(unsigned char bytes[TRANSFER_HEADER + 1 + TRANSFER_DIGEST])
{
    const struct transfer_header header = {.name_length = 1, .size = 0};
    XXH3_state_t *state = XXH3_createState();

    transfer_put_header(bytes, &header);
    bytes[TRANSFER_HEADER] = 'n';
    XXH3_128bits_reset(state);
    transfer_digest(state, bytes + TRANSFER_HEADER + 1);
    XXH3_freeState(state);
    return TRANSFER_HEADER + 1 + TRANSFER_DIGEST;
}

static void expect_told(int sock, const char *want)
{
    unsigned char reply[TRANSFER_REPLY + TRANSFER_TEXT_MAX + 1] = {0};
    struct transfer_reply what;

    ck_assert_int_gt(fake_sent(sock, reply, sizeof(reply) - 1), TRANSFER_REPLY);
    ck_assert(transfer_get_reply(reply, &what));
    ck_assert_int_eq(what.status, TRANSFER_REFUSED);
    ck_assert_msg(strstr((char *)reply + TRANSFER_REPLY, want) != NULL, "said: %s", reply + TRANSFER_REPLY);
}

/* ---- Slow clients -------------------------------------------------------------------------------------- */

START_TEST(silent)
{
    open_from(1, 1);
    begin_file(1, 100);
    pass(PATIENCE);
    expect_open(1);
    ck_assert_ptr_null(fake_first(1, EXS_EVT_SEND));
    pass(1);
    expect_told(1, "silent for too long");
    expect_open(1);
    pass(PATIENCE + 1);
    ck_assert(fake_closed(1));
    ck_assert_int_eq(inlets.count, 0);
}
END_TEST

/* A client that sends a byte now and then is disconnected, in each state of the protocol. */
START_TEST(byte_by_byte)
{
    open_from(1, 1);
    if (_i == 1)
        begin_file(1, 1 << 20);
    for (int seconds = 0; seconds < PATIENCE; seconds += PATIENCE - 1) {
        ck_assert_uint_eq(fake_arrive(1, "E", 1), 1);
        pass(PATIENCE - 1);
    }
    expect_told(1, "too slow");
    pass(PATIENCE + 1);
    ck_assert(fake_closed(1));
}
END_TEST

/* A fast start does not permit a client to be slow afterwards; a client at the minimum rate has no other time limit. */
START_TEST(fast_enough)
{
    static unsigned char data[1 << 20];

    open_from(1, 1);
    begin_file(1, INT32_MAX / 4);
    fake_arrive(1, data, sizeof(data));
    pass(1);
    for (int second = 0; second < 10 * PATIENCE; second++) {
        ck_assert_uint_eq(fake_arrive(1, data, RATE), RATE);
        pass(1);
    }
    expect_open(1);
    ck_assert_ptr_null(fake_first(1, EXS_EVT_SEND));
    for (int second = 0; second < 2 * PATIENCE + 2; second++) {
        fake_arrive(1, data, RATE / 2);
        pass(1);
    }
    expect_told(1, "too slow");
}
END_TEST

/* Small files, one per round trip: few bytes a second, but each counts as FILE_WORTH bytes. */
START_TEST(small_files)
{
    unsigned char bytes[TRANSFER_HEADER + 1 + TRANSFER_DIGEST], reply[256];

    compose_empty(bytes);
    open_from(1, 1);
    for (int second = 0; second < 3 * PATIENCE; second++) {
        ck_assert_uint_eq(fake_arrive(1, bytes, sizeof(bytes)), sizeof(bytes));
        ck_assert_int_gt(fake_sent(1, reply, sizeof(reply)), 0);
        pass(1);
    }
    expect_open(1);
}
END_TEST

/* While all connections are in use, small files do not let one host hold more than its share of them. */
START_TEST(contended)
{
    unsigned char bytes[TRANSFER_HEADER + 1 + TRANSFER_DIGEST], reply[256];
    int full = _i == 1 ? MOST : MOST - 1; /* while one connection is free, small files count in full */

    compose_empty(bytes);
    for (int sock = 1; sock <= full; sock++)
        open_from(sock, sock <= OF_ONE ? 1 : (unsigned)sock);
    for (int second = 0; second < PATIENCE + 1; second++) {
        for (int sock = 1; sock <= full; sock++) {
            ck_assert_uint_eq(fake_arrive(sock, bytes, sizeof(bytes)), sizeof(bytes));
            ck_assert_int_gt(fake_sent(sock, reply, sizeof(reply)), 0);
        }
        pass(1);
    }
    if (_i == 1)
        expect_told(1, "too slow");
    for (int sock = _i == 1 ? OF_ONE + 1 : 1; sock <= full; sock++) {
        expect_open(sock);
        ck_assert_ptr_null(fake_first(sock, EXS_EVT_SEND));
    }
}
END_TEST

/* A client that resumes a file gets additional time to read its part first; a client whose file has no part on the
 * server gets none. */
START_TEST(asking)
{
    enum { THERE = 3 * PATIENCE * RATE };
    const struct transfer_header header = {.name_length = 4, .size = 2 * THERE, .asks = true};
    unsigned char bytes[TRANSFER_HEADER + 4], reply[256];
    static unsigned char data[TRANSFER_OFFSET + THERE];

    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, "file", 4);
    inlets.store.limits.keep = 1000;
    for (int round = 0; round < 2; round++) {
        open_from(1 + round, 1);
        pass(PATIENCE - 1);
        ck_assert_uint_eq(fake_arrive(1 + round, bytes, sizeof(bytes)), sizeof(bytes));
        ck_assert_int_eq(fake_sent(1 + round, reply, sizeof(reply)), TRANSFER_REPLY + TRANSFER_OFFSET);
        ck_assert_uint_eq(transfer_get_offset(reply + TRANSFER_REPLY), round * THERE);
        pass(round == 0 ? 1 : THERE / RATE + PATIENCE);
        ck_assert_ptr_null(fake_first(1 + round, EXS_EVT_SEND));
        if (round == 0) {
            fake_arrive(1, data, sizeof(data));
            fake_arrive(1, "", 0); /* the client disconnects */
            ck_assert(fake_closed(1));
        }
    }
    pass(1);
    expect_told(2, "silent for too long");
    open_from(3, 3);
    pass(PATIENCE - 1);
    memcpy(bytes + TRANSFER_HEADER, "more", 4);
    fake_arrive(3, bytes, sizeof(bytes));
    ck_assert_int_gt(fake_sent(3, reply, sizeof(reply)), 0);
    pass(2);
    expect_told(3, "too slow");
}
END_TEST

/* For a large part the client gets the time that a slow disk takes; otherwise it could not resume. */
START_TEST(asking_of_much)
{
    enum { SLOT = 1 << 20, SLOTS = 48, MOST = 600 + SLOTS / 16 };
    const struct transfer_header header = {.name_length = 4, .size = 2 * SLOTS * SLOT, .asks = true};
    unsigned char bytes[TRANSFER_HEADER + 4], from_0[TRANSFER_OFFSET] = {0}, reply[256];
    static unsigned char data[SLOT];

    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, "file", 4);
    inlets.store.limits.keep = 1000;
    for (int sock = 1; sock <= 2; sock++) {
        open_from(sock, 1);
        fake_arrive(sock, bytes, sizeof(bytes));
        ck_assert_int_eq(fake_sent(sock, reply, sizeof(reply)), TRANSFER_REPLY + TRANSFER_OFFSET);
        if (sock == 2)
            break;
        fake_arrive(1, from_0, sizeof(from_0));
        for (int slot = 0; slot < SLOTS; slot++)
            ck_assert_uint_eq(fake_arrive(1, data, SLOT), SLOT);
        fake_arrive(1, "", 0); /* the client disconnects */
        ck_assert(fake_closed(1));
    }
    pass(MOST + PATIENCE);
    expect_open(2);
    ck_assert_ptr_null(fake_first(2, EXS_EVT_SEND));
    pass(1);
    expect_told(2, "silent for too long");
}
END_TEST

/* A client that does not receive its reply is disconnected without a message. */
START_TEST(deaf)
{
    open_from(1, 1);
    fake_arrive(1, "This is no file transfer at all.", 32);
    ck_assert_ptr_nonnull(fake_first(1, EXS_EVT_SEND));
    pass(PATIENCE + 1);
    ck_assert(fake_closed(1));
}
END_TEST

/* ---- Many clients -------------------------------------------------------------------------------------- */

START_TEST(of_one_address)
{
    for (int sock = 1; sock <= OF_ONE; sock++)
        open_from(sock, 1);
    open_from(10, 2); /* another host is not affected */
    open_from(11, 1);
    for (int sock = 1; sock <= OF_ONE; sock++)
        ck_assert_ptr_null(fake_first(sock, EXS_EVT_SEND));
    ck_assert_ptr_null(fake_first(10, EXS_EVT_SEND));
    expect_told(11, "your address has 3 connections already");
    begin_file(11, 1 << 20); /* is ignored */
    expect_open(11);
    ck_assert_uint_eq(inlets.store.files, 0);
    ck_assert_uint_eq(fake_arrive(11, "", 0), 0); /* end of stream */
    ck_assert(fake_closed(11));
    ck_assert_uint_eq(fake_arrive(2, "", 0), 0);
    ck_assert(fake_closed(2));
    open_from(12, 1);
    ck_assert_ptr_null(fake_first(12, EXS_EVT_SEND));
}
END_TEST

/* All addresses that one host may have count as one host. */
START_TEST(of_one_host)
{
    static const struct {
        const char *addresses[2];
        bool same;
    } rows[] = {
        {{"127.0.0.1", "127.9.9.9"}, true},
        {{"10.0.0.1", "10.0.0.2"}, false},
        {{"2001:db8::1", "2001:db8::ffff:0:0:2"}, true},
        {{"2001:db8::1", "2001:db8:0:1::1"}, false},
        {{"fe80::1", "fe80::2"}, false},
        {{"::ffff:127.0.0.1", "::ffff:127.0.0.2"}, true},
        {{"::ffff:10.0.0.1", "::ffff:10.0.0.2"}, false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int first = (int)i * (OF_ONE + 1) + 1;

        for (int sock = first; sock < first + OF_ONE; sock++)
            open_at(sock, rows[i].addresses[0]);
        open_at(first + OF_ONE, rows[i].addresses[1]);
        if (rows[i].same)
            expect_told(first + OF_ONE, "your address has 3 connections already");
        else
            ck_assert_ptr_null(fake_first(first + OF_ONE, EXS_EVT_SEND));
        for (int sock = first; sock <= first + OF_ONE; sock++) {
            fake_arrive(sock, "", 0);
            ck_assert(fake_closed(sock));
        }
    }
}
END_TEST

/* A host that is refused again and again uses a bounded number of connections. */
START_TEST(refused_again)
{
    for (int sock = 1; sock <= OF_ONE + REFUSED + 100; sock++)
        open_from(sock, 1);
    ck_assert_int_eq(inlets.count, OF_ONE + REFUSED);
    for (int sock = OF_ONE + 1; sock <= OF_ONE + REFUSED; sock++)
        expect_told(sock, "your address");
    /* Refused connections share one block; each served connection has one. */
    ck_assert_int_eq(fake_regions, OF_ONE + 1);
    /* A client that disconnects frees its place immediately, while other connections are being refused. */
    fake_arrive(1, "", 0);
    ck_assert(fake_closed(1));
    open_from(500, 1);
    expect_open(500);
    ck_assert_ptr_null(fake_first(500, EXS_EVT_SEND));
    fake_arrive(500, "", 0);
    ck_assert(fake_closed(500));
    pass(PATIENCE + 1);
    for (int sock = OF_ONE + 1; sock <= OF_ONE + REFUSED; sock++)
        ck_assert(fake_closed(sock));
}
END_TEST

/* Buffers of closed connections are freed, except for BLOCKS_KEPT. */
START_TEST(blocks_given_back)
{
    enum { MANY = 200 };

    for (int sock = 1; sock <= MANY; sock++)
        open_from(sock, (unsigned)sock);
    ck_assert_int_eq(fake_regions, MANY);
    for (int sock = 1; sock <= MANY; sock++) {
        fake_arrive(sock, "", 0);
        ck_assert(fake_closed(sock));
    }
    ck_assert_int_eq(inlets.count, 0);
    ck_assert_int_eq(fake_regions, BLOCKS_KEPT);
}
END_TEST

/* If opening a connection fails at any step, all of its resources are released. */
START_TEST(shortage)
{
    fake_failing = ENOMEM;
    fake_fails_from = _i;
    open_from(1, 1);
    fake_failing = 0;
    if (inlets.count == 1 && fake_first(1, EXS_EVT_CLOSE) == NULL)
        begin_file(1, 10);
}
END_TEST

/* ---- Shutdown ------------------------------------------------------------------------------------------ */

/* A client between files is disconnected at once; a client within a file may finish it, but not start another one. */
START_TEST(finish)
{
    unsigned char bytes[TRANSFER_HEADER + 1 + TRANSFER_DIGEST], reply[256];
    size_t length = compose_empty(bytes);
    struct transfer_reply what;

    open_from(1, 1);
    open_from(2, 2);
    open_from(3, 3);
    ck_assert_uint_eq(fake_arrive(2, bytes, length - 1), length - 1);
    ck_assert_uint_eq(fake_arrive(3, bytes, length), length); /* its reply is in flight */
    ck_assert_int_eq(inlets_finish(&inlets), 2);
    ck_assert_ptr_nonnull(fake_first(1, EXS_EVT_CLOSE));
    expect_open(2);
    expect_open(3);
    ck_assert_uint_eq(fake_arrive(2, bytes + length - 1, 1), 1);
    ck_assert_uint_eq(fake_arrive(2, bytes, length), length); /* the next file */
    for (int sock = 2; sock <= 3; sock++) {
        expect_open(sock);
        ck_assert_int_ge(fake_sent(sock, reply, sizeof(reply)), TRANSFER_REPLY);
        ck_assert(transfer_get_reply(reply, &what));
        ck_assert_int_eq(what.status, TRANSFER_STORED);
        ck_assert_ptr_null(fake_first(sock, EXS_EVT_SEND));
        ck_assert_ptr_nonnull(fake_first(sock, EXS_EVT_CLOSE));
    }
    ck_assert_uint_eq(inlets.store.files, 2);
}
END_TEST

/* A connection whose accept event arrives during the shutdown is closed, and the server does not wait for its data. */
START_TEST(comes_at_the_end)
{
    ck_assert_int_eq(inlets_finish(&inlets), 0);
    open_from(1, 1);
    ck_assert_int_eq(inlets.count, 1);
    ck_assert_ptr_null(fake_first(1, EXS_EVT_RECV));
    ck_assert(fake_closed(1));
    ck_assert_int_eq(inlets.count, 0);
}
END_TEST

START_TEST(finish_is_cut_short)
{
    open_from(1, 1);
    begin_file(1, 100);
    ck_assert_int_eq(inlets_finish(&inlets), 1);
    inlets_close_all(&inlets);
    ck_assert_ptr_nonnull(fake_first(1, EXS_EVT_CLOSE));
    ck_assert_int_eq(count_said("the server is ending, an unfinished file was dropped"), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inlet");
    TCase *tcase = new_case(suite, "connections");

    tcase_add_checked_fixture(tcase, inlets_setup, inlets_teardown);
    tcase_add_test(tcase, silent);
    tcase_add_loop_test(tcase, byte_by_byte, 0, 2);
    tcase_add_test(tcase, fast_enough);
    tcase_add_test(tcase, small_files);
    tcase_add_loop_test(tcase, contended, 0, 2);
    tcase_add_test(tcase, asking);
    tcase_add_test(tcase, asking_of_much);
    tcase_add_test(tcase, deaf);
    tcase_add_test(tcase, of_one_address);
    tcase_add_test(tcase, of_one_host);
    tcase_add_test(tcase, refused_again);
    tcase_add_test(tcase, blocks_given_back);
    tcase_add_loop_test(tcase, shortage, 0, 8);
    tcase_add_test(tcase, finish);
    tcase_add_test(tcase, comes_at_the_end);
    tcase_add_test(tcase, finish_is_cut_short);
    return run_suite(suite);
}
