/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_shm_listener.c - the unix sockets at which the ends of a connection within a host find each other
 * (shm_listener.h): which of them a client connects to, and what other users, dead processes, other file systems and
 * other network namespaces can do to that.
 *
 * Each test has its own mounts and network namespace, which only root can make.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "check/support/abstract.h"
#include "check/support/endpoints.h"
#include "check/support/processes.h"
#include "soft/link/shm_listener.h"

#define PORT 7495
#define STRANGER 65534

static struct shm_listener listeners[SHM_LISTENERS];
static FILE *errors; /* receives what is written to standard error */

static void mount_tmpfs(const char *at)
{
    ck_assert_int_eq(mount("none", at, "tmpfs", 0, "mode=1777"), 0);
}

static void begin(void)
{
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(unshare(CLONE_NEWNS | CLONE_NEWNET), 0);
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    errors = tmpfile();
    ck_assert_ptr_nonnull(errors);
    ck_assert_int_ne(dup2(fileno(errors), STDERR_FILENO), -1);
    mount_tmpfs("/run");
    mount_tmpfs("/tmp");
    mount_tmpfs("/dev/shm");
}

/* Expects this number of lines about other users, and no other lines. */
static void expect_lines(int count)
{
    char line[300];
    int lines = 0;

    rewind(errors);
    while (fgets(line, sizeof line, errors) != NULL) {
        ck_assert_msg(strstr(line, "exs: user 65534 has taken ") == line, "%s", line);
        lines++;
    }
    ck_assert_int_eq(lines, count);
}

static union soft_addr at(const char *host)
{
    union soft_addr addr = {.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)}};

    if (inet_pton(AF_INET6, host, &addr.in6.sin6_addr) == 1)
        return addr;
    addr = (union soft_addr){.in6 = {.sin6_family = AF_UNSPEC}};
    addr.in.sin_family = AF_INET;
    addr.in.sin_port = htons(PORT);
    ck_assert_int_eq(inet_pton(AF_INET, host, &addr.in.sin_addr), 1);
    return addr;
}

static void listen_at(struct shm_listener here[SHM_LISTENERS], const char *host, int count)
{
    union soft_addr local = at(host);

    ck_assert_int_eq(shm_listeners_open(here, &local), count);
}

static bool is_at(const struct shm_listener *listener)
{
    int fd = listener->fd == -1 ? -1 : accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK);

    return fd != -1 && close(fd) == 0;
}

/* Expects that a client of this address connects to this listener. */
static void expect_at(const char *host, const struct shm_listener *listener)
{
    union soft_addr remote = at(host);
    int fd = shm_listener_visit(&remote);

    ck_assert_msg(fd != -1, "%s", strerror(errno));
    ck_assert(is_at(listener));
    ck_assert_int_eq(close(fd), 0);
}

static void expect_no_listener(const char *host, int error)
{
    union soft_addr remote = at(host);

    ck_assert_int_eq(shm_listener_visit(&remote), -1);
    ck_assert_int_eq(errno, error);
}

static void expect_path(const char *directory)
{
    const char *path = listeners[SHM_LISTENER_FILE].at.sun_path;

    ck_assert_msg(strncmp(path, directory, strlen(directory)) == 0 &&
                      strchr(path + strlen(directory), '/') == path + strlen(directory),
                  "%s is not in %s", path, directory);
}

/* ---- Names ---- */

START_TEST(the_file_comes_first)
{
    struct stat status;

    if (geteuid() != 0)
        return;
    expect_no_listener("127.0.0.1", ECONNREFUSED);
    listen_at(listeners, "127.0.0.1", SHM_LISTENERS);
    expect_path("/run/exs-0");
    ck_assert_int_eq(stat("/run/exs-0", &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0700);
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_FILE]);
    expect_no_listener("127.0.0.2", ECONNREFUSED);
    ck_assert_int_eq(unlink(listeners[SHM_LISTENER_FILE].at.sun_path), 0);
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_ABSTRACT]);
    shm_listeners_close(listeners);
    expect_no_listener("127.0.0.1", ECONNREFUSED);
    expect_lines(0);
}
END_TEST

START_TEST(a_directory_of_the_session)
{
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(mkdir("/run/user", 0755), 0);
    ck_assert_int_eq(mkdir("/run/user/0", 0700), 0);
    listen_at(listeners, "127.0.0.1", SHM_LISTENERS);
    expect_path("/run/user/0/exs");
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_FILE]);
    shm_listeners_close(listeners);
    ck_assert_int_eq(rmdir("/run/user/0/exs"), 0); /* the directory is empty */
}
END_TEST

