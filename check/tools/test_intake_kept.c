/* SPDX-License-Identifier: BSD-2-Clause */
/* test_intake_kept.c - unfinished files that the server keeps and resumes, and its limits. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conversation.h"

static int failing; /* errno with which the next call that shall fail does so */
static bool write_fails, rename_fails;

/* Replaces the function of the C library. */
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
    if (!write_fails)
        return (ssize_t)syscall(SYS_pwrite64, fd, data, length, offset);
    write_fails = false;
    errno = failing;
    return -1;
}

int renameat(int from, const char *name, int to, const char *other)
{
    if (!rename_fails)
        return (int)syscall(SYS_renameat2, from, name, to, other, 0);
    rename_fails = false;
    errno = failing;
    return -1;
}

/* ---- Unfinished files ---------------------------------------------------------------------------------- */

static const struct transfer_header asking = {
    .asks = true, .mode = 0640, .seconds = 1000000000, .nanoseconds = 5};

/* Sends the header and name with TRANSFER_ASKS. Returns the offset at which the server would resume. */
static uint64_t ask(const struct message *m)
{
    struct transfer_reply reply;
    unsigned char digest[TRANSFER_DIGEST];
    XXH3_state_t *state = XXH3_createState();

    ck_assert_uint_eq(intake_feed(&intake, m->bytes, m->data_at), m->data_at);
    ck_assert_uint_eq(intake.reply_length, TRANSFER_REPLY + TRANSFER_OFFSET);
    ck_assert(transfer_get_reply(intake.reply, &reply));
    ck_assert_int_eq(reply.status, TRANSFER_GO);
    uint64_t there = transfer_get_offset(intake.reply + TRANSFER_REPLY);
    ck_assert_uint_le(there, m->digest_at - m->data_at);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, m->bytes + m->data_at, there);
    transfer_digest(state, digest);
    XXH3_freeState(state);
    ck_assert_int_eq(memcmp(reply.digest, digest, TRANSFER_DIGEST), 0);
    intake.reply_length = 0;
    return there;
}

static void say_offset(uint64_t offset)
{
    unsigned char bytes[TRANSFER_OFFSET];

    transfer_put_offset(bytes, offset);
    ck_assert_uint_eq(intake_feed(&intake, bytes, sizeof(bytes)), sizeof(bytes));
}

static void say_rest(const struct message *m, uint64_t from, size_t cut)
{
    intake_feed(&intake, m->bytes + m->data_at + from, m->length - m->data_at - from - cut);
}

static void hang_up(void)
{
    intake_close(&intake);
    ck_assert_int_eq(intake_open(&intake, &store, &client), 0);
}

/* Sends this number of bytes of the message's data, then disconnects. */
static void break_off(const struct message *m, size_t bytes)
{
    store.limits.keep = 10;
    ask(m);
    say_offset(0);
    intake_feed(&intake, m->bytes + m->data_at, bytes);
    hang_up();
}

START_TEST(go_on)
{
    struct message m = compose_with(&asking, "a/file", 6, "0123456789", 10);

    break_off(&m, (size_t)_i);
    ck_assert_uint_eq(store.bytes, _i);
    ck_assert_uint_eq(ask(&m), _i);
    say_offset((uint64_t)_i);
    say_rest(&m, (uint64_t)_i, 0);
    expect_reply(TRANSFER_STORED);
    expect_stored("a/file", "0123456789", 10);
    ck_assert_uint_eq(status_of("a/file").st_mode, S_IFREG | (0640 & ~store.recent.mask));
    ck_assert_uint_eq(store.bytes, 10);
    ck_assert_uint_eq(store.files, 2);
    ck_assert_int_eq(store.kept_count, 0);
}
END_TEST

/* The client's file was changed since the first attempt. */
START_TEST(go_on_from_0)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10);
    struct message other = compose_with(&asking, "file", 4, "abcdefghij", 10);

    break_off(&m, 7);
    ck_assert_uint_eq(ask(&m), 7);
    say_offset(0);
    say_rest(&other, 0, 0);
    expect_reply(TRANSFER_STORED);
    expect_stored("file", "abcdefghij", 10);
    ck_assert_uint_eq(store.bytes, 10);
}
END_TEST

