/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_close_driven.c - closes without EXS_BLOCK on sockets that only blocking calls have used, or whose queue was
 * deleted: the call never waits for the peer, and a thread of the library completes the close.
 *
 * The peer is a process that is stopped while the call runs. A call that waited would break the connection after five
 * seconds, and the peer would then find ECONNRESET instead of the end of the stream.
 */
#include "check/support/processes.h"
#include "check/support/support.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include "core/sock/sock.h"

#define SENT (4 * MIB) /* more than a peer takes in without a receive */

static struct child server;

/* Accept one connection, receive until the stream ends, and report the number of bytes, or -errno. */
static void serve(int fd, void *unused)
{
    struct address address;
    char buffer[4096];
    ssize_t got, total = 0;

    (void)unused;
    init_library();
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);

    tell(fd, &address, sizeof address);
    int sock = exs_blocking_accept(listener, NULL, NULL);

    must(sock);
    tell(fd, "", 1);
    while ((got = exs_read(sock, buffer, sizeof buffer)) > 0)
        total += got;
    if (got < 0)
        total = -errno;
    tell(fd, &total, sizeof total);
    must(exs_blocking_close(sock));
    must(exs_blocking_close(listener));
}

static int connect_to_server(void)
{
    struct address address;
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(sock);
    hear(server.fd, &address, sizeof address);
    must(exs_blocking_connect(sock, SA(&address), address.length));
    await_byte(server.fd);
    return sock;
}

/* Connect to the server. The server's process is stopped when this returns. */
static int connect_and_stop(void)
{
    int sock = connect_to_server();

    process_stop(server.pid);
    return sock;
}

static void start(void)
{
    child_start(&server, serve, NULL);
    init_library();
}

static void continue_server(void)
{
    must(kill(server.pid, SIGCONT));
}

static ssize_t result_of_server(void)
{
    ssize_t result;

    hear(server.fd, &result, sizeof result);
    child_join(&server);
    return result;
}

static void is_closed(int sock)
{
    must_fail(exs_close(sock, 0, NULL, NULL), EBADF);
}

START_TEST(does_not_wait)
{
    start();
    int sock = connect_and_stop();

    must(exs_close(sock, 0, NULL, NULL));
    is_closed(sock);
    continue_server();
    ck_assert_int_eq(result_of_server(), 0);
    must(exs_fini());
    ck_assert(!xs_sock_has_left(sock));
}
END_TEST

/* A close without a queue lingers as EXS_LINGER or SO_LINGER says, though the application makes no further call. */
START_TEST(lingers)
{
    const struct linger minute = {.l_onoff = 1, .l_linger = 60};
    char *bytes = new_buffer(SENT);

    start();
    int sock = connect_and_stop();

    if (_i == 0)
        must(exs_setsockopt(sock, SOL_SOCKET, SO_LINGER, &minute, sizeof minute));
    must(exs_send(sock, bytes, SENT, EXS_UNSIGNALED, NULL, NULL, NULL));
    must(exs_close(sock, _i == 0 ? 0 : EXS_LINGER, NULL, NULL));
    continue_server();
    ck_assert_int_eq(result_of_server(), SENT);
    must(exs_fini());
    free(bytes);
}
END_TEST

/* Without lingering the pending sends are cut off, and the peer gets ECONNRESET. */
START_TEST(cuts)
{
    char *bytes = new_buffer(SENT);

    start();
    int sock = connect_and_stop();

    must(exs_send(sock, bytes, SENT, EXS_UNSIGNALED, NULL, NULL, NULL));
    must(exs_close(sock, 0, NULL, NULL));
    continue_server();
    ck_assert_int_eq(result_of_server(), -ECONNRESET);
    must(exs_fini());
    free(bytes);
}
END_TEST

START_TEST(lingers_no_longer_than_its_time)
{
    const struct linger second = {.l_onoff = 1, .l_linger = 1};
    char *bytes = new_buffer(SENT);

    start();
    int sock = connect_and_stop();

    must(exs_setsockopt(sock, SOL_SOCKET, SO_LINGER, &second, sizeof second));
    must(exs_send(sock, bytes, SENT, EXS_UNSIGNALED, NULL, NULL, NULL));
    must(exs_close(sock, 0, NULL, NULL));
    must(exs_fini()); /* waits for the close */
    ck_assert(!xs_sock_has_left(sock));
    continue_server();
    ck_assert_int_eq(result_of_server(), -ECONNRESET);
    free(bytes);
}
END_TEST

