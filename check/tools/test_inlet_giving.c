/* SPDX-License-Identifier: BSD-2-Clause */
/* test_inlet_giving.c - tools/files/inlet.h: sending of files to clients that request two at once, receive slowly or
 * not at all, disconnect during the transfer, or are connected at the shutdown. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check/support/fake_exs.h"
#include "check/support/runner.h"
#include "inlet_fixture.h"
#include "tools/files/giving.h"

enum { LENGTH = 2 << 20, PIECE = 16 << 10 }; /* PIECE: bytes of a piece, from RATE and PATIENCE */

static void make_file(uint64_t size)
{
    int fd = openat(inlets.store.directory, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    close(fd);
    inlets.store.limits.gives = true;
}

/* Requests the file, and claims to have `there` bytes with this digest. */
static void want(int sock, uint64_t there, const unsigned char digest[TRANSFER_DIGEST])
{
    struct transfer_header header = {.version = TRANSFER_WANTS, .name_length = 4, .size = there};
    unsigned char bytes[TRANSFER_HEADER + 4];

    memcpy(header.digest, digest, TRANSFER_DIGEST);
    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, "file", 4);
    ck_assert_uint_eq(fake_arrive(sock, bytes, sizeof(bytes)), sizeof(bytes));
}

/* Like want(), with the digest of the file's first bytes. */
static void want_file(int sock, uint64_t there)
{
    static unsigned char zeros[LENGTH];
    unsigned char digest[TRANSFER_DIGEST];
    XXH3_state_t *state = XXH3_createState();

    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, zeros, there);
    transfer_digest(state, digest);
    XXH3_freeState(state);
    want(sock, there, digest);
}

/* Completes the next sendfile. Returns its bytes. */
static size_t take(int sock)
{
    static unsigned char bytes[LENGTH];
    ssize_t length = fake_sent_file(sock, bytes, sizeof(bytes));

    ck_assert_int_gt(length, 0);
    return (size_t)length;
}

static int count_sendfiles(int sock)
{
    const struct fake_call *call;
    int count = 0;

    STAILQ_FOREACH (call, &fake_calls, entry)
        count += call->sock == sock && call->type == EXS_EVT_SENDFILE;
    return count;
}

/* The maximum number of pieces is in flight until the end; then the next file may be requested. */
START_TEST(given)
{
    make_file(LENGTH);
    open_from(1, 1);
    for (int round = 0; round < 2; round++) {
        size_t length = 0;
        int left = LENGTH / PIECE;

        want_file(1, 0);
        while (fake_first(1, EXS_EVT_SENDFILE) != NULL) {
            ck_assert_int_eq(count_sendfiles(1), left < GIVING_FLYING ? left : GIVING_FLYING);
            length += take(1);
            left--;
        }
        ck_assert_uint_eq(length, TRANSFER_REPLY + TRANSFER_COMING + LENGTH + TRANSFER_DIGEST);
    }
    expect_open(1);
    ck_assert_int_eq(asked_again, 0);
}
END_TEST

/* A file that becomes shorter is reported as such, and not as an error of the disk. */
START_TEST(became_shorter)
{
    make_file(LENGTH);
    open_from(1, 1);
    want_file(1, 0);
    make_file(PIECE);
    take(1);
    ck_assert_int_eq(
        count_said("10.0.0.1 port 1001: file became shorter while it was sent, it did not get all of"), 1);
    ck_assert_int_eq(count_said("Input/output error"), 0);
}
END_TEST

/* Another error of a file is reported with its text. */
START_TEST(disk_failed)
{
    make_file(LENGTH);
    open_from(1, 1);
    want_file(1, 0);
    fake_complete(fake_first(1, EXS_EVT_SENDFILE), EIO, 0, 0);
    ck_assert_int_eq(count_said("10.0.0.1 port 1001: Input/output error, it did not get all of a file"), 1);
}
END_TEST

/* A request during the transfer of another file is answered after that. */
START_TEST(wants_two)
{
    make_file(LENGTH);
    open_from(1, 1);
    want_file(1, 0);
    want_file(1, LENGTH / 2);
    for (int piece = 0; piece < LENGTH / PIECE; piece++) {
        ck_assert_int_eq(asked_again, 0);
        take(1);
    }
    ck_assert_int_eq(count_sendfiles(1), 0);
    ck_assert_int_eq(asked_again, 1);
}
END_TEST

START_TEST(takes_nothing)
{
    make_file(LENGTH);
    open_from(1, 1);
    want_file(1, 0);
    pass(PATIENCE);
    expect_open(1);
    pass(1);
    ck_assert(fake_closed(1));
    ck_assert_int_eq(count_said("silent for too long (exs-serve -t), it did not get all of a file"), 1);
}
END_TEST

