/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_poll_blocking.c - blocking exs_poll calls: sockets in every state, listeners, and ordinary descriptors
 * together with sockets.
 */
#include "check/exs/polled.h"
#include "check/support/asleep.h"

#include <fcntl.h>
#include <sched.h>
#include "core/sock/sock.h"

START_TEST(reads_and_writes)
{
    struct pair pair;
    char in[10];

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    ck_assert_int_eq(ready_now(pair.server, EXS_POLLIN), 0);
    ck_assert_int_eq(ready_now(pair.server, EXS_POLLIN | EXS_POLLOUT), EXS_POLLOUT);
    ck_assert_int_eq(exs_blocking_send(pair.client, "abc", 3, 0, NULL), 3);
    becomes_ready(pair.server, EXS_POLLIN, EXS_POLLIN);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, 1, MSG_DONTWAIT, NULL), 1);
    ck_assert_int_eq(ready_now(pair.server, EXS_POLLIN | EXS_POLLOUT), EXS_POLLIN | EXS_POLLOUT);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, 10, MSG_DONTWAIT, NULL), 2);
    ck_assert_int_eq(ready_now(pair.server, EXS_POLLIN), 0);
    must(exs_shutdown(pair.client, SHUT_WR, EXS_BLOCK, NULL, NULL));
    becomes_ready(pair.server, EXS_POLLIN, EXS_POLLIN);
    ck_assert_int_eq(ready_now(pair.client, EXS_POLLOUT), EXS_POLLOUT); /* a send fails with EPIPE */
    must(exs_shutdown(pair.server, SHUT_WR, EXS_BLOCK, NULL, NULL));
    becomes_ready(pair.client, EXS_POLLIN, EXS_POLLIN | EXS_POLLHUP);
    pair_close_blocking(&pair);
}
END_TEST

/* While the peer's buffers are full the socket is not writable. A thread that receives makes it writable. */
static void *receive_all(void *argument)
{
    const struct pair *pair = argument;
    uint8_t *in = new_buffer(LENGTH);

    ck_assert_int_eq(exs_blocking_recv(pair->server, in, 200 * KIB, MSG_WAITALL, NULL), 200 * KIB);
    free(in);
    return NULL;
}

START_TEST(waits_for_room)
{
    uint8_t *out = new_buffer(LENGTH);
    struct pair pair;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    must(exs_blocking_send(pair.client, out, LENGTH, MSG_DONTWAIT, NULL));
    ck_assert_int_eq(ready_now(pair.client, EXS_POLLOUT), 0);
    pthread_t thread = thread_start(receive_all, &pair);
    becomes_ready(pair.client, EXS_POLLOUT, EXS_POLLOUT);
    must(exs_blocking_send(pair.client, out, 1, MSG_DONTWAIT, NULL));
    thread_join(thread);
    free(out);
    must(exs_blocking_close(pair.client));
    must(exs_blocking_close(pair.server));
    must(exs_blocking_close(pair.listener));
}
END_TEST

/* Sockets that are not connected, a negative number, and a number that is no socket. */
START_TEST(other_states)
{
    struct address address = loopback(AF_INET, 0);
    int fresh = exs_socket(PF_INET, SOCK_STREAM, 0), bound = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(exs_bind(bound, SA(&address), address.length));
    ck_assert_int_eq(ready_now(fresh, EXS_POLLIN | EXS_POLLOUT), EXS_POLLOUT | EXS_POLLHUP);
    ck_assert_int_eq(ready_now(bound, EXS_POLLIN), EXS_POLLHUP);
    ck_assert_int_eq(ready_now(-5, EXS_POLLIN), 0);
    must(exs_blocking_close(bound));
    ck_assert_int_eq(ready_now(bound, EXS_POLLIN), EXS_POLLNVAL);
    must(exs_blocking_close(fresh));
}
END_TEST

static void *connect_to(void *argument)
{
    const struct address *address = argument;
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(exs_blocking_connect(client, SA(address), address->length));
    return (void *)(intptr_t)client;
}

