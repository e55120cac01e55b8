/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_recvfile_full.c - exs_recvfile into files that cannot grow to the length of the data: the disk is full,
 * RLIMIT_FSIZE limits the process's files, or a seal limits this one. The next receive gets the bytes that
 * could not be written.
 */
#include "receiving.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

/* ---- A full disk --------------------------------------------------------------------- */

static void write_line(const char *path, const char *line)
{
    int fd = open(path, O_WRONLY);

    must(fd);
    must(write(fd, line, strlen(line)));
    close(fd);
}

/* Makes the user root of a new user namespace. Maps both ids, because files cannot be created with an unmapped
 * one. */
static bool enter_user_namespace(void)
{
    uid_t user = geteuid();
    gid_t group = getegid();
    char map[50];

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    snprintf(map, sizeof map, "0 %u 1", (unsigned)user);
    write_line("/proc/self/uid_map", map);
    write_line("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", (unsigned)group);
    write_line("/proc/self/gid_map", map);
    return true;
}

/* Mounts a tmpfs of this size. Returns false if the user may not mount one. */
static bool mount_small(const char *where, size_t bytes)
{
    char options[50];

    if (unshare(CLONE_NEWNS) != 0 && !enter_user_namespace())
        return false;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    snprintf(options, sizeof options, "size=%zu", bytes);
    return mount("tmpfs", where, "tmpfs", 0, options) == 0;
}

/* Without the right to mount the test is skipped; .ci/run runs it. */
static bool cannot_mount(const char *where)
{
    int why = errno;

    must(rmdir(where));
    errno = why;
    ck_assert_msg(getenv("EXS_NO_SKIP") == NULL, "can't mount a tmpfs: %s", strerror(errno));
    printf("full_disk: can't mount a tmpfs (%s): not tried\n", strerror(errno));
    return true;
}

/* The disk is full in the first window, in a later one, in a short range, or at the first byte; also with files
 * that cannot be mapped. */
static const struct {
    size_t room, length; /* bytes */
} full[] = {{1 * MIB, 3 * MIB}, {9 * MIB, 12 * MIB}, {1 * MIB, 0}, {64 * KIB, 70000}, {4096, 8000}};

static exs_xferfile_t on_full_disk(char *mount_point, int how, size_t length)
{
    char name[200];

    snprintf(name, sizeof name, "%s/file", mount_point);
    int file = open(name, (how ? O_WRONLY : O_RDWR) | O_CREAT | O_TRUNC, 0600);

    must(file);
    return by_fd(file, 0, length);
}

START_TEST(full_disk)
{
    size_t room = full[_i / 2].room, length = full[_i / 2].length, sent = room + 2 * MIB;
    char where[200], name[220];

    folder_make(&folder);
    snprintf(where, sizeof where, "%s", folder.path);
    if (!mount_small(where, room) && cannot_mount(where))
        return;
    init_library();
    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_xferfile_t one = on_full_disk(where, _i % 2, length);

    receive_files(&one, 1, EXS_BIGFILE);
    inbox_pump(pair.client_box, 5);
    uint8_t *bytes = send_pattern(sent, 0);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, ENOSPC);
    ck_assert_int_eq(length_of(&event), room);
    snprintf(name, sizeof name, "%s/file", where);
    int file = open(name, O_RDONLY);

    must(file);
    file_has_length(file, (off_t)room);
    file_has_pattern(file, 0, room, SEED, 0);
    rest_comes(room, sent - room);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    /* now the disk has space again, and a receive succeeds */
    must(ftruncate(one.exs_xfv.exs_fdv.exs_fildes, 0));
    one.exs_xfv.exs_fdv.exs_length = 4096;
    receive_files(&one, 1, 0);
    uint8_t *more = send_pattern(4096, 0);

    take_good(pair.server_box, EXS_EVT_RECVFILE, pair.server);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    free(bytes);
    free(more);
    close(one.exs_xfv.exs_fdv.exs_fildes);
    close(file);
    pair_close(&pair);
    must(umount2(where, MNT_DETACH));
    must(rmdir(where));
}
END_TEST

