/* SPDX-License-Identifier: BSD-2-Clause */
/* test_intake_folders.c - where the server stores files: names with folders, existing names, and folders that change
 * during a transfer. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conversation.h"

/* ---- A peer that changes data after sending them, and a folder that changes ---------------------------- */

static void *still_writable; /* memory that the peer changes while pwrite() runs; or NULL */
static bool excl_is_ignored; /* like a file system without O_EXCL */

/* Replaces the function of the C library. */
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
    if (still_writable != NULL)
        memset(still_writable, 'X', 1);
    return (ssize_t)syscall(SYS_pwrite64, fd, data, length, offset);
}

int openat(int directory, const char *path, int flags, ...)
{
    va_list rest;

    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;

    va_end(rest);
    return (int)syscall(SYS_openat, directory, path, excl_is_ignored ? flags & ~O_EXCL : flags, mode);
}

static int synced, sync_fails; /* number of calls of fsync(); number of the call that fails */

int fsync(int fd)
{
    (void)fd;
    errno = EIO;
    return ++synced == sync_fails ? -1 : 0;
}

/* ---- Folders ------------------------------------------------------------------------------------------- */

START_TEST(folders)
{
    struct message deep = compose("a/b/c/file", 10, "deep", 4), beside = compose("a/b/other", 9, "beside", 6);
    struct message cut = compose("x/y", 3, "data", 4), again = compose("a/b/c/file", 10, "again", 5);

    intake_feed(&intake, deep.bytes, deep.length - 1);
    expect_absent("a"); /* not created before a file needs it */
    intake_feed(&intake, deep.bytes + deep.length - 1, 1);
    expect_reply(TRANSFER_STORED);
    expect_stored("a/b/c/file", "deep", 4);
    feed(&beside, 1);
    expect_reply(TRANSFER_STORED);
    expect_stored("a/b/other", "beside", 6);
    feed(&again, again.length);
    expect_reply(TRANSFER_STORED);
    expect_stored("a/b/c/file", "again", 5);
    ck_assert_uint_eq(store.files, 3 + 3); /* files and their folders */
    cut.bytes[cut.digest_at] ^= 1;
    expect_refused(&cut, TRANSFER_DIFFERS);
    expect_absent("x");
}
END_TEST

static void store_in(const char *name, const char *data)
{
    struct message m = compose(name, strlen(name), data, strlen(data));

    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    expect_stored(name, data, strlen(data));
}

/* The server keeps the folder of the last file open, but only until it has handled the events of one iteration. */
START_TEST(folder_of_last_file)
{
    static const char *const names[] = {"a/b/one", "a/b/two", "a/c/two", "b/b/two", "top", "a/b/three"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        store_in(names[i], names[i]);
    ck_assert_int_ne(store.recent.fd, -1);
    recent_forget(&store.recent);
    ck_assert_int_eq(store.recent.fd, -1);
    ck_assert_int_eq(renameat(store.directory, "a", store.directory, "old"), 0);
    store_in("a/b/four", "four");
    expect_absent("old/b/four");
}
END_TEST

/* Permissions are those of each file's own folder, also if another folder was the last. */
START_TEST(permits_of_last_folder)
{
    static const struct {
        const char *name;
        unsigned mask, mode;
    } rows[] = {{"a/one", 077, 0700},
                {"a/two", 077, 0700},
                {"b/one", 027, 0750},
                {"b/two", 027, 0750},
                {"a/three", 027, 0750}};
    const struct transfer_header header = {.mode = 0777};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct message m = compose_with(&header, rows[i].name, strlen(rows[i].name), "data", 4);

        store.recent.mask = rows[i].mask;
        feed(&m, m.length);
        expect_reply(TRANSFER_STORED);
        ck_assert_uint_eq(status_of(rows[i].name).st_mode, S_IFREG | rows[i].mode);
    }
}
END_TEST

/* A component of the path is a link, to a folder or dangling, or a file, from the start or since the transfer began. */
START_TEST(no_folder)
{
    struct message m = compose("a/b/file", 8, "data", 4);
    bool later = _i >= 3;

    ck_assert_int_eq(mkdirat(store.directory, "a", 0700), 0);
    ck_assert_int_eq(mkdirat(store.directory, "outside", 0700), 0);
    if (later)
        intake_feed(&intake, m.bytes, m.data_at);
    if (_i % 3 == 0)
        ck_assert_int_eq(symlinkat("../outside", store.directory, "a/b"), 0);
    else if (_i % 3 == 1)
        ck_assert_int_eq(symlinkat("../nowhere", store.directory, "a/b"), 0);
    else
        close(openat(store.directory, "a/b", O_CREAT | O_WRONLY, 0600));
    if (later) {
        m.length -= m.data_at;
        memmove(m.bytes, m.bytes + m.data_at, m.length);
        feed(&m, m.length);
        expect_reply(TRANSFER_FAILED);
    } else {
        intake_feed(&intake, m.bytes, m.data_at); /* before its data are sent */
        expect_reply(TRANSFER_FAILED);
    }
    expect_absent("outside/file");
    expect_absent("nowhere");
    ck_assert_uint_eq(store.files, 0);
}
END_TEST

