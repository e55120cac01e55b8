/* SPDX-License-Identifier: BSD-2-Clause */
/* test_fetch.c - tools/files/fetch.h: wrong data of a server about a file, and names that a local file may have. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check/support/fake_exs.h"
#include "check/support/runner.h"
#include "fetch_fixture.h"

#define PART ".file.exs-part"

static bool is_locked_first; /* another exs-get locks the part between openat() and flock() */

/* Replaces the function of the C library. */
int flock(int fd, int operation)
{
    if (!is_locked_first)
        return (int)syscall(SYS_flock, fd, operation);
    errno = EWOULDBLOCK;
    return -1;
}

/* ---- Files ---------------------------------------------------------------------------------------------- */

START_TEST(whole)
{
    static const size_t sizes[] = {0, 1, LARGE};
    struct stat status;

    make("file", 5); /* will be replaced */
    say_file(sizes[_i], 0);
    ck_assert_msg(get("file") == 0, "%s", fetch.client.error);
    expect_file("file", sizes[_i]);
    ck_assert_int_eq(fstatat(directory, "file", &status, 0), 0);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0644);
    ck_assert_int_eq(status.st_mtim.tv_sec, 981173106);
    ck_assert_int_eq(status.st_mtim.tv_nsec, 789);
    ck_assert_int_eq(size_of(PART), -1);
    ck_assert_int_eq(fetch.client.sock, 1);
}
END_TEST

START_TEST(in_folders)
{
    say_file(3, 0);
    ck_assert_int_eq(get("a/b/file"), 0);
    expect_file("a/b/file", 3);
    symlinkat("a", directory, "link");
    ck_assert_int_eq(get("link/file"), -1);
    ck_assert_int_eq(errno, ENOTDIR);
    ck_assert_int_eq(size_of("a/file"), -1);
}
END_TEST

/* The server sends an invalid answer: the fetch fails and leaves no file. */
START_TEST(lies)
{
    switch (_i) {
    case 0:
        say_reply(TRANSFER_REFUSED, "no \x1b[2J", 7);
        expect_failure("the server does not give it: no ?[2J");
        break;
    case 1:
        say_reply(TRANSFER_STORED, "stored", 6);
        expect_failure("the server answered something else");
        break;
    case 2:
        say_reply(TRANSFER_LISTS, "", 0);
        expect_failure("the server answered something else");
        break;
    case 3:
        say_reply(TRANSFER_LISTS + 1, "", 0);
        expect_failure("is this an exs-serve?");
        break;
    case 4:
        say_reply(TRANSFER_COMES, "short", 5);
        expect_failure("is this an exs-serve?");
        break;
    case 5:
        say_coming(UINT64_C(1) << 63, 0);
        expect_failure("a file cannot be that long");
        break;
    case 6:
        say_coming(4, 5);
        expect_failure("a file cannot be that long");
        break;
    case 7:
        say_coming(4, 4); /* the client has no part of it */
        expect_failure("there is no such place to go on");
        break;
    case 8:
        say_file(10, 0);
        stream[length - 1] ^= 1;
        expect_failure("the digests differ");
        break;
    case 9:
        say_file(10, 0);
        stream[TRANSFER_REPLY + TRANSFER_COMING] ^= 1;
        expect_failure("the digests differ");
        break;
    case 10:
        say_coming(10, 0);
        stream[TRANSFER_REPLY + 16] = 0xff; /* an invalid mode */
        expect_failure("no more than permissions");
        break;
    case 11:
        fetch.limit = 9;
        say_file(10, 0);
        expect_failure("exs-get -s says");
        break;
    default:
        say_file(10, 0);
        stream[0] = 'X';
        expect_failure("is this an exs-serve?");
    }
    ck_assert_int_eq(size_of(PART), -1);
}
END_TEST

/* The server echoes the client's header, whose version equals the status of a failure. */
START_TEST(sent_back)
{
    struct transfer_header header = {.version = TRANSFER_WANTS, .name_length = 4};

    memset(header.digest, 1, sizeof(header.digest));
    transfer_put_header(stream, &header);
    memcpy(stream + TRANSFER_HEADER, "file", 4);
    length = TRANSFER_HEADER + 4;
    expect_failure("is this an exs-serve?");
}
END_TEST