START_TEST(go_on_elsewhere)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10);
    static const uint64_t places[] = {1, 6, 8, 10, 11, UINT64_MAX};

    break_off(&m, 7);
    ck_assert_uint_eq(ask(&m), 7);
    say_offset(places[_i]);
    expect_reply(TRANSFER_MALFORMED);
    ck_assert_uint_eq(store.bytes, 0);
}
END_TEST

/* A client on another host that knows name, size and time of a kept file can neither detect nor take it. */
START_TEST(another_host)
{
    struct sockaddr_in *address = (struct sockaddr_in *)&client;
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10);

    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
    break_off(&m, 7);
    address->sin_addr.s_addr = htonl(0x0a000002);
    ck_assert_uint_eq(ask(&m), 0);
    hang_up();
    ck_assert_int_eq(store.kept_count, 1);
    address->sin_addr.s_addr = htonl(0x0a000001);
    address->sin_port = htons(1); /* connections of one host differ in the port */
    ck_assert_uint_eq(ask(&m), 7);
    say_offset(7);
    say_rest(&m, 7, 0);
    expect_reply(TRANSFER_STORED);
    expect_stored("file", "0123456789", 10);
}
END_TEST

/* A file of another size or time is a different file; two clients do not get the same kept file. */
START_TEST(another_file)
{
    struct transfer_header later = asking;
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10), same = m;

    break_off(&m, 7);
    later.nanoseconds++;
    m = compose_with(&later, "file", 4, "0123456789", 10);
    ck_assert_uint_eq(ask(&m), 0);
    hang_up();
    m = compose_with(&asking, "file", 4, "01234567890", 11);
    ck_assert_uint_eq(ask(&m), 0);
    hang_up();
    m = compose_with(&asking, "fila", 4, "0123456789", 10);
    ck_assert_uint_eq(ask(&m), 0);
    hang_up();
    ck_assert_uint_eq(ask(&same), 7);
    ck_assert_int_eq(store.kept_count, 0);
    hang_up(); /* the file is kept again */
    ck_assert_uint_eq(ask(&same), 7);
}
END_TEST

/* A file with a wrong digest, or without TRANSFER_ASKS, is not kept; a kept file is removed after its time. */
START_TEST(not_kept)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10),
                   plain = compose("plain", 5, "data", 4);

    store.limits.keep = 10;
    m.bytes[m.digest_at] ^= 1;
    ask(&m);
    say_offset(0);
    say_rest(&m, 0, 0);
    expect_reply(TRANSFER_DIFFERS);
    hang_up();
    intake_feed(&intake, plain.bytes, plain.length - 1);
    hang_up();
    ck_assert_int_eq(store.kept_count, 0);
    break_off(&m, 7);
    for (int seconds = 0; seconds < 10; seconds++)
        kept_second(&store);
    ck_assert_int_eq(store.kept_count, 1);
    kept_second(&store);
    ck_assert_int_eq(store.kept_count, 0);
    ck_assert_uint_eq(store.bytes, 0);
    store.limits.keep = 0;
    ask(&m);
    say_offset(0);
    say_rest(&m, 0, TRANSFER_DIGEST + 1);
    hang_up();
    ck_assert_int_eq(store.kept_count, 0);
}
END_TEST

/* The file of a client that was disconnected because it was slow is kept. */
START_TEST(turned_out)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10);

    store.limits.keep = 10;
    ask(&m);
    say_offset(0);
    intake_feed(&intake, m.bytes + m.data_at, 6);
    intake_refuse(&intake, "too slow");
    expect_reply(TRANSFER_REFUSED);
    hang_up();
    ck_assert_uint_eq(ask(&m), 6);
}
END_TEST

/* Kept files are dropped when other files need their bytes, places or descriptors. */
START_TEST(kept_gives_way)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10),
                   other = compose("other", 5, "12345", 5);
    char name[16];

    store.limits.total = 10;
    break_off(&m, 7);
    feed(&other, other.length);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(store.bytes, 5);
    store.limits.total = 1000;
    store.limits.files = 2;
    break_off(&m, 7);
    feed(&other, other.length);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(store.files, 2);
    store.limits.files = 1000;
    for (int i = 0; i < KEPT_MAX + 2; i++) {
        int length = snprintf(name, sizeof(name), "file-%d", i);

        m = compose_with(&asking, name, (size_t)length, "0123456789", 10);
        break_off(&m, 1);
    }
    ck_assert_int_eq(store.kept_count, KEPT_MAX);
    ck_assert_uint_eq(store.bytes, 10 + KEPT_MAX);
}
END_TEST

