/* SPDX-License-Identifier: BSD-2-Clause */
/* test_intake.c - tools/files/intake.h without a network: bytes that arrive in pieces of any size, and invalid
 * bytes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "conversation.h"

START_TEST(pieces)
{
    static const char data[] = "what a file may hold, and a little more";
    struct message m = compose("file", 4, data, sizeof(data)), empty = compose("empty", 5, "", 0);

    for (size_t piece = 1; piece <= m.length; piece++) {
        ck_assert_uint_eq(feed(&m, piece), m.length);
        expect_reply(TRANSFER_STORED);
        expect_stored("file", data, sizeof(data));
        ck_assert(intake_idle(&intake));
        ck_assert_uint_eq(feed(&empty, piece), empty.length);
        expect_reply(TRANSFER_STORED);
        expect_stored("empty", "", 0);
    }
}
END_TEST

START_TEST(stops_at_reply)
{
    struct message m = compose("one", 3, "1", 1), two = compose("two", 3, "22", 2);

    memcpy(m.bytes + m.length, two.bytes, two.length);
    size_t first = m.length;
    m.length += two.length;
    ck_assert_uint_eq(intake_feed(&intake, m.bytes, m.length), first);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(intake_feed(&intake, m.bytes + first, two.length), two.length);
    expect_reply(TRANSFER_STORED);
    expect_stored("two", "22", 2);
}
END_TEST

static const struct {
    const char *name;
    size_t length;
} bad_names[] = {{".", 1},     {"..", 2},   {".recv_ring", 7},   {"../up", 5},   {"a//b", 4},
                 {"/etc", 4},  {"a\0b", 3}, {"line\n", 5},       {"\x1b[2J", 4}, {"\x7f", 1},
                 {"a/", 2},    {"a\tb", 3}, {".exs-0.part", 11}, {"a/..", 4},    {"a/../b", 6},
                 {"a/./b", 5}, {"a/.b", 4}, {".a/b", 4},         {"a/b/", 4},    {"//", 2}};

START_TEST(names)
{
    struct message m = compose(bad_names[_i].name, bad_names[_i].length, "data", 4);

    expect_refused(&m, TRANSFER_REFUSED);
}
END_TEST

/* Offsets and values of bytes that make a header invalid. */
static const struct {
    size_t at;
    unsigned char value;
} bad_headers[] = {{0, 'X'},   {3, 0},     {4, 1},     {5, 0},     {5, 5},    {6, 0x10},  {7, 0},
                   {8, 0x80},  {8, 0xff},  {16, 0x10}, {18, 0x80}, {19, 8},   {20, 0xff}, {20, 0x3c},
                   {24, 0x80}, {24, 0x7f}, {24, 0xff}, {26, 1},    {26, 0xfe}};

START_TEST(headers)
{
    struct message m = compose("name", 4, "data", 4);

    m.bytes[bad_headers[_i].at] = bad_headers[_i].value;
    expect_refused(&m, TRANSFER_MALFORMED);
}
END_TEST

START_TEST(damaged)
{
    struct message m = compose("file", 4, "first", 5);

    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    m = compose("file", 4, "wrong", 5);
    m.bytes[(size_t)_i < 5 ? m.data_at + (size_t)_i : m.digest_at + (size_t)_i - 5] ^= 1;
    expect_refused(&m, TRANSFER_DIFFERS);
    expect_stored("file", "first", 5);
}
END_TEST

START_TEST(cut_short)
{
    struct message m = compose("file", 4, "some data", 9);

    m.length = (size_t)_i;
    feed(&m, m.length);
    ck_assert_uint_eq(intake.reply_length, 0);
    expect_absent("file");
    ck_assert_int_eq(intake_idle(&intake), _i == 0);
}
END_TEST