/* A listener is readable when an accept would return a connection. */
START_TEST(accepts)
{
    struct address address;
    int listener = open_listener(AF_INET, SOCK_STREAM, 5, &address);
    void *client;

    ck_assert_int_eq(ready_now(listener, EXS_POLLIN | EXS_POLLOUT), 0);
    pthread_t thread = thread_start(connect_to, &address);
    becomes_ready(listener, EXS_POLLIN, EXS_POLLIN);
    int server = exs_blocking_accept(listener, NULL, NULL);
    must(server);
    ck_assert_int_eq(pthread_join(thread, &client), 0);
    ck_assert_int_eq(ready_now(listener, EXS_POLLIN), 0);
    must(exs_blocking_close((int)(intptr_t)client));
    becomes_ready(server, EXS_POLLIN, EXS_POLLIN);
    must(exs_blocking_close(server));
    thread = thread_start(connect_to, &address);
    while (ready_now(listener, EXS_POLLIN) == 0) /* only these polls make the connection progress */
        ;
    server = exs_blocking_accept(listener, NULL, NULL);
    must(server);
    ck_assert_int_eq(pthread_join(thread, &client), 0);
    must(exs_blocking_close((int)(intptr_t)client));
    must(exs_blocking_close(server));
    must(exs_blocking_close(listener));
}
END_TEST

/* A pipe that is named twice wakes the sleeping thread, whichever of the two entries requests an event. */
static void *poll_twice(void *argument)
{
    struct sleeping *sleeping = argument;
    exs_pollfd_t fds[] = {{.exs_fd = sleeping->end}, {.exs_fd = sleeping->end}};

    fds[sleeping->asking].exs_events = EXS_POLLIN;
    sleeping->tid = gettid();
    ck_assert_int_eq(exs_poll(fds, COUNT(fds), EXS_BLOCK, NULL, NULL, NULL), 1);
    ck_assert_int_eq(fds[sleeping->asking].exs_revents, EXS_POLLIN);
    return NULL;
}

START_TEST(twice)
{
    struct sleeping sleeping = {.asking = _i};
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    sleeping.end = ends[0];
    pthread_t thread = thread_start(poll_twice, &sleeping);
    await_sleep(&sleeping.tid);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    thread_join(thread);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* A socket, a pipe that is named twice, and a file that is always ready. */
START_TEST(others)
{
    struct pair pair;
    int ends[2];

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);

    must(file);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    exs_pollfd_t fds[] = {{.exs_fd = pair.server, .exs_events = EXS_POLLIN},
                          {.exs_fd = ends[0], .exs_events = EXS_POLLIN},
                          {.exs_fd = -1, .exs_events = EXS_POLLIN},
                          {.exs_fd = ends[1]},
                          {.exs_fd = ends[0]},
                          {.exs_fd = file}};
    ck_assert_int_eq(ready_now(ends[0], EXS_POLLIN), 0);
    ck_assert_int_eq(ready_now(ends[1], EXS_POLLOUT), EXS_POLLOUT);
    ck_assert_int_eq(ready_now(file, EXS_POLLIN), EXS_POLLIN);
    double start = seconds_now();
    ck_assert_int_eq(exs_poll(fds, COUNT(fds), EXS_BLOCK, &shortly, NULL, NULL), 0);
    ck_assert(seconds_now() - start >= SHORT_US / 1e6 && seconds_now() - start < SHORT_US / 1e6 + 5 * LATE_S);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(exs_poll(fds, COUNT(fds), EXS_BLOCK, NULL, NULL, NULL), 1);
    ck_assert_int_eq(fds[1].exs_revents, EXS_POLLIN);
    ck_assert_int_eq(fds[0].exs_revents | fds[2].exs_revents | fds[3].exs_revents | fds[4].exs_revents, 0);
    ck_assert_int_eq(exs_blocking_send(pair.client, "abc", 3, 0, NULL), 3);
    becomes_ready(pair.server, EXS_POLLIN, EXS_POLLIN);
    ck_assert_int_eq(exs_poll(fds, COUNT(fds), EXS_BLOCK, NULL, NULL, NULL), 2);
    close(file);
    close(ends[0]);
    close(ends[1]);
    ck_assert_int_eq(ready_now(ends[0], EXS_POLLIN), EXS_POLLNVAL);
    pair_close_blocking(&pair);
}
END_TEST