/* A header alone, of a file of any size, does not drop kept files. */
START_TEST(kept_until_data_comes)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10),
                   other = compose("other", 5, "12345678", 8);

    store.limits.total = 10;
    break_off(&m, 7);
    ck_assert_uint_eq(intake_feed(&intake, other.bytes, other.data_at), other.data_at);
    hang_up();
    ck_assert_int_eq(store.kept_count, 1);
    ck_assert_uint_eq(ask(&m), 7);
    hang_up();
    feed(&other, other.length);
    expect_reply(TRANSFER_STORED);
    ck_assert_int_eq(store.kept_count, 0);
    ck_assert_uint_eq(store.bytes, 8);
}
END_TEST

/* Many short unfinished files do not displace longer ones. */
START_TEST(longest_are_kept)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10), shorter;
    char name[16];

    break_off(&m, 7);
    for (int i = 0; i < KEPT_MAX + 2; i++) {
        int length = snprintf(name, sizeof(name), "file-%d", i);

        shorter = compose_with(&asking, name, (size_t)length, "0123456789", 10);
        break_off(&shorter, 6);
    }
    shorter = compose_with(&asking, "short", 5, "0123456789", 10);
    break_off(&shorter, 5);
    ck_assert_int_eq(store.kept_count, KEPT_MAX);
    ck_assert_uint_eq(ask(&shorter), 0);
    hang_up();
    ck_assert_uint_eq(ask(&m), 7);
}
END_TEST

/* The kept bytes of a resumed file count once against the limits. */
START_TEST(go_on_within_limits)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10);

    store.limits.total = 10;
    store.limits.files = 1;
    break_off(&m, 7);
    ck_assert_uint_eq(ask(&m), 7);
    say_offset(7);
    say_rest(&m, 7, 0);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(store.bytes, 10);
}
END_TEST

static void expect_text(const char *part)
{
    ck_assert_msg(strstr(intake_text(&intake), part) != NULL, "said: %s", intake_text(&intake));
}

/* A file beyond a limit is refused before the client sends its data. */
START_TEST(file_limit)
{
    struct message m = compose("most", 4, "12345", 5), more = compose("more", 4, "123456", 6);

    store.limits.file = 5;
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(intake_feed(&intake, more.bytes, more.data_at), more.data_at);
    expect_text("a file may have 5 bytes");
    expect_refused(&more, TRANSFER_REFUSED);
    expect_absent("more");
}
END_TEST

START_TEST(total_limit)
{
    struct message m = compose("one", 3, "12345", 5), cut = compose("cut", 3, "123", 3);
    struct message more = compose("more", 4, "1234", 4);

    store.limits.total = 8;
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    cut.bytes[cut.digest_at] ^= 1; /* a file that is not stored does not count */
    feed(&cut, cut.length);
    expect_reply(TRANSFER_DIFFERS);
    ck_assert_uint_eq(store.bytes, 5);
    intake_close(&intake);
    intake_open(&intake, &store, &client);
    feed(&more, more.length);
    expect_text("3 bytes are left");
    expect_refused(&more, TRANSFER_REFUSED);
    ck_assert_uint_eq(store.bytes, 5);
    ck_assert_uint_eq(store.files, 1);
}
END_TEST

/* Two files that each fit, but not together: the second to use the remaining space is refused during its transfer, the
 * first is stored. */
START_TEST(total_limit_meanwhile)
{
    struct message m = compose("one", 3, "12345", 5), other = compose("two", 3, "123456", 6);
    struct intake second;

    store.limits.total = 8;
    ck_assert_int_eq(intake_open(&second, &store, &client), 0);
    ck_assert_uint_eq(intake_feed(&second, other.bytes, other.data_at + 2), other.data_at + 2);
    ck_assert_uint_eq(intake_feed(&intake, m.bytes, m.length - 1), m.length - 1);
    ck_assert_uint_gt(intake_feed(&second, other.bytes + other.data_at + 2, 4), 0);
    ck_assert_msg(strstr(intake_text(&second), "bytes are left") != NULL, "%s", intake_text(&second));
    ck_assert_int_eq(second.state, INTAKE_REFUSED);
    intake_close(&second);
    intake_feed(&intake, m.bytes + m.length - 1, 1);
    expect_reply(TRANSFER_STORED);
    ck_assert_uint_eq(store.bytes, 5);
    expect_absent("two");
}
END_TEST

