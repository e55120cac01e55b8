/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_incoming.c - half-open connections: a client that requests a connection and then stops responding does not delay
 * others, takes few resources, and is dropped if there are too many.
 *
 * The unresponsive clients use the TCP port of the software device. The kernel's connection manager replies to its own.
 */
#include <sys/resource.h>
#include "check/support/silent.h"
#include "incoming.h"
#include "own_clock.h"

enum {
    STRANGERS = 1000,
    HALF_OPEN = 256,      /* maximum per listener */
    HALF_OPEN_ALONE = 32, /* maximum on private queues, of blocking accepts */
    CLIENTS = 100,
};

/* ---- Unresponsive clients ------------------------------------------------------------------------------ */

/* Connects this number of unresponsive clients, one after the other, each when the listener has answered the one
 * before. */
static void let_strangers_in(int *fd, int count)
{
    for (int i = 0; i < count; i++) {
        double late = seconds_now() + WAIT_MS / 1e3;
        bool there = false;

        fd[i] = silent_ask(&address);
        while (!silent_is_answered(fd[i], &there)) {
            ck_assert_msg(seconds_now() < late, "stranger %d is not answered", i);
            inbox_pump(&box, 1);
        }
        ck_assert_msg(there, "stranger %d was refused", i);
    }
}

static void send_away(const int *fd, int count)
{
    for (int i = 0; i < count; i++)
        close(fd[i]);
}

/* Checks that the last `kept` of the connections are open, and all others closed. */
static void expect_kept(const int *fd, int count, int kept)
{
    for (int i = 0; i < count; i++)
        ck_assert_msg(silent_is_there(fd[i]) == (i >= count - kept), "of %d strangers number %d is %s", count,
                      i, silent_is_there(fd[i]) ? "kept" : "gone");
}

/* ---- Clients ------------------------------------------------------------------------------------------- */

static void *connect_one(void *arg)
{
    int *sock = arg;

    must(*sock = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_blocking_connect(*sock, SA(&address), address.length));
    return NULL;
}

static void *accept_one(void *arg)
{
    must(*(int *)arg = exs_blocking_accept(listener, NULL, NULL));
    return NULL;
}

static void expect_soon(double start)
{
    ck_assert_msg(seconds_now() - start < LATE_S, "a good client was accepted after %.2f s",
                  seconds_now() - start);
}

/* ---- Half-open ----------------------------------------------------------------------------------------- */

/* No call finds the socket of a half-open connection by its number before an accept has returned it. */
START_TEST(no_number_before_the_accept)
{
    int fd, client, server, last = count_fds() + 20;
    struct address name;

    if (on_rdma())
        return;
    incoming_begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(&fd, 1);
    for (int number = 0; number < last; number++) {
        name.length = sizeof(name.storage);
        if (number == listener)
            must(exs_getsockname(number, SA(&name), &name.length));
        else
            must_fail(exs_getsockname(number, SA(&name), &name.length), EBADF);
    }
    pthread_t thread = thread_start(connect_one, &client);

    server = accepted(&box);
    thread_join(thread);
    name.length = sizeof(name.storage);
    must(exs_getpeername(server, SA(&name), &name.length));
    close_socket(&box, server);
    must(exs_blocking_close(client));
    close(fd);
    incoming_end();
}
END_TEST

/* An accept is used for a connection that is established, not for a request. */
START_TEST(silence_delays_nobody)
{
    static int fd[STRANGERS];
    int client, server;

    if (on_rdma())
        return;
    incoming_begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(fd, STRANGERS);
    double start = seconds_now();
    pthread_t thread = thread_start(connect_one, &client);
    server = accepted(&box);
    expect_soon(start);
    thread_join(thread);
    close_socket(&box, server);
    must(exs_blocking_close(client));
    expect_kept(fd, STRANGERS, HALF_OPEN - 1); /* the last one that was dropped made room for the client */
    send_away(fd, STRANGERS);
    incoming_end();
}
END_TEST

/* exs_half_open is the limit of the process that sets it. */
START_TEST(a_configured_limit)
{
    enum { FEW = 5, MANY = 40 };
    static int fd[MANY];
    exs_config_t config = EXS_CONFIG_INIT;
    int client, server;

    if (on_rdma())
        return;
    config.exs_half_open = FEW;
    must(exs_init_config(EXS_VERSION, &config));
    incoming_begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(fd, MANY);
    pthread_t thread = thread_start(connect_one, &client);
    server = accepted(&box);
    thread_join(thread);
    close_socket(&box, server);
    must(exs_blocking_close(client));
    expect_kept(fd, MANY, FEW - 1);
    send_away(fd, MANY);
    incoming_end();
}
END_TEST

START_TEST(silence_delays_no_blocking_accept)
{
    static int fd[STRANGERS];
    int client, server;

    if (on_rdma())
        return;
    incoming_begin();
    pthread_t acceptor = thread_start(accept_one, &server);
    let_strangers_in(fd, STRANGERS);
    double start = seconds_now();
    pthread_t thread = thread_start(connect_one, &client);
    thread_join(acceptor);
    expect_soon(start);
    thread_join(thread);
    must(exs_blocking_close(server));
    must(exs_blocking_close(client));
    expect_kept(fd, STRANGERS, HALF_OPEN_ALONE - 1);
    send_away(fd, STRANGERS);
    incoming_end();
}
END_TEST