/* A client that receives at the minimum rate has no other time limit; a slower one is disconnected. */
START_TEST(takes_slowly)
{
    make_file(LENGTH);
    open_from(1, 1);
    want_file(1, 0);
    for (int seconds = 0; seconds < 10 * PATIENCE; seconds += PIECE / RATE) {
        take(1);
        pass(PIECE / RATE);
    }
    expect_open(1);
    for (int seconds = 0; seconds < 2 * PATIENCE + 2; seconds += PATIENCE - 1) {
        if (fake_first(1, EXS_EVT_CLOSE) == NULL)
            take(1);
        pass(PATIENCE - 1);
    }
    ck_assert(fake_closed(1));
    ck_assert_int_eq(count_said("too slow (exs-serve -r), it did not get all of a file"), 1);
}
END_TEST

/* The parts of clients that resume are read in turn, a piece each. In the meantime these clients do not time out. */
START_TEST(readers)
{
    make_file(LENGTH);
    open_from(1, 1);
    open_from(2, 2);
    open_from(3, 3);
    want_file(1, LENGTH);
    want_file(2, LENGTH);
    want_file(3, LENGTH - 1);
    ck_assert_int_eq(asked_again, 1);
    for (int turn = 1; turn <= 6; turn++) {
        ck_assert_int_eq(count_sendfiles(1), turn > 4);
        ck_assert_int_eq(count_sendfiles(2), turn > 5);
        pass(PATIENCE / 3);
        if (turn == 2)
            ck_assert(fake_arrive(3, "", 0) == 0); /* it shuts down its direction, and still waits */
        inlets_read(&inlets);
        ck_assert_int_eq(asked_again, turn < 6 ? turn + 1 : 6);
    }
    ck_assert_uint_eq(take(1), TRANSFER_REPLY + TRANSFER_COMING + TRANSFER_DIGEST);
    ck_assert_uint_eq(take(2), TRANSFER_REPLY + TRANSFER_COMING + TRANSFER_DIGEST);
    ck_assert_uint_eq(take(3), TRANSFER_REPLY + TRANSFER_COMING + 1 + TRANSFER_DIGEST);
    inlets_read(&inlets); /* no client waits */
    ck_assert_int_eq(asked_again, 6);
}
END_TEST

static void break_off(int sock)
{
    fake_complete(fake_first(sock, EXS_EVT_RECV), ECONNRESET, 0, 0);
    ck_assert(fake_closed(sock));
}

/* A client that disconnects is removed from the list of readers. */
START_TEST(reader_goes)
{
    make_file(LENGTH);
    open_from(1, 1);
    open_from(2, 2);
    want_file(1, LENGTH);
    want_file(2, LENGTH);
    if (_i == 1)
        inlets_read(&inlets);
    break_off(1 + _i);
    for (int turn = 0; turn < 4; turn++)
        inlets_read(&inlets);
    ck_assert_int_eq(count_sendfiles(2 - _i), 1);
}
END_TEST

static void begin_to_read(int sock, unsigned host)
{
    open_from(sock, host);
    want_file(sock, LENGTH);
    expect_open(sock);
    ck_assert_ptr_null(fake_first(sock, EXS_EVT_SEND));
}

/* The bytes read for a host are limited, so that it cannot keep the disk busy by requests of a few bytes. Its debt
 * decreases with time, by bytes that were not read after all, and by bytes that it fetches. */
START_TEST(readers_owe)
{
    static const unsigned char wrong[TRANSFER_DIGEST];
    const uint64_t most = HOSTS_MAY_OWE, more = 2 * HOSTS_FORGIVEN;

    make_file(most + more);
    inlets.rate = GIVING_PIECE;
    open_from(1, 1);
    want(1, most + more, wrong);
    open_from(2, 1);
    want(2, LENGTH, wrong);
    ck_assert_ptr_nonnull(fake_first(2, EXS_EVT_SEND));
    ck_assert_int_eq(count_said("too much was read for your address that it did not take: go on in 3 seconds"),
                     1);
    break_off(2);
    begin_to_read(3, 2);
    if (_i == 0) {
        pass(2);
    } else if (_i == 1) {
        break_off(1);
    } else {
        open_from(2, 1);
        want(2, 0, wrong);
        for (uint64_t taken = 0; taken < more;)
            taken += take(2);
    }
    begin_to_read(4, 1);
}
END_TEST