/* A client prefers the listener at its address, then the one at all IPv4 addresses, then the one at all IPv6 addresses,
 * which may accept IPv4, too. */
START_TEST(two_families)
{
    struct shm_listener all6[SHM_LISTENERS], all4[SHM_LISTENERS], one[SHM_LISTENERS];

    if (geteuid() != 0)
        return;
    listen_at(all6, "::", SHM_LISTENERS);
    expect_at("127.0.0.1", &all6[SHM_LISTENER_FILE]);
    listen_at(all4, "0.0.0.0", SHM_LISTENERS);
    expect_at("127.0.0.1", &all4[SHM_LISTENER_FILE]);
    expect_at("::1", &all6[SHM_LISTENER_FILE]);
    listen_at(one, "127.0.0.1", SHM_LISTENERS);
    expect_at("127.0.0.1", &one[SHM_LISTENER_FILE]);
    expect_at("127.0.0.2", &all4[SHM_LISTENER_FILE]);
    shm_listeners_close(one);
    expect_at("127.0.0.1", &all4[SHM_LISTENER_FILE]);
    shm_listeners_close(all4);
    shm_listeners_close(all6);
}
END_TEST

/* ---- Dead processes ---- */

static void leave_socket(const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    close(fd);
}

/* The file of a listener that was killed is replaced by the next listener at the port. */
START_TEST(a_dead_listener_is_replaced)
{
    char path[sizeof listeners[0].at.sun_path];

    if (geteuid() != 0)
        return;
    listen_at(listeners, "127.0.0.1", SHM_LISTENERS);
    memcpy(path, listeners[SHM_LISTENER_FILE].at.sun_path, sizeof path);
    shm_listeners_close(listeners);
    leave_socket(path);
    expect_no_listener("127.0.0.1", ECONNREFUSED);
    listen_at(listeners, "127.0.0.1", SHM_LISTENERS);
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_FILE]);
    shm_listeners_close(listeners);
}
END_TEST

/* Files of dead listeners at other ports are removed by the next process that listens; files of living ones are not. */
START_TEST(dead_listeners_are_removed)
{
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(mkdir("/run/exs-0", 0700), 0);
    leave_socket("/run/exs-0/1-127.0.0.1-1");
    leave_socket("/run/exs-0/.0000000000000000");
    ck_assert_int_eq(creat("/run/exs-0/file", 0600) == -1, 0);
    int lives = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "/run/exs-0/lives"};
    ck_assert_int_eq(bind(lives, (struct sockaddr *)&un, sizeof un), 0);
    listen_at(listeners, "127.0.0.1", SHM_LISTENERS);
    ck_assert_int_eq(access("/run/exs-0/1-127.0.0.1-1", F_OK), -1);
    ck_assert_int_eq(access("/run/exs-0/.0000000000000000", F_OK), -1);
    ck_assert_int_eq(access("/run/exs-0/file", F_OK), 0);
    ck_assert_int_eq(access("/run/exs-0/lives", F_OK), 0);
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_FILE]);
    shm_listeners_close(listeners);
    close(lives);
}
END_TEST

/* ---- Other users ---- */

static const char *const abstract = "exs/0/127.0.0.1-7495";

/* Starts a process of another user that holds the abstract name. */
static pid_t take_name(void)
{
    int taken[2];
    pid_t child;

    ck_assert_int_eq(pipe(taken), 0);
    child = fork();
    if (child == 0)
        _exit(setuid(STRANGER) == 0 && listen(abstract_take(abstract, SOCK_SEQPACKET), 8) == 0 &&
                      write(taken[1], "", 1) == 1 && pause()
                  ? 0
                  : 1);
    await_byte(taken[0]);
    close(taken[0]);
    close(taken[1]);
    return child;
}

START_TEST(another_user_has_the_abstract_name)
{
    if (geteuid() != 0)
        return;
    pid_t child = take_name();
    listen_at(listeners, "127.0.0.1", 1);
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_FILE]);
    expect_lines(0);
    ck_assert_int_eq(unlink(listeners[SHM_LISTENER_FILE].at.sun_path), 0);
    expect_no_listener("127.0.0.1", EPERM);
    expect_lines(1);
    expect_no_listener("127.0.0.1", EPERM);
    expect_lines(1);
    shm_listeners_close(listeners);
    process_kill(child);
}
END_TEST

/* The other user holds the name of a single address; the listener at all addresses has another name, and is found. */
START_TEST(another_user_has_a_name_beside)
{
    if (geteuid() != 0)
        return;
    pid_t child = take_name();
    listen_at(listeners, "0.0.0.0", SHM_LISTENERS);
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_FILE]);
    ck_assert_int_eq(unlink(listeners[SHM_LISTENER_FILE].at.sun_path), 0);
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_ABSTRACT]);
    shm_listeners_close(listeners);
    process_kill(child);
}
END_TEST