START_TEST(cut)
{
    say_file(10, 0);
    length = (size_t)_i;
    expect_failure("no answer from the server: it closed the connection");
    ck_assert_int_eq(size_of(PART), -1);
    ck_assert_uint_eq(kept, 0);
}
END_TEST

/* The client waits longer for the answer if the server must first read a part; afterwards the usual timeout applies. */
START_TEST(patience)
{
    make(PART, LANDING_KEEP);
    int fd = openat(directory, PART, O_WRONLY);

    ck_assert_int_eq(ftruncate(fd, 16 << 20), 0); /* the server may take one second to read it */
    close(fd);
    fetch.client.patience = 7;
    say_file(LARGE, 0);
    ck_assert_msg(get("file") == 0, "%s", fetch.client.error);
    expect_file("file", LARGE);
    ck_assert_int_eq(fake_limit_most, 8);
    ck_assert_int_eq(fake_limit.tv_sec, 7);
}
END_TEST

/* ---- Resuming ------------------------------------------------------------------------------------------- */

START_TEST(goes_on)
{
    say_file(LARGE, 0);
    length -= TRANSFER_DIGEST + 50;
    expect_failure("no answer from the server");
    off_t there = size_of(PART);
    ck_assert_int_eq(there, LARGE - 50); /* all received bytes were kept */
    ck_assert_uint_eq(kept, LARGE - 50);
    length = 0;
    if (_i == 0)
        say_file(LARGE, (size_t)there);
    else
        say_file(LARGE, 0); /* the server's file was replaced in the meantime */
    fetch.client.sock = 1;
    ck_assert_msg(get("file") == 0, "%s", fetch.client.error);
    expect_file("file", LARGE);
    ck_assert_uint_eq(fetch.resumed, _i == 0 ? (uint64_t)there : 0);
    ck_assert_int_eq(size_of(PART), -1);
}
END_TEST

/* A part is not resumed if it is longer than the server's file, or shorter than LANDING_KEEP. */
START_TEST(goes_not_on)
{
    make(PART, _i == 0 ? LARGE : LANDING_KEEP - 1);
    say_file(10, 0);
    ck_assert_int_eq(get("file"), 0);
    expect_file("file", 10);
}
END_TEST

/* The digest includes the part. If the part is wrong, the digests differ and the part is removed. */
START_TEST(wrong_part)
{
    int fd;

    make(PART, LANDING_KEEP);
    fd = openat(directory, PART, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, "wrong", 5, 77), 5);
    close(fd);
    say_file(LARGE, LANDING_KEEP);
    expect_failure("the digests differ");
    ck_assert_int_eq(size_of(PART), -1);
}
END_TEST

/* If the temporary name belongs to another user or is a link, the fetch fails and does not change it. */
START_TEST(foreign_part)
{
    static const int errors[] = {EEXIST, EEXIST, EEXIST, EEXIST, EBUSY};
    int fd = -1;

    make("other", LANDING_KEEP);
    if (_i == 0)
        symlinkat("other", directory, PART);
    else if (_i == 1)
        linkat(directory, "other", directory, PART, 0);
    else if (_i == 2)
        mkdirat(directory, PART, 0700);
    else if (_i == 3)
        mkfifoat(directory, PART, 0600);
    else {
        make(PART, LANDING_KEEP);
        fd = openat(directory, PART, O_RDWR);
        ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    }
    say_file(10, 0);
    ck_assert_int_eq(get("file"), -1);
    ck_assert_int_eq(errno, errors[_i]);
    expect_file("other", LANDING_KEEP);
    ck_assert_int_ne(size_of(PART), -1);
    ck_assert_int_eq(size_of("file"), -1);
    if (fd != -1)
        close(fd);
}
END_TEST