START_TEST(longest_name)
{
    char name[TRANSFER_PATH_MAX + 1];

    memset(name, 'n', sizeof(name));
    struct message m = compose(name, TRANSFER_NAME_MAX, "x", 1);
    ck_assert_uint_eq(feed(&m, 100), m.length);
    expect_reply(TRANSFER_STORED);
    m = as_version_1(m);
    ck_assert_uint_eq(feed(&m, 100), m.length);
    expect_reply(TRANSFER_STORED);
    for (int i = TRANSFER_NAME_MAX; i < TRANSFER_PATH_MAX; i += TRANSFER_NAME_MAX + 1)
        name[i] = '/';
    m = compose(name, TRANSFER_PATH_MAX, "x", 1);
    m.bytes[TRANSFER_HEADER] = 'm'; /* the existing name is not that of a folder */
    feed(&m, 100);
    expect_reply(TRANSFER_STORED);
    m = compose(name, TRANSFER_PATH_MAX + 1, "x", 1);
    expect_refused(&m, TRANSFER_MALFORMED);
}
END_TEST

START_TEST(too_long_name)
{
    char name[TRANSFER_NAME_MAX + 1];

    memset(name, 'n', sizeof(name));
    struct message m = compose(name, sizeof(name), "x", 1);
    if (_i == 1)
        m = as_version_1(m);
    expect_refused(&m, _i == 1 ? TRANSFER_MALFORMED : TRANSFER_REFUSED);
}
END_TEST

/* ---- Details ------------------------------------------------------------------------------------------- */

/* Set-user-ID and similar bits, and permissions that the server's umask masks, are not stored. */
START_TEST(details)
{
    static const struct {
        unsigned sent, mask, kept;
    } rows[] = {{0600, 0022, 0600}, {0755, 0022, 0755}, {0666, 0022, 0644}, {07755, 0022, 0755},
                {0777, 0077, 0700}, {0, 0022, 0},       {06000, 0, 0}};
    const struct transfer_header header = {
        .mode = rows[_i].sent, .seconds = 1234567890 - 400000000 * (int64_t)_i, .nanoseconds = 999999999};
    struct message m = compose_with(&header, "file", 4, "data", 4);

    store.recent.mask = rows[_i].mask;
    ck_assert_uint_eq(intake_feed(&intake, m.bytes, m.length - 1), m.length - 1);
    ck_assert_uint_eq(status_of(".exs-0.part").st_mode,
                      S_IFREG | 0600); /* no other user may read it before it is complete */
    intake_feed(&intake, m.bytes + m.length - 1, 1);
    expect_reply(TRANSFER_STORED);
    struct stat status = status_of("file");
    ck_assert_uint_eq(status.st_mode, S_IFREG | rows[_i].kept);
    ck_assert_int_eq(status.st_mtim.tv_sec, header.seconds);
    ck_assert_int_eq(status.st_mtim.tv_nsec, header.nanoseconds);
}
END_TEST

/* Version 1 has neither details nor folders. */
START_TEST(version_1)
{
    struct message m = as_version_1(compose("file", 4, "data", 4)),
                   path = as_version_1(compose("a/b", 3, "x", 1));
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t piece = 1; piece <= m.length; piece++) {
        ck_assert_uint_eq(feed(&m, piece), m.length);
        expect_reply(TRANSFER_STORED);
    }
    expect_stored("file", "data", 4);
    ck_assert_int_ge(status_of("file").st_mtim.tv_sec, now.tv_sec - 1);
    expect_refused(&path, TRANSFER_REFUSED);
}
END_TEST

int main(void)
{
    TCase *tcase = conversations("intake");

    tcase_add_test(tcase, pieces);
    tcase_add_test(tcase, stops_at_reply);
    tcase_add_loop_test(tcase, names, 0, (int)(sizeof(bad_names) / sizeof(bad_names[0])));
    tcase_add_loop_test(tcase, headers, 0, (int)(sizeof(bad_headers) / sizeof(bad_headers[0])));
    tcase_add_loop_test(tcase, damaged, 0, 5 + TRANSFER_DIGEST);
    tcase_add_loop_test(tcase, cut_short, 0, TRANSFER_HEADER + 4 + 9 + TRANSFER_DIGEST);
    tcase_add_test(tcase, longest_name);
    tcase_add_loop_test(tcase, too_long_name, 0, 2);
    tcase_add_loop_test(tcase, details, 0, 7);
    tcase_add_test(tcase, version_1);
    return conversations_run();
}