START_TEST(too_many_folders)
{
    char name[2 * TRANSFER_FOLDERS_MAX + 3];
    struct message m;

    store.limits.files = 2 * TRANSFER_FOLDERS_MAX;
    for (size_t i = 0; i < sizeof(name); i++)
        name[i] = i % 2 == 0 ? 'n' : '/';
    m = compose(name, 2 * TRANSFER_FOLDERS_MAX + 1, "x", 1);
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    m = compose(name, 2 * TRANSFER_FOLDERS_MAX + 3, "x", 1);
    expect_refused(&m, TRANSFER_REFUSED);
}
END_TEST

/* Created folders count against the limit on files. */
START_TEST(folders_limit)
{
    struct message m = compose("a/b/c/d", 7, "x", 1);

    store.limits.files = 3;
    feed(&m, m.length);
    ck_assert_msg(strstr(intake_text(&intake), "exs-serve -n") != NULL, "said: %s", intake_text(&intake));
    expect_reply(TRANSFER_FAILED);
    expect_absent("a/b/c");
    ck_assert_uint_eq(store.files, 2); /* a and b were created */
}
END_TEST

START_TEST(targets)
{
    struct message m = compose("folder", 6, "data", 4), link = compose("link", 4, "data", 4);
    struct message into = compose("into", 4, "data", 4);

    ck_assert_int_eq(symlinkat("outside", store.directory, "link"), 0);
    feed(&link, link.length);
    expect_reply(TRANSFER_STORED);
    expect_stored("link", "data", 4);
    expect_absent("outside");
    ck_assert_int_eq(mkdirat(store.directory, "folder", 0700), 0);
    ck_assert_int_eq(symlinkat("folder", store.directory, "into"), 0);
    feed(&into, into.length);
    expect_reply(TRANSFER_STORED);
    expect_stored("into", "data", 4); /* replaces the link, not its target */
    intake_feed(&intake, m.bytes, m.data_at);
    ck_assert_msg(strstr(intake_text(&intake), "directory") != NULL, "said: %s", intake_text(&intake));
    expect_reply(TRANSFER_FAILED);
}
END_TEST

/* A pipe is not replaced, whether it existed before the transfer or was created during it. If possible, the client is
 * refused before it sends its data. */
START_TEST(no_file)
{
    struct message m = compose("pipe", 4, "data", 4);
    struct stat status;

    if (_i == 1) {
        intake_feed(&intake, m.bytes, m.data_at);
        m.length -= m.data_at;
        memmove(m.bytes, m.bytes + m.data_at, m.length);
    } else {
        m.length = m.data_at;
    }
    ck_assert_int_eq(mkfifoat(store.directory, "pipe", 0600), 0);
    feed(&m, m.length);
    ck_assert_msg(strstr(intake_text(&intake), "no file") != NULL, "said: %s", intake_text(&intake));
    expect_reply(TRANSFER_FAILED);
    ck_assert_int_eq(fstatat(store.directory, "pipe", &status, AT_SYMLINK_NOFOLLOW), 0);
    ck_assert(S_ISFIFO(status.st_mode));
    ck_assert_uint_eq(store.files, 0);
    unlinkat(store.directory, "pipe", 0);
}
END_TEST

START_TEST(directory)
{
    struct store second;

    ck_assert_int_eq(store_open(&second, folder, &limits), -1);
    ck_assert_int_eq(errno, EBUSY);
    store_close(&store);
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    close(openat(fd, ".exs-12.part", O_CREAT | O_WRONLY, 0600));
    close(openat(fd, ".exs-12.parts", O_CREAT | O_WRONLY, 0600));
    close(fd);
    ck_assert_int_eq(store_open(&store, folder, &limits), 0);
    expect_absent(".exs-12.part");
    expect_stored(".exs-12.parts", "", 0);
    unlinkat(store.directory, ".exs-12.parts", 0);
    ck_assert_int_eq(store_open(&second, "does-not-exist", &limits), -1);
}
END_TEST

/* The stored bytes are those that were hashed, even if the client changes the received bytes. */
START_TEST(changed_after_hashing)
{
    struct message m = compose("file", 4, "steady", 6);

    still_writable = m.bytes + m.data_at;
    feed(&m, m.length);
    ck_assert_int_eq(m.bytes[m.data_at], 'X');
    expect_reply(TRANSFER_STORED);
    expect_stored("file", "steady", 6);
}
END_TEST

static void expect_untouched(const char *name)
{
    struct message m = compose("file", 4, "data", 4);

    feed(&m, m.length);
    intake.reply_length = 0;
    expect_stored(name, "", 0);
}