/* The rest of a message that does not fit on the disk is lost; the connection continues. */
START_TEST(message_to_full_disk)
{
    folder_make(&folder);
    if (!mount_small(folder.path, 64 * KIB) && cannot_mount(folder.path))
        return;
    init_library();
    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    exs_xferfile_t one = on_full_disk(folder.path, 0, 200000);

    receive_files(&one, 1, 0);
    uint8_t *bytes = send_pattern(100000, 0);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, ENOSPC);
    ck_assert_int_eq(length_of(&event), 64 * KIB);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    file_has_pattern(one.exs_xfv.exs_fdv.exs_fildes, 0, 64 * KIB, SEED, 0);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
    free(bytes);
    close(one.exs_xfv.exs_fdv.exs_fildes);
    pair_close(&pair);
    must(umount2(folder.path, MNT_DETACH));
    must(rmdir(folder.path));
}
END_TEST

/* ---- A read-only disk ------------ */

/* By path, because a file on a read-only disk cannot be open for writing. The next receive gets the data. */
START_TEST(read_only)
{
    char name[200];

    folder_make(&folder);
    if (!mount_small(folder.path, 64 * KIB) && cannot_mount(folder.path))
        return;
    must(mount(NULL, folder.path, NULL, MS_REMOUNT | MS_RDONLY, NULL));
    init_library();
    pair_open(&pair, AF_INET, SOCK_STREAM);
    snprintf(name, sizeof name, "%s/file", folder.path);
    exs_xferfile_t one = {.exs_xfv_type = EXS_PATHVEC,
                          .exs_xfv.exs_pathv = {.exs_path = name, .exs_length = 1000}};

    must_fail(exs_recvfile(pair.server, &one, 1, 0, pair.server_box->queue, NULL), EROFS);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
    pair_close(&pair);
    must(umount2(folder.path, MNT_DETACH));
    must(rmdir(folder.path));
}
END_TEST

/* ---- A limit ------------------------------------------------------------------------- */

/* RLIMIT_FSIZE is an error of the receive, and does not raise SIGXFSZ as a write(2) beyond the limit would. */
START_TEST(limited_length)
{
    const size_t limit = 100000;
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_fd(file, _i % 3 == 2 ? (off_t)limit : 10, _i % 3 == 1 ? 0 : 300000);
    size_t written = _i % 3 == 2 ? 0 : limit - 10;
    struct rlimit old, few;
    uint8_t *bytes;

    must(getrlimit(RLIMIT_FSIZE, &old));
    few = (struct rlimit){.rlim_cur = limit, .rlim_max = old.rlim_max};
    must(setrlimit(RLIMIT_FSIZE, &few));
    if (_i < 3)
        receive_files(&one, 1, 0);
    bytes = send_pattern(300000, 0);
    inbox_pump(pair.server_box, 5);
    if (_i >= 3)
        receive_files(&one, 1, 0);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, EFBIG);
    ck_assert_int_eq(length_of(&event), written);
    must(setrlimit(RLIMIT_FSIZE, &old));
    file_has_length(file, written > 0 ? (off_t)limit : 0);
    file_has_pattern(file, 10, written, SEED, 0);
    rest_comes(written, 300000 - written);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    free(bytes);
    close(file);
}
END_TEST

/* In a file that is already longer than the limit, the bytes beyond it may not be overwritten either: the
 * library does not copy there, and does not advertise them to the peer. */
START_TEST(limited_in_a_long_file)
{
    const size_t limit = 100000;
    int file = folder_file(&folder, "file", 300000);
    exs_xferfile_t one = by_fd(file, 0, 300000);
    struct rlimit old, few;

    must(getrlimit(RLIMIT_FSIZE, &old));
    few = (struct rlimit){.rlim_cur = limit, .rlim_max = old.rlim_max};
    must(setrlimit(RLIMIT_FSIZE, &few));
    receive_files(&one, 1, 0);
    if (_i == 1)
        inbox_pump(pair.client_box, 5);
    uint8_t *bytes = send_pattern(300000, 0);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    must(setrlimit(RLIMIT_FSIZE, &old));
    ck_assert_int_eq(event.exs_evt_errno, EFBIG);
    ck_assert_int_eq(length_of(&event), limit);
    file_has_length(file, 300000);
    file_has_pattern(file, 0, limit, SEED, 0);
    rest_comes(limit, 300000 - limit);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    free(bytes);
    close(file);
}
END_TEST

