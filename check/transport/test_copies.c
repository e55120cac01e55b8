/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_copies.c - descriptors of the library that a child process still has copies of, as with every posix_spawn() or
 * vfork() until the child executes another program. A descriptor that the library closes is closed for the peer, and no
 * epoll instance reports it again.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "core/base/fds.h"
#include "check/support/cmpeer.h"
#include "check/support/endpoints.h"
#include "check/support/processes.h"

#define QUIET_MS 30
#define EPOLLS 3

/* ---- The child ---- */

static struct {
    pid_t pid;
    int pipe[2];
} child;

/* Has a copy of every descriptor; no fork handler of the library ran in it. */
static void make_child(void)
{
    char byte;

    ck_assert_int_eq(pipe(child.pipe), 0);
    child.pid = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (child.pid == 0) {
        syscall(SYS_close, child.pipe[1]);
        syscall(SYS_read, child.pipe[0], &byte, 1L); /* until the parent closes the pipe or exits */
        syscall(SYS_exit_group, 0L);
    }
    ck_assert_int_gt(child.pid, 0);
}

static void end_child(void)
{
    close(child.pipe[0]);
    close(child.pipe[1]);
    process_join(child.pid);
}

/* shutdown() is needed because the child has a copy of this descriptor, too. */
static void hang_up(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

static void expect_quiet_fd(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    expect(poll(&wait, 1, QUIET_MS) == 0, "it is readable");
}

/* ---- Single descriptors ---- */

/* The descriptor is in `in` epoll instances, and `out` of them remove it before it is closed. */
START_TEST(closed_in_epolls)
{
    int epolls[EPOLLS], fd = fds_own(eventfd(1, EFD_CLOEXEC)), in = _i % (EPOLLS + 1), out = _i / (EPOLLS + 1);
    struct epoll_event event = {.events = EPOLLIN};

    for (int i = 0; i < EPOLLS; i++) {
        epolls[i] = fds_epoll();
        ck_assert_int_ne(epolls[i], -1);
    }
    for (int i = 0; i < in; i++)
        ck_assert_int_eq(fds_watch(epolls[i], fd, &event), 0);
    for (int i = 0; i < out; i++)
        ck_assert_int_eq(fds_unwatch(epolls[EPOLLS - 1 - i], fd), EPOLLS - 1 - i < in ? 0 : -1);
    make_child();
    ck_assert_int_eq(fds_close(fd), 0);
    for (int i = 0; i < EPOLLS; i++) {
        expect_quiet_fd(epolls[i]);
        fds_close(epolls[i]);
    }
    end_child();
}
END_TEST

START_TEST(disowned_in_epolls)
{
    int epoll = fds_epoll(), fd = fds_own(eventfd(1, EFD_CLOEXEC));
    struct epoll_event event = {.events = EPOLLIN};

    ck_assert_int_eq(fds_watch(epoll, fd, &event), 0);
    make_child();
    fds_disown(fd);
    close(fd);
    expect_quiet_fd(epoll);
    fds_close(epoll);
    end_child();
}
END_TEST

enum { TURNS = 2000 };

/* Closes an epoll instance with a descriptor in it, and then the descriptor, which must have left the library's list of
 * instances. */
static void *close_the_other_way_round(void *failed)
{
    struct epoll_event event = {.events = EPOLLIN};

    for (int i = 0; i < TURNS; i++) {
        int epoll = fds_epoll(), fd = fds_own(eventfd(1, EFD_CLOEXEC));

        if (fds_watch(epoll, fd, &event) != 0 || fds_close(epoll) != 0 || fds_close(fd) != 0)
            *(bool *)failed = true;
    }
    return NULL;
}

/* fds_close() must not remove a descriptor from an epoll instance that another thread closes at the same time: the
 * number may already be another file's. */
START_TEST(closed_by_threads)
{
    bool failed[2] = {false, false};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, close_the_other_way_round, &failed[i]), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert(!failed[i]);
    }
}
END_TEST

/* ---- Connections ---- */

enum way { DESTROYED, REJECTED, DISCONNECTED, LOST, MALFORMED, WAYS };

/* Closes both ends: the library's end as `way` says, the peer's end before or after it. */
static void end_connection(struct cmside *side, int fd, enum way way)
{
    if (way == REJECTED)
        ck_assert_int_eq(soft_reject(side->id, NULL, 0), 0);
    else if (way != DESTROYED)
        ck_assert_int_eq(cmside_accept(side), 0);
    if (way == DISCONNECTED)
        ck_assert_int_eq(soft_disconnect(side->id), 0);
    if (way == MALFORMED)
        stranger_says_bytes(fd, "GET /", 5);
    hang_up(fd);
    if (way == DISCONNECTED)
        cmside_expect(side, RDMA_CM_EVENT_DISCONNECTED);
    else if (way == LOST)
        cmside_expect(side, RDMA_CM_EVENT_UNREACHABLE);
    else if (way == MALFORMED)
        cmside_expect(side, RDMA_CM_EVENT_CONNECT_ERROR);
}

START_TEST(closed_connection)
{
    struct said message = said(SAID_REQ);
    struct cmside side;
    int fd;

    cmside_listen(&side);
    fd = stranger_dial(&side);
    stranger_says(fd, &message);
    cmside_expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST);
    make_child();
    if (_i == DESTROYED) {
        soft_destroy_id(side.id);
        side.id = NULL;
    }
    end_connection(&side, fd, (enum way)_i);
    expect_quiet_fd(side.channel->fd);
    cmside_quiet(&side);
    end_child();
    cmside_close(&side);
}
END_TEST

/* Half-open connections, which the application does not know of. */
START_TEST(closed_half_open)
{
    struct cmside side;
    int fd;

    cmside_listen(&side);
    fd = stranger_dial(&side);
    cmside_quiet(&side);
    make_child();
    stranger_says_bytes(fd, "GET /", 5);
    hang_up(fd);
    cmside_quiet(&side);
    expect_quiet_fd(side.channel->fd);
    end_child();
    cmside_close(&side);
}
END_TEST

/* The listener's own socket: the child's copy still listens. */
START_TEST(closed_listener)
{
    struct cmside side;
    int fd;

    cmside_listen(&side);
    make_child();
    soft_destroy_id(side.listener);
    side.listener = NULL;
    fd = stranger_dial(&side);
    expect_quiet_fd(side.channel->fd);
    close(fd);
    end_child();
    cmside_close(&side);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copies");
    TCase *plain = new_case(suite, "descriptors"), *threads = new_case(suite, "threads"),
          *connections = new_case(suite, "connections");

    tcase_add_loop_test(plain, closed_in_epolls, 0, (EPOLLS + 1) * (EPOLLS + 1));
    tcase_add_test(plain, disowned_in_epolls);
    tcase_add_test(threads, closed_by_threads);
    tcase_set_timeout(connections, 30);
    tcase_add_loop_test(connections, closed_connection, 0, WAYS);
    tcase_add_test(connections, closed_half_open);
    tcase_add_test(connections, closed_listener);
    return run_suite(suite);
}