/* If the temporary name belongs to another program's file, the server uses another name. */
START_TEST(temporary_exists)
{
    close(openat(store.directory, ".exs-0.part", O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(linkat(store.directory, ".exs-0.part", store.directory, "mine", 0), 0);
    expect_untouched("mine");
    expect_stored("file", "data", 4);
    expect_stored(".exs-0.part", "", 0);
    unlinkat(store.directory, ".exs-0.part", 0);
}
END_TEST

/* A server on another host, to which the lock does not extend, has removed the temporary file, and may have created one
 * with the same name. The server must not rename that one. */
START_TEST(temporary_is_anothers)
{
    struct message m = compose("file", 4, "data", 4);

    intake_feed(&intake, m.bytes, m.length - 1);
    ck_assert_int_eq(unlinkat(store.directory, ".exs-0.part", 0), 0);
    if (_i == 1)
        close(openat(store.directory, ".exs-0.part", O_CREAT | O_WRONLY, 0600));
    intake_feed(&intake, m.bytes + m.length - 1, 1);
    ck_assert_msg(strstr(intake_text(&intake), "another exs-serve") != NULL, "said: %s", intake_text(&intake));
    expect_reply(TRANSFER_FAILED);
    expect_absent("file");
    ck_assert_uint_eq(store.files, 0);
    if (_i == 1)
        expect_stored(".exs-0.part", "", 0);
    unlinkat(store.directory, ".exs-0.part", 0);
}
END_TEST

/* The temporary name is a link to a file elsewhere, on a file system without O_EXCL. */
START_TEST(temporary_is_link)
{
    close(openat(store.directory, "mine", O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(symlinkat("mine", store.directory, ".exs-0.part"), 0);
    excl_is_ignored = true;
    expect_untouched("mine");
    unlinkat(store.directory, ".exs-0.part", 0);
}
END_TEST

/* With -y the file and the folders on its path are on the disk before the reply. */
START_TEST(syncs)
{
    struct message m = compose("a/b/file", 8, "data", 4);
    enum { FILE_FIRST = 1, FOLDERS = 3 };

    sync_fails = _i;
    store.limits.syncs = true;
    feed(&m, m.length);
    expect_reply(_i == 0 ? TRANSFER_STORED : TRANSFER_FAILED);
    ck_assert_int_eq(synced, _i == 0 ? FILE_FIRST + FOLDERS : _i);
    if (_i == FILE_FIRST)
        expect_absent("a");
    else
        expect_stored("a/b/file", "data", 4);
    ck_assert_uint_eq(store.bytes, _i == FILE_FIRST ? 0 : 4); /* bytes of stored files count */
    ck_assert_uint_eq(store.files, _i == FILE_FIRST ? 0 : 3);
    m = compose("other", 5, "data", 4);
    store.limits.syncs = false;
    intake_close(&intake);
    ck_assert_int_eq(intake_open(&intake, &store, &client), 0);
    feed(&m, m.length);
    expect_reply(TRANSFER_STORED);
    ck_assert_int_eq(synced, _i == 0 ? FILE_FIRST + FOLDERS : _i);
}
END_TEST

/* A file that is longer than the copy buffer. */
START_TEST(long_file)
{
    enum { SIZE = 1 << 20, MORE = 77 };
    const struct transfer_header header = {.name_length = 4, .size = SIZE + MORE};
    unsigned char *bytes = malloc(TRANSFER_HEADER + 4 + header.size + TRANSFER_DIGEST), *data;
    XXH3_state_t *state = XXH3_createState();

    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, "long", 4);
    data = bytes + TRANSFER_HEADER + 4;
    for (size_t i = 0; i < header.size; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, data, header.size);
    transfer_digest(state, data + header.size);
    XXH3_freeState(state);
    for (size_t piece = SIZE / 3; piece < 2 * SIZE; piece *= 3) {
        size_t length = TRANSFER_HEADER + 4 + header.size + TRANSFER_DIGEST;

        for (size_t done = 0; done < length;)
            done += intake_feed(&intake, bytes + done, length - done < piece ? length - done : piece);
        expect_reply(TRANSFER_STORED);
        /* The mode in the header is 0, so the owner could not read the file. */
        ck_assert_int_eq(fchmodat(store.directory, "long", 0600, 0), 0);
        int fd = openat(store.directory, "long", O_RDONLY);
        unsigned char *stored = malloc(header.size);

        ck_assert_int_eq(read(fd, stored, header.size), (ssize_t)header.size);
        ck_assert_int_eq(memcmp(stored, data, header.size), 0);
        free(stored);
        close(fd);
    }
    free(bytes);
}
END_TEST

int main(void)
{
    TCase *tcase = conversations("intake: folders");

    tcase_add_test(tcase, folders);
    tcase_add_test(tcase, folder_of_last_file);
    tcase_add_test(tcase, permits_of_last_folder);
    tcase_add_loop_test(tcase, no_folder, 0, 6);
    tcase_add_test(tcase, too_many_folders);
    tcase_add_test(tcase, folders_limit);
    tcase_add_test(tcase, targets);
    tcase_add_loop_test(tcase, no_file, 0, 2);
    tcase_add_test(tcase, directory);
    tcase_add_test(tcase, changed_after_hashing);
    tcase_add_test(tcase, temporary_exists);
    tcase_add_loop_test(tcase, temporary_is_anothers, 0, 2);
    tcase_add_test(tcase, temporary_is_link);
    tcase_add_loop_test(tcase, syncs, 0, 5);
    tcase_add_test(tcase, long_file);
    return conversations_run();
}