/* A sealed file that may not grow is filled up to its length. The other bytes go to the next receive. */
START_TEST(sealed)
{
    int file = memfd_create("exs-sealed", MFD_ALLOW_SEALING);
    exs_xferfile_t one = by_fd(file, 0, 200000);
    uint8_t *bytes;

    must(file);
    must(ftruncate(file, 100000));
    must(fcntl(file, F_ADD_SEALS, F_SEAL_GROW));
    receive_files(&one, 1, 0);
    bytes = send_pattern(200000, 0);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, EPERM);
    file_has_pattern(file, 0, (size_t)length_of(&event), SEED, 0);
    rest_comes((uint64_t)length_of(&event), 200000 - (size_t)length_of(&event));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    free(bytes);
    close(file);
}
END_TEST

/* ---- A limit that is set during the receive ------------------------------------------ */

static rlim_t late_limit; /* bytes; set by the next call that extends a file; 0: none */

static void limit_now(void)
{
    struct rlimit limit;

    if (late_limit == 0)
        return;
    must(getrlimit(RLIMIT_FSIZE, &limit));
    limit.rlim_cur = late_limit;
    must(setrlimit(RLIMIT_FSIZE, &limit));
}

/* Replaces the C library's function, also for the test's own calls; they set no limit. */
__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off_t);

    *(void **)&real = dlsym(RTLD_NEXT, "pwrite");
    limit_now();
    return real(fd, bytes, length, offset);
}

__attribute__((visibility("default"))) int fallocate(int fd, int mode, off_t offset, off_t length)
{
    int (*real)(int, int, off_t, off_t);

    *(void **)&real = dlsym(RTLD_NEXT, "fallocate");
    limit_now();
    return real(fd, mode, offset, length);
}

static volatile sig_atomic_t signalled;

static void note_signal(int number)
{
    (void)number;
    signalled = 1;
}

static bool is_pending(void)
{
    sigset_t pending;

    must(sigpending(&pending));
    return sigismember(&pending, SIGXFSZ);
}

static bool is_blocked(void)
{
    sigset_t mask;

    must(sigprocmask(SIG_SETMASK, NULL, &mask));
    return sigismember(&mask, SIGXFSZ);
}

/* Another thread or process lowers the limit after the library has checked it. That raises no signal either. A
 * SIGXFSZ that the program has blocked and that is pending stays pending. The limit is met by copying with a
 * window, by copying without one, or by allocating the window's blocks. */
START_TEST(limited_at_last)
{
    const size_t limit = 100000;
    const bool copied = _i % 3 == 1, allocated = _i % 3 == 2, blocked = _i >= 3;
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_fd(file, copied ? (off_t)limit : 10, 300000);
    struct sigaction action = {.sa_handler = note_signal};
    sigset_t own;
    struct rlimit old;

    must(sigaction(SIGXFSZ, &action, NULL));
    sigemptyset(&own);
    sigaddset(&own, SIGXFSZ);
    if (blocked) {
        must(sigprocmask(SIG_BLOCK, &own, NULL));
        must(raise(SIGXFSZ));
    }
    must(getrlimit(RLIMIT_FSIZE, &old));
    if (allocated)
        late_limit = limit;
    if (!copied)
        receive_files(&one, 1, 0);
    late_limit = limit;
    uint8_t *bytes = send_pattern(300000, 0);
    inbox_pump(pair.server_box, 5);
    if (copied)
        receive_files(&one, 1, 0);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    late_limit = 0;
    must(setrlimit(RLIMIT_FSIZE, &old));
    ck_assert_int_eq(event.exs_evt_errno, EFBIG);
    size_t written = copied ? 0 : limit - 10;
    ck_assert_int_eq(length_of(&event), written);
    ck_assert(!signalled && is_pending() == blocked);
    ck_assert_int_eq(is_blocked(), blocked);
    file_has_pattern(file, 10, written, SEED, 0);
    rest_comes(written, 300000 - written);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    free(bytes);
    close(file);
}
END_TEST

int main(void)
{
    setenv("EXS_MAP", "1", 1); /* map files on every device */
    Suite *suite = suite_create("recvfile, no room");
    TCase *room = add_bare_case(suite, "no room", 20), *full_up = add_bare_case(suite, "a full disk", 20);

    tcase_add_checked_fixture(room, open_all, close_all);
    tcase_add_loop_test(room, limited_length, 0, 6);
    tcase_add_loop_test(room, limited_in_a_long_file, 0, 2);
    tcase_add_loop_test(room, limited_at_last, 0, 6);
    tcase_add_test(room, sealed);
    tcase_add_loop_test(full_up, full_disk, 0, 2 * COUNT(full));
    tcase_add_test(full_up, message_to_full_disk);
    tcase_add_test(full_up, read_only);
    return run_suite(suite);
}