/* Close a socket while the server is stopped, and exit. */
static void close_and_exit(int fd, void *calls_fini)
{
    static char *bytes; /* static: in use until the process ends */

    bytes = new_buffer(SENT);

    init_library();
    int sock = connect_to_server();

    tell(fd, "", 1);
    await_byte(fd); /* the server is stopped */
    must(exs_send(sock, bytes, SENT, EXS_UNSIGNALED, NULL, NULL, NULL));
    must(exs_close(sock, EXS_LINGER, NULL, NULL));
    tell(fd, "", 1);
    if (calls_fini != NULL)
        must(exs_fini());
    exit(0); /* the library uses `bytes` until then */
}

/* A process that exits, by exit(3) or exs_fini(), first completes its lingering closes. */
START_TEST(exit_waits)
{
    struct child client;

    child_start(&server, serve, NULL);
    child_start(&client, close_and_exit, _i == 1 ? &client : NULL);
    await_byte(client.fd);
    process_stop(server.pid);
    tell(client.fd, "", 1);
    await_byte(client.fd);
    struct pollfd its_end = {.fd = client.fd, .events = POLLIN};

    ck_assert_msg(poll(&its_end, 1, QUIET_MS) == 0, "it has exited while its close goes on");
    continue_server();
    ck_assert_int_eq(result_of_server(), SENT);
    child_join(&client);
}
END_TEST

/* A forked child has no close to wait for. */
START_TEST(child_exits)
{
    start();
    int sock = connect_and_stop();

    must(exs_close(sock, 0, NULL, NULL));
    pid_t pid = fork();

    must(pid);
    if (pid == 0)
        exit(0);
    process_join(pid);
    continue_server();
    ck_assert_int_eq(result_of_server(), 0);
}
END_TEST

/* A queue has driven the socket for a while, and was deleted. */
START_TEST(queue_is_gone)
{
    exs_event_t event;

    start();
    int sock = connect_and_stop();
    exs_qhandle_t queue = exs_qcreate(4);

    ck_assert_ptr_ne(queue, EXS_QHANDLE_INVALID);
    must(exs_shutdown(sock, SHUT_RD, 0, queue, NULL));
    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, NULL), 1);
    ck_assert_int_eq(event.exs_evt_errno, 0);
    if (_i == 0)
        must(exs_qdelete(queue));
    must(exs_close(sock, 0, NULL, NULL));
    is_closed(sock);
    continue_server();
    ck_assert_int_eq(result_of_server(), 0);
    if (_i == 1)
        must(exs_qdelete(queue));
}
END_TEST

/* If there is no descriptor for the library's thread, a close without lingering still does not wait for the peer, which
 * then finds a broken connection. A close with EXS_LINGER fails, and the socket stays open. */
START_TEST(no_descriptors)
{
    struct rlimit limit, before;

    start();
    int sock = connect_and_stop();

    must(getrlimit(RLIMIT_NOFILE, &before));
    limit = before;
    limit.rlim_cur = 3;
    must(setrlimit(RLIMIT_NOFILE, &limit));
    must_fail(exs_close(sock, EXS_LINGER, NULL, NULL), EMFILE);
    must(exs_close(sock, 0, NULL, NULL));
    must(setrlimit(RLIMIT_NOFILE, &before));
    ck_assert(!xs_sock_has_left(sock));
    continue_server();
    ck_assert_int_eq(result_of_server(), -ECONNRESET);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("close driven");
    TCase *tcase = add_bare_case(suite, "close driven", 20);

    tcase_add_test(tcase, does_not_wait);
    tcase_add_loop_test(tcase, lingers, 0, 2);
    tcase_add_test(tcase, cuts);
    tcase_add_test(tcase, lingers_no_longer_than_its_time);
    tcase_add_loop_test(tcase, exit_waits, 0, 2);
    tcase_add_test(tcase, child_exits);
    tcase_add_loop_test(tcase, queue_is_gone, 0, 2);
    tcase_add_test(tcase, no_descriptors);
    return run_suite(suite);
}