/* Lines about sent files have the same rate limit as those about failures. */
START_TEST(given_lines)
{
    FILE *out = tmpfile();
    char line[512], reply[512];
    int count = 0;

    ck_assert_int_ne(dup2(fileno(out), STDOUT_FILENO), -1);
    close(openat(inlets.store.directory, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    inlets.store.limits.gives = true;
    open_from(1, 1);
    for (int i = 0; i < 1000; i++) {
        want_file(1, 0);
        ck_assert_int_gt(fake_sent(1, reply, sizeof(reply)), 0);
    }
    pass(LINES_PERIOD);
    fflush(stdout);
    rewind(out);
    while (fgets(line, sizeof(line), out) != NULL)
        count += strstr(line, count < LINES_BURST ? "file: gave 0 bytes" : "gave 900 more files") != NULL;
    ck_assert_int_eq(count, LINES_BURST + 1);
    expect_open(1); /* many small files */
}
END_TEST

/* Small files that were requested together are sent together, up to the first one that does not fit. */
START_TEST(given_together)
{
    enum { SIZE = 50000, COUNT = 5 };
    const struct transfer_header header = {.version = TRANSFER_WANTS, .name_length = 4};
    static unsigned char bytes[COUNT * (TRANSFER_HEADER + 4)], given[3 * SIZE];
    const ssize_t each = TRANSFER_REPLY + TRANSFER_COMING + SIZE + TRANSFER_DIGEST;

    make_file(SIZE);
    open_from(1, 1);
    for (size_t i = 0; i < COUNT; i++) {
        transfer_put_header(bytes + i * (TRANSFER_HEADER + 4), &header);
        memcpy(bytes + i * (TRANSFER_HEADER + 4) + TRANSFER_HEADER, "file", 4);
    }
    ck_assert_uint_eq(fake_arrive(1, bytes, sizeof(bytes)), sizeof(bytes));
    ck_assert_int_eq(fake_sent(1, given, sizeof(given)), 2 * each);
    ck_assert_int_eq(fake_sent(1, given, sizeof(given)), 2 * each);
    ck_assert_int_eq(fake_sent(1, given, sizeof(given)), each);
    ck_assert_ptr_null(fake_first(1, EXS_EVT_SEND));
    expect_open(1);
}
END_TEST

START_TEST(shortage_of_giving)
{
    make_file(LENGTH);
    open_from(1, 1);
    fake_failing = ENOMEM;
    fake_fails_from = _i;
    want_file(1, 0);
    fake_failing = 0;
    if (fake_first(1, EXS_EVT_CLOSE) == NULL)
        take(1);
}
END_TEST

/* At the shutdown a client that is receiving a file gets all of it. */
START_TEST(finish_giving)
{
    make_file(LENGTH);
    open_from(1, 1);
    open_from(2, 2);
    want_file(1, 0);
    want_file(2, LENGTH);
    ck_assert_int_eq(inlets_finish(&inlets), 2);
    for (int turn = 0; turn < 2; turn++)
        inlets_read(&inlets);
    for (int sock = 1; sock <= 2; sock++) {
        while (fake_first(sock, EXS_EVT_SENDFILE) != NULL) {
            expect_open(sock);
            take(sock);
        }
        ck_assert(fake_closed(sock));
    }
    ck_assert_int_eq(count_said("did not get"), 0);
}
END_TEST

START_TEST(finish_giving_is_cut_short)
{
    make_file(LENGTH);
    open_from(1, 1);
    want_file(1, _i * LENGTH);
    inlets_close_all(&inlets);
    ck_assert(fake_closed(1));
    ck_assert_int_eq(count_said("the server is ending, it did not get all of a file"), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inlet giving");
    TCase *tcase = new_case(suite, "giving");

    tcase_add_checked_fixture(tcase, inlets_setup, inlets_teardown);
    tcase_add_test(tcase, given);
    tcase_add_test(tcase, became_shorter);
    tcase_add_test(tcase, disk_failed);
    tcase_add_test(tcase, wants_two);
    tcase_add_test(tcase, takes_nothing);
    tcase_add_test(tcase, takes_slowly);
    tcase_add_test(tcase, readers);
    tcase_add_loop_test(tcase, reader_goes, 0, 2);
    tcase_add_loop_test(tcase, readers_owe, 0, 3);
    tcase_add_test(tcase, given_lines);
    tcase_add_test(tcase, given_together);
    tcase_add_loop_test(tcase, shortage_of_giving, 0, 3);
    tcase_add_test(tcase, finish_giving);
    tcase_add_loop_test(tcase, finish_giving_is_cut_short, 0, 2);
    return run_suite(suite);
}