/* If another exs-get locks a new part first, this one fails and does not remove the part. */
START_TEST(part_is_lost)
{
    struct landing landing;

    say_file(10, 0);
    serve();
    ck_assert_int_eq(landing_open(&landing, &recent, directory, "file"), 0);
    is_locked_first = true;
    ck_assert_int_eq(fetch_file(&fetch, "file", &landing), -1);
    landing_end(&landing);
    is_locked_first = false;
    ck_assert_msg(strstr(fetch.client.error, "another exs-get") != NULL, "said: %s", fetch.client.error);
    ck_assert_int_eq(size_of(PART), 0);
    ck_assert_int_eq(size_of("file"), -1);
}
END_TEST

/* ---- Names ---------------------------------------------------------------------------------------------- */

/* A file with the longest permitted name can be fetched. */
START_TEST(longest_name)
{
    char name[TRANSFER_NAME_MAX + 1];

    memset(name, 'n', TRANSFER_NAME_MAX);
    name[TRANSFER_NAME_MAX] = '\0';
    say_file(LARGE, 0);
    ck_assert_int_eq(get(name), 0);
    expect_file(name, LARGE);
}
END_TEST

/* A name that is too long is reported before the transfer, not at the rename. */
START_TEST(too_long_name)
{
    char name[TRANSFER_NAME_MAX + 2];
    struct landing landing;

    memset(name, 'n', TRANSFER_NAME_MAX + 1);
    name[TRANSFER_NAME_MAX + 1] = '\0';
    ck_assert_int_eq(landing_open(&landing, &recent, directory, name), -1);
    ck_assert_int_eq(errno, ENAMETOOLONG);
    landing_end(&landing);
}
END_TEST

/* If the name belongs to a folder, a device or a pipe, this is reported before the request, and it is not changed. */
START_TEST(name_is_taken)
{
    struct landing landing;
    struct stat status;

    mkdirat(directory, "file", 0700);
    ck_assert_int_eq(landing_open(&landing, &recent, directory, "file"), -1);
    ck_assert_int_eq(errno, EISDIR);
    landing_end(&landing);
    ck_assert_int_eq(mkfifoat(directory, "pipe", 0600), 0);
    ck_assert_int_eq(landing_open(&landing, &recent, directory, "pipe"), -1);
    ck_assert_int_eq(errno, ENODEV);
    landing_end(&landing);
    ck_assert(fstatat(directory, "pipe", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISFIFO(status.st_mode));
}
END_TEST

/* Another process creates a folder of this name during the transfer. */
START_TEST(name_is_taken_meanwhile)
{
    struct landing landing;

    say_file(10, 0);
    ck_assert_int_eq(landing_open(&landing, &recent, directory, "file"), 0);
    mkdirat(directory, "file", 0700);
    serve();
    ck_assert_int_eq(fetch_file(&fetch, "file", &landing), -1);
    ck_assert_ptr_nonnull(strstr(fetch.client.error, "cannot write"));
    landing_end(&landing);
    ck_assert_int_eq(size_of(PART), -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fetch");
    TCase *tcase = fetch_case(suite, "files");

    tcase_add_loop_test(tcase, whole, 0, 3);
    tcase_add_test(tcase, in_folders);
    tcase_add_loop_test(tcase, lies, 0, 13);
    tcase_add_test(tcase, sent_back);
    tcase_add_loop_test(tcase, cut, 0, TRANSFER_REPLY + TRANSFER_COMING + 10 + TRANSFER_DIGEST);
    tcase_add_test(tcase, patience);
    tcase_add_loop_test(tcase, goes_on, 0, 2);
    tcase_add_loop_test(tcase, goes_not_on, 0, 2);
    tcase_add_test(tcase, wrong_part);
    tcase_add_loop_test(tcase, foreign_part, 0, 5);
    tcase_add_test(tcase, part_is_lost);
    tcase_add_test(tcase, longest_name);
    tcase_add_test(tcase, too_long_name);
    tcase_add_test(tcase, name_is_taken);
    tcase_add_test(tcase, name_is_taken_meanwhile);
    return run_suite(suite);
}