static void read_only(const char *path)
{
    ck_assert_int_eq(mount("none", path, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
}

/* A file, a symbolic link, or a directory with other permissions or another owner has the directory's name: the next
 * directory is used. */
START_TEST(no_directory_of_ours)
{
    if (geteuid() != 0)
        return;
    read_only("/run");
    ck_assert_int_eq(mkdir("/tmp/other", 0700), 0);
    ck_assert_int_eq(_i == 0   ? mkdir("/tmp/exs-0", 0777) == 0 && chmod("/tmp/exs-0", 0777) == 0
                     : _i == 1 ? symlink("/tmp/other", "/tmp/exs-0") == 0
                     : _i == 2 ? creat("/tmp/exs-0", 0600) != -1
                               : mkdir("/tmp/exs-0", 0700) == 0 && chown("/tmp/exs-0", STRANGER, STRANGER) == 0,
                     1);
    listen_at(listeners, "127.0.0.1", SHM_LISTENERS);
    expect_path("/dev/shm/exs-0");
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_FILE]);
    expect_lines(_i == 3);
    shm_listeners_close(listeners);
}
END_TEST

/* ---- Other file systems and network namespaces ---- */

/* A container that shares only the network finds the abstract name. */
START_TEST(another_file_system)
{
    if (geteuid() != 0)
        return;
    listen_at(listeners, "127.0.0.1", SHM_LISTENERS);
    pid_t child = fork();
    if (child == 0) {
        union soft_addr remote = at("127.0.0.1");

        if (unshare(CLONE_NEWNS) == -1)
            _exit(1);
        mount_tmpfs("/run");
        _exit(shm_listener_visit(&remote) == -1);
    }
    process_join(child);
    ck_assert(!is_at(&listeners[SHM_LISTENER_FILE]));
    ck_assert(is_at(&listeners[SHM_LISTENER_ABSTRACT]));
    shm_listeners_close(listeners);
}
END_TEST

START_TEST(nothing_can_be_written)
{
    if (geteuid() != 0)
        return;
    read_only("/run");
    read_only("/tmp");
    read_only("/dev/shm");
    listen_at(listeners, "127.0.0.1", 1);
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_ABSTRACT]);
    shm_listeners_close(listeners);
}
END_TEST

/* The same address and port in another network namespace is another listener, although its file is in the same
 * directory. */
START_TEST(another_network)
{
    if (geteuid() != 0)
        return;
    listen_at(listeners, "127.0.0.1", SHM_LISTENERS);
    pid_t child = fork();
    if (child == 0) {
        struct shm_listener others[SHM_LISTENERS];

        if (unshare(CLONE_NEWNET) == -1)
            _exit(1);
        expect_no_listener("127.0.0.1", ECONNREFUSED);
        listen_at(others, "127.0.0.1", SHM_LISTENERS);
        expect_at("127.0.0.1", &others[SHM_LISTENER_FILE]);
        shm_listeners_close(others);
        _exit(0);
    }
    process_join(child);
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_FILE]);
    shm_listeners_close(listeners);
}
END_TEST

/* The environment of the two ends may differ, and is not used. */
START_TEST(the_environment_does_not_count)
{
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(mkdir("/tmp/own", 0700), 0);
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", "/tmp/own", 1), 0);
    ck_assert_int_eq(setenv("TMPDIR", "/tmp/own", 1), 0);
    listen_at(listeners, "127.0.0.1", SHM_LISTENERS);
    ck_assert_int_eq(unsetenv("XDG_RUNTIME_DIR"), 0);
    ck_assert_int_eq(unsetenv("TMPDIR"), 0);
    expect_at("127.0.0.1", &listeners[SHM_LISTENER_FILE]);
    shm_listeners_close(listeners);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shm listener");
    TCase *tcase = new_case(suite, "listener");

    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, the_file_comes_first);
    tcase_add_test(tcase, a_directory_of_the_session);
    tcase_add_test(tcase, two_families);
    tcase_add_test(tcase, a_dead_listener_is_replaced);
    tcase_add_test(tcase, dead_listeners_are_removed);
    tcase_add_test(tcase, another_user_has_the_abstract_name);
    tcase_add_test(tcase, another_user_has_a_name_beside);
    tcase_add_loop_test(tcase, no_directory_of_ours, 0, 4);
    tcase_add_test(tcase, another_file_system);
    tcase_add_test(tcase, nothing_can_be_written);
    tcase_add_test(tcase, another_network);
    tcase_add_test(tcase, the_environment_does_not_count);
    return run_suite(suite);
}
