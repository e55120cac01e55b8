/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_recvfile_bad.c - exs_recvfile: files that are mapped, or can't be; a disk that is full, a file that may
 * not grow or becomes shorter meanwhile; connections that end while a file is filled.
 */
#include "check/support/files.h"
#include "core/conn.h"
#include "core/sock.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#define SEED 7

static struct pair pair; /* of the running test */
static struct folder folder;

static void open_all(void)
{
    init_library();
    folder_make(&folder);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    pair.server_box->beside = pair.client_box;
    pair.client_box->beside = pair.server_box;
}

static void close_all(void)
{
    inbox_quiet(pair.server_box, QUIET_MS); /* no call that failed left an event */
    pair_close(&pair);
    folder_clear(&folder);
}

static void receive_files(exs_xferfile_t *vector, int count, int flags)
{
    must(exs_recvfile(pair.server, vector, count, flags, pair.server_box->queue, vector));
}

static uint8_t *send_pattern(size_t length, uint64_t at)
{
    uint8_t *bytes = new_buffer(length);

    pattern_fill(bytes, length, SEED, at);
    must(exs_send(pair.client, bytes, length, 0, pair.client_box->queue, NULL, NULL));
    return bytes;
}

static off_t length_of(const exs_event_t *event)
{
    return event->exs_evt_union.exs_evt_xferfile.exs_evt_length;
}

/* What could not be written is there for the next receive. */
static void rest_comes(uint64_t at, size_t length)
{
    uint8_t *in = new_buffer(length);

    must(exs_recv(pair.server, in, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    pattern_check(in, length, SEED, at);
    free(in);
}

/* Is the file mapped into this process, shared, to be written? */
static bool is_mapped(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[500];
    bool found = false;

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps) != NULL)
        found = found || (strstr(line, " rw-s ") != NULL && strstr(line, name) != NULL);
    fclose(maps);
    return found;
}

/* The client knows of a place at the server. */
static bool is_advertised(void)
{
    struct sock *sock = xs_sock_get_locked(pair.client);
    bool known = sock->conn->advert_count > 0;

    xs_sock_put_locked(sock);
    return known;
}

static void until_advertised(void)
{
    while (!is_advertised())
        inbox_pump(pair.server_box, WAIT_MS);
}

/* ---- Mapped, or not ------------------------------------------------------------------ */

/* The peer writes into the file itself, where it can be mapped and registered: the embedded device registers
 * all. */