START_TEST(count_limit)
{
    struct message m = compose("one", 3, "1", 1), more = compose("more", 4, "2", 1);
    struct intake second;

    store.limits.files = 1;
    ck_assert_int_eq(intake_open(&second, &store, &client), 0);
    intake_feed(&second, more.bytes, TRANSFER_HEADER);
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    intake_feed(&second, more.bytes + TRANSFER_HEADER, more.length - TRANSFER_HEADER);
    ck_assert_int_eq(second.result.status, TRANSFER_REFUSED);
    intake_close(&second);
    feed(&more, more.length);
    expect_text("taken 1 files");
    expect_refused(&more, TRANSFER_REFUSED);
    expect_absent("more");
}
END_TEST

/* The disk or the user's quota is full before the server's limits are reached: kept files are dropped; then the client
 * gets the error of the disk. */
START_TEST(disk_limit)
{
    struct message m = compose_with(&asking, "file", 4, "0123456789", 10),
                   other = compose("other", 5, "12345", 5), more = compose("more", 4, "0123456789", 10);

    failing = _i == 0 ? ENOSPC : EDQUOT;
    store.limits.total = 20;
    break_off(&m, 7);
    write_fails = true;
    feed(&other, other.length);
    expect_reply(TRANSFER_STORED);
    ck_assert_int_eq(store.kept_count, 0);
    if (_i == 2)
        rename_fails = true;
    else
        write_fails = true;
    feed(&more, more.length);
    ck_assert_str_eq(intake_text(&intake), strerror(failing));
    expect_refused(&more, TRANSFER_FAILED);
    expect_absent("more");
    ck_assert_uint_eq(store.bytes, 5);
}
END_TEST

/* Without a limit on one file, that on all files applies, and a refusal names it. */
START_TEST(no_file_limit)
{
    struct message m = compose("most", 4, "12345", 5), more = compose("more", 4, "123456", 6);

    store.limits.file = 0;
    store.limits.total = 5;
    feed(&more, more.length);
    expect_text("5 bytes are left of what the server may take (exs-serve -S)");
    expect_refused(&more, TRANSFER_REFUSED);
    hang_up();
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
}
END_TEST

/* The default limit on all files is the free space, except a reserve. */
START_TEST(limits_by_default)
{
    const struct store_limits none = {.files = 1};
    struct statvfs status;
    uint64_t left, reserve;

    ck_assert_int_eq(fstatvfs(store.directory, &status), 0);
    left = (uint64_t)status.f_bavail * status.f_frsize;
    reserve = (uint64_t)status.f_blocks * status.f_frsize / 20;
    reserve = reserve < 1 << 30 ? reserve : 1 << 30;
    left = left > reserve ? left - reserve : 0;
    store_close(&store);
    ck_assert_int_eq(store_open(&store, folder, &none), 0);
    ck_assert_uint_ge(store.limits.total, left / 2); /* not exact, because other programs use the disk, too */
    ck_assert_uint_le(store.limits.total, left + (64 << 20));
}
END_TEST

int main(void)
{
    TCase *tcase = conversations("intake: kept");

    tcase_add_loop_test(tcase, go_on, 0, 11);
    tcase_add_test(tcase, go_on_from_0);
    tcase_add_loop_test(tcase, go_on_elsewhere, 0, 6);
    tcase_add_test(tcase, another_host);
    tcase_add_test(tcase, another_file);
    tcase_add_test(tcase, not_kept);
    tcase_add_test(tcase, turned_out);
    tcase_add_test(tcase, kept_gives_way);
    tcase_add_test(tcase, kept_until_data_comes);
    tcase_add_test(tcase, longest_are_kept);
    tcase_add_test(tcase, go_on_within_limits);
    tcase_add_test(tcase, file_limit);
    tcase_add_test(tcase, total_limit);
    tcase_add_test(tcase, total_limit_meanwhile);
    tcase_add_test(tcase, count_limit);
    tcase_add_loop_test(tcase, disk_limit, 0, 3);
    tcase_add_test(tcase, no_file_limit);
    tcase_add_test(tcase, limits_by_default);
    return conversations_run();
}