/* More responsive clients than may be half-open, at the same time: none is dropped for another. The accepting thread
 * has its own clock, so time in which the clients do not run does not count. */
static void *accept_all(void *arg)
{
    int *server = arg;

    own_clock = true;
    for (int i = 0; i < CLIENTS; i++)
        accept_one(&server[i]);
    return NULL;
}

START_TEST(many_at_once)
{
    static int client[CLIENTS], server[CLIENTS];
    char byte;

    incoming_begin();
    for (int i = 0; i < CLIENTS; i++) {
        must(client[i] = exs_socket(PF_INET, SOCK_STREAM, 0));
        must(exs_connect(client[i], SA(&address), address.length, 0, NULL, box.queue, NULL));
    }
    pthread_t thread = thread_start(accept_all, server);
    for (int i = 0; i < CLIENTS; i++)
        take_good(&box, EXS_EVT_CONNECT, client[i]);
    thread_join(thread);
    for (int i = 0; i < CLIENTS; i++) /* the order is unknown, so each server sends the same */
        must(exs_blocking_send(server[i], "x", 1, 0, NULL));
    for (int i = 0; i < CLIENTS; i++) {
        must(exs_recv(client[i], &byte, 1, 0, box.queue, NULL, NULL));
        take_good(&box, EXS_EVT_RECV, client[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        close_socket(&box, client[i]);
        must(exs_blocking_close(server[i]));
    }
    incoming_end();
}
END_TEST

/* A half-open connection takes two descriptors: its TCP connection and the future socket's number. */
START_TEST(bound_of_descriptors)
{
    static int fd[2 * HALF_OPEN];

    if (on_rdma())
        return;
    incoming_begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(fd, 4);
    int before = count_fds();

    let_strangers_in(fd + 4, COUNT(fd) - 4);
    ck_assert_int_le(count_fds() - before - (COUNT(fd) - 4), 2 * (HALF_OPEN - 4) + MORE_SOCKETS);
    send_away(fd, COUNT(fd));
    must(exs_close(listener, 0, box.queue, NULL));
    take_failed(&box, EXS_EVT_ACCEPT, listener, ECANCELED);
    take_good(&box, EXS_EVT_CLOSE, listener);
    inbox_close(&box);
}
END_TEST

/* If no descriptor is left, the oldest half-open connection is dropped, too. */
START_TEST(no_descriptor_left)
{
    static int fd[100], filler[1 << 16];
    int client, count = 0;

    if (on_rdma())
        return;
    incoming_begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(fd, COUNT(fd));
    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), before = count_fds();
    bool there;

    must(connect(late, SA(&address), address.length));
    /* Until the listener has accepted the TCP connection. */
    for (double end_ = seconds_now() + WAIT_MS / 1e3; count_fds() == before;) {
        ck_assert_msg(seconds_now() < end_, "a connection is not taken in");
        inbox_pump(&box, 1);
    }
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){1024, 1024});
    while (count < COUNT(filler) && (filler[count] = dup(late)) >= 0)
        count++;
    ck_assert_int_eq(errno, EMFILE);
    silent_say(late);
    for (double end_ = seconds_now() + WAIT_MS / 1e3; !silent_is_answered(late, &there);) {
        ck_assert(seconds_now() < end_);
        inbox_pump(&box, 1);
    }
    ck_assert_msg(there, "refused, though half-open connections could have made room");
    ck_assert(!silent_is_there(fd[0]) && silent_is_there(fd[COUNT(fd) - 1]));
    send_away(filler, count);
    close(late);
    send_away(fd, COUNT(fd));
    pthread_t thread = thread_start(connect_one, &client);
    close_socket(&box, accepted(&box));
    thread_join(thread);
    must(exs_blocking_close(client));
    incoming_end();
}
END_TEST

/* Half-open connections do not keep the listener open, nor the queue that would be their home queue. */
START_TEST(end_of_the_listener_or_queue)
{
    int fd[4], client, server;

    if (on_rdma())
        return;
    incoming_begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(fd, COUNT(fd));
    must_fail(exs_qdelete(box.queue), EBUSY);
    if (_i == 0) {
        must(exs_close(listener, 0, box.queue, NULL));
        take_failed(&box, EXS_EVT_ACCEPT, listener, ECANCELED);
        take_good(&box, EXS_EVT_CLOSE, listener);
        inbox_close(&box);
    } else {
        pthread_t thread = thread_start(connect_one, &client);

        server = accepted(&box);
        thread_join(thread);
        must(exs_blocking_close(client));
        must_fail(exs_qdelete(box.queue), EBUSY);
        expect_kept(fd, COUNT(fd), COUNT(fd));
        close_socket(&box, server);
        inbox_close(&box);
        must(exs_blocking_close(listener));
    }
    expect_kept(fd, COUNT(fd), 0);
    send_away(fd, COUNT(fd));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("incoming");
    TCase *half_open = add_bare_case(suite, "half-open", 40);

    tcase_add_test(half_open, no_number_before_the_accept);
    tcase_add_test(half_open, silence_delays_nobody);
    tcase_add_test(half_open, a_configured_limit);
    tcase_add_test(half_open, silence_delays_no_blocking_accept);
    tcase_add_test(half_open, many_at_once);
    tcase_add_test(half_open, bound_of_descriptors);
    tcase_add_test(half_open, no_descriptor_left);
    tcase_add_loop_test(half_open, end_of_the_listener_or_queue, 0, 2);
    return run_suite(suite);
}