START_TEST(without_copies)
{
    int file = folder_file(&folder, "mapped", 0), writes = open(folder_path(&folder, "mapped"), O_WRONLY);
    exs_xferfile_t one = by_fd(_i == 0 ? file : writes, 0, 3 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    ck_assert_int_eq(is_mapped("mapped"), _i == 0 && (!on_rdma() || is_mapped("mapped")));
    if (_i == 0 && !on_rdma())
        until_advertised();
    else
        inbox_pump(pair.client_box, 5);
    ck_assert(_i == 0 || !is_advertised());
    bytes = send_pattern(3 * MIB, 0);
    take_good(pair.server_box, EXS_EVT_RECVFILE, pair.server);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert(!is_mapped("mapped"));
    file_has_pattern(file, 0, 3 * MIB, SEED, 0);
    file_has_length(file, 3 * MIB);
    free(bytes);
    close(file);
    close(writes);
}
END_TEST

/* ---- No room ------------------------------------------------------------------------- */

/* A file system of our own, of so many bytes. False: we may not. */
static bool mount_small(const char *where, size_t bytes)
{
    char options[50];
    int map;

    if (unshare(CLONE_NEWNS) != 0) { /* who is not root is so in a user namespace */
        uid_t user = geteuid();

        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            return false;
        snprintf(options, sizeof options, "0 %u 1", (unsigned)user);
        map = open("/proc/self/uid_map", O_WRONLY);
        must(map);
        must(write(map, options, strlen(options)));
        close(map);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    snprintf(options, sizeof options, "size=%zu", bytes);
    return mount("tmpfs", where, "tmpfs", 0, options) == 0;
}

/* Whoever may not mount can't see this; .ci/run does. */
static bool cannot_mount(void)
{
    ck_assert_msg(getenv("EXS_NO_SKIP") == NULL, "can't mount a tmpfs: %s", strerror(errno));
    printf("full_disk: can't mount a tmpfs (%s): not tried\n", strerror(errno));
    return true;
}

/* The disk is full in the first window, in a later one, in a short range, in an element after others, or from
 * the first byte on; with files that can't be mapped as well. */
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
    if (!mount_small(where, room) && cannot_mount())
        return;
    init_library();
    pair_open(&pair, AF_INET, SOCK_STREAM);
    pair.server_box->beside = pair.client_box;
    pair.client_box->beside = pair.server_box;
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
    /* And with some room again there is some. */
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

/* A message to a full disk is lost behind what could be written, and only that. */
START_TEST(message_to_full_disk)
{
    folder_make(&folder);
    if (!mount_small(folder.path, 64 * KIB) && cannot_mount())
        return;
    init_library();
    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    pair.server_box->beside = pair.client_box;
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

/* A limit on the length of files is an error, and not the signal that it is to who writes beyond. */
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

/* Nor may what is there be written beyond it, by whichever way. */
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

/* ---- A limit that comes at the last moment ------------------------------------------- */

static rlim_t late_limit; /* bytes: from the next call that makes a file longer; 0: none */

static void limit_now(void)
{
    struct rlimit limit;

    if (late_limit == 0)
        return;
    must(getrlimit(RLIMIT_FSIZE, &limit));
    limit.rlim_cur = late_limit;
    must(setrlimit(RLIMIT_FSIZE, &limit));
}

/* As the test's own calls, before which the library's have nothing. */
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

/* Another thread, or another program, lowers it when the library has begun: no signal either; and one that the
 * program has blocked, and has waiting for itself, still does. By the file's window, and by copies. */
START_TEST(limited_at_last)
{
    const size_t limit = 100000;
    const bool copied = _i % 2 == 1, blocked = _i >= 2;
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
    file_has_pattern(file, 10, written, SEED, 0);
    rest_comes(written, 300000 - written);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    free(bytes);
    close(file);
}
END_TEST

/* A file that may not grow is filled as far as it goes: there is no way to write more, and nothing is lost. */
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

/* ---- A file that becomes shorter ----------------------------------------------------- */

/* It is no SIGBUS, and it is told; but where it is copied into, the file just grows again. */
START_TEST(truncated)
{
    bool copied = _i % 2 == 1;
    int file = folder_file(&folder, "file", 0), writes = open(folder_path(&folder, "file"), O_WRONLY);
    exs_xferfile_t one = by_fd(copied ? writes : file, 0, 2 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    bool mapped = is_mapped("file");

    ck_assert(!copied || !mapped);
    ck_assert(copied || on_rdma() || mapped);
    if (mapped)
        until_advertised();
    must(ftruncate(file, 0));
    bytes = send_pattern(2 * MIB, 0);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, mapped ? EIO : 0);
    inbox_take(pair.client_box, EXS_EVT_SEND, pair.client);
    if (!mapped)
        file_has_pattern(file, 0, 2 * MIB, SEED, 0);
    close_socket(pair.client_box, pair.client);
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
    free(bytes);
    close(file);
    close(writes);
    folder_clear(&folder);
}
END_TEST

/* When the peer has written all that is mapped, and we have not looked yet: it is told then, not at the end. */
START_TEST(truncated_late)
{
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_fd(file, 0, 8 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    bool mapped = is_mapped("file");

    if (mapped)
        until_advertised();
    pair.client_box->beside = NULL;
    bytes = send_pattern(mapped ? 4 * MIB : 100, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    must(ftruncate(file, 0));
    if (mapped) {
        take_failed(pair.server_box, EXS_EVT_RECVFILE, pair.server, EIO);
        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
    }
    close_socket(pair.server_box, pair.server);
    close_socket(pair.client_box, pair.client);
    if (!mapped)
        take_failed(pair.server_box, EXS_EVT_RECVFILE, pair.server, ECANCELED);
    pair_close_rest(&pair);
    free(bytes);
    close(file);
    folder_clear(&folder);
}
END_TEST

/* When all is there already but the end. */
START_TEST(truncated_at_last)
{
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_fd(file, 0, 2 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    bool mapped = is_mapped("file");

    if (mapped)
        until_advertised();
    bytes = send_pattern(MIB, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    inbox_quiet(pair.server_box, 0);
    must(ftruncate(file, 1000));
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, mapped ? EIO : 0);
    file_has_length(file, 1000); /* nothing is added to it */
    free(bytes);
    close(file);
}
END_TEST

/* Somebody else makes it longer: that stays. */
START_TEST(grown)
{
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_fd(file, 0, 2 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    bytes = send_pattern(MIB, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_int_eq(pwrite(file, "z", 1, 10 * MIB - 1), 1);
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    take_good(pair.server_box, EXS_EVT_RECVFILE, pair.server);
    file_has_length(file, 10 * MIB);
    file_has_pattern(file, 0, MIB, SEED, 0);
    free(bytes);
    close(file);
}
END_TEST

/* ---- The connection ends ------------------------------------------------------------- */

/* By us, by the peer, or by our shutting down reading: what came is in the file, which has no more than that.
 */
START_TEST(ended)
{
    int file = folder_file(&folder, "file", 0), before = count_fds();
    exs_xferfile_t one = by_fd(file, 0, _i % 2 ? 0 : 2 * MIB);
    uint8_t *bytes;

    receive_files(&one, 1, 0);
    bytes = send_pattern(200000, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    inbox_quiet(pair.server_box, 0);
    if (_i / 2 == 0) {
        must(exs_close(pair.server, 0, pair.server_box->queue, NULL));
    } else if (_i / 2 == 1) {
        close_socket(pair.client_box, pair.client);
    } else {
        must(exs_shutdown(pair.server, SHUT_RD, 0, pair.server_box->queue, NULL));
        take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    }
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, _i / 2 == 0 ? ECANCELED : 0);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_flags, _i / 2 == 0 ? 0 : EXS_EOF);
    ck_assert_int_eq(length_of(&event), 200000);
    file_has_length(file, 200000);
    file_has_pattern(file, 0, 200000, SEED, 0);
    ck_assert(!is_mapped("file"));
    if (_i / 2 == 0)
        take_good(pair.server_box, EXS_EVT_CLOSE, pair.server);
    else
        close_socket(pair.server_box, pair.server);
    if (_i / 2 != 1)
        close_socket(pair.client_box, pair.client);
    ck_assert_int_le(count_fds(), before);
    pair_close_rest(&pair);
    free(bytes);
    close(file);
    folder_clear(&folder);
}
END_TEST

static void send_and_wait(int fd, void *unused)
{
    struct address to;
    uint8_t *bytes = new_buffer(200000);
    int socket;

    (void)unused;
    init_library();
    hear(fd, &to, sizeof to);
    socket = exs_socket(AF_INET, SOCK_STREAM, 0);
    must(socket);
    must(exs_blocking_connect(socket, SA(&to), to.length));
    pattern_fill(bytes, 200000, SEED, 0);
    ck_assert_int_eq(exs_blocking_send(socket, bytes, 200000, 0, NULL), 200000);
    tell(fd, "s", 1);
    pause();
}

/* The peer is killed. */
START_TEST(killed)
{
    struct child child;
    struct address address;
    char said;

    child_start(&child, send_and_wait, NULL);
    init_library();
    folder_make(&folder);
    int listener = open_listener(AF_INET, SOCK_STREAM, 5, &address);

    tell(child.fd, &address, sizeof address);
    int socket = exs_blocking_accept(listener, NULL, NULL), file = folder_file(&folder, "file", 0);
    exs_xferfile_t first = by_fd(file, 0, 200000), all = by_fd(file, 200000, 0);

    must(socket);
    ck_assert_int_eq(exs_blocking_recvfile(socket, &first, 1, 0), 200000);
    hear(child.fd, &said, 1);
    child_kill(&child);
    must_fail(exs_blocking_recvfile(socket, &all, 1, 0), ECONNRESET);
    file_has_length(file, 200000);
    file_has_pattern(file, 0, 200000, SEED, 0);
    must(exs_blocking_close(socket));
    must(exs_blocking_close(listener));
    close(file);
    folder_clear(&folder);
}
END_TEST

int main(void)
{
    setenv("EXS_MAP", "1", 1); /* on whichever device */
    Suite *suite = suite_create("recvfile, what goes wrong");
    TCase *mapped = add_bare_case(suite, "mapped or not", 20), *room = add_bare_case(suite, "no room", 20),
          *full_up = add_bare_case(suite, "a full disk", 20), *cut = add_bare_case(suite, "cut short", 20);

    tcase_add_checked_fixture(mapped, open_all, close_all);
    tcase_add_loop_test(mapped, without_copies, 0, 2);
    tcase_add_checked_fixture(room, open_all, close_all);
    tcase_add_loop_test(room, limited_length, 0, 6);
    tcase_add_test(room, limited_in_a_long_file);
    tcase_add_loop_test(room, limited_at_last, 0, 4);
    tcase_add_test(room, sealed);
    tcase_add_test(room, grown);
    tcase_add_test(room, truncated_at_last);
    tcase_add_loop_test(full_up, full_disk, 0, 2 * COUNT(full));
    tcase_add_test(full_up, message_to_full_disk);
    tcase_add_test(full_up, killed);
    tcase_add_checked_fixture(cut, open_all, NULL);
    tcase_add_loop_test(cut, truncated, 0, 2);
    tcase_add_test(cut, truncated_late);
    tcase_add_loop_test(cut, ended, 0, 6);
    return run_suite(suite);
}