/* All event bits that poll(2) allows for a pipe, also the sign bit of the short. */
START_TEST(every_bit)
{
    static const short wanted[] = {EXS_POLLIN, 0x7fff, (short)0x8000, (short)0x8001, -1};
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < COUNT(wanted); i++) {
        exs_pollfd_t twice[] = {{.exs_fd = ends[0], .exs_events = wanted[i]},
                                {.exs_fd = ends[0], .exs_events = EXS_POLLIN}};

        ck_assert_int_eq(exs_poll(twice, 1, EXS_BLOCK, &shortly, NULL, NULL), 0);
        ck_assert_int_eq(exs_poll(twice, 2, EXS_BLOCK, &shortly, NULL, NULL), 0);
        ck_assert_int_eq(write(ends[1], "x", 1), 1);
        ck_assert_int_eq(exs_poll(twice, 2, EXS_BLOCK, NULL, NULL, NULL), wanted[i] & EXS_POLLIN ? 2 : 1);
        ck_assert_int_eq(twice[1].exs_revents, EXS_POLLIN);
        char byte;

        ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    }
    close(ends[0]);
    close(ends[1]);
}
END_TEST

static void *poll_pipe(void *argument)
{
    struct sleeping *sleeping = argument;
    exs_pollfd_t fd = {.exs_fd = sleeping->end, .exs_events = EXS_POLLIN};

    sleeping->tid = gettid();
    must_fail(exs_poll(&fd, 1, EXS_BLOCK, NULL, NULL, NULL), ECANCELED);
    return NULL;
}

/* A blocking poll of a pipe without a timeout is cancelled through the pipe's descriptor. */
START_TEST(cancelled_by_a_pipe)
{
    struct sleeping sleeping = {.asking = 0};
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    sleeping.end = ends[0];
    must_fail(exs_cancel(ends[0], NULL, EXS_CANCEL_ALL), EBADF); /* no poll names it */
    pthread_t thread = thread_start(poll_pipe, &sleeping);

    await_sleep(&sleeping.tid);
    must_fail(exs_cancel(ends[1], NULL, EXS_CANCEL_ALL), EBADF);
    ck_assert_int_eq(exs_cancel(ends[0], NULL, 0), 1);
    thread_join(thread);
    must_fail(exs_cancel(ends[0], NULL, EXS_CANCEL_ALL), EBADF);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

static void *poll_client(void *argument)
{
    const struct pair *pair = argument;

    becomes_ready(pair->client, EXS_POLLIN, EXS_POLLNVAL);
    return NULL;
}

static void await_poll(int socket)
{
    for (bool is_polled = false; !is_polled; sched_yield()) {
        struct sock *sock = xs_sock_get_locked(socket);

        ck_assert_ptr_nonnull(sock);
        is_polled = !LIST_EMPTY(&sock->polls);
        xs_sock_put_locked(sock);
    }
}

/* A waiting poll drives the socket only until it returns. The service thread completes a close that names no
 * queue. */
START_TEST(a_close_is_not_left_to_it)
{
    uint8_t *out = new_buffer(LENGTH), *in = new_buffer(LENGTH);
    struct pair pair;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    must(exs_send(pair.client, out, LENGTH, EXS_UNSIGNALED, NULL, NULL, NULL));
    pthread_t poller = thread_start(poll_client, &pair);
    await_poll(pair.client);
    must(exs_close(pair.client, EXS_LINGER, NULL, NULL));
    thread_join(poller);
    ck_assert_msg(xs_queue_count() == 0, "the poll's queue is there for ever");
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, LENGTH, MSG_WAITALL, NULL), LENGTH);
    must(exs_blocking_close(pair.server));
    must(exs_blocking_close(pair.listener));
    must(exs_fini());
    ck_assert(!xs_sock_has_left(pair.client));
    free(in);
    free(out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("poll blocking");
    TCase *tcase = add_case(suite, "poll", 20);

    tcase_add_test(tcase, reads_and_writes);
    tcase_add_test(tcase, waits_for_room);
    tcase_add_test(tcase, other_states);
    tcase_add_test(tcase, accepts);
    tcase_add_test(tcase, others);
    tcase_add_loop_test(tcase, twice, 0, 2);
    tcase_add_test(tcase, every_bit);
    tcase_add_test(tcase, cancelled_by_a_pipe);
    tcase_add_test(tcase, a_close_is_not_left_to_it);
    return run_suite(suite);
}
