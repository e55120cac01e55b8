/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_linger.c - EXS_LINGER and SO_LINGER: all sends arrive before the socket is closed. (test_linger_cut.c tests
 * sends that do not arrive.)
 */
#include "lingering.h"
#include "own_clock.h"

#include <poll.h>

/* The server receives everything that the client sent, and then the end of the stream. */
static void all_arrives(struct pair *pair)
{
    uint8_t *in = new_buffer(LENGTH);

    for (int i = 0; i < SENDS; i++) {
        must(exs_recv(pair->server, in, length_of(i), MSG_WAITALL, pair->server_box->queue, NULL, NULL));
        exs_event_t event = take_good(pair->server_box, EXS_EVT_RECV, pair->server);
        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length_of(i));
        pattern_check(in, length_of(i), (uint64_t)i, 0);
    }
    must(exs_recv(pair->server, in, 1, 0, pair->server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair->server_box, EXS_EVT_RECV, pair->server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_flags & EXS_EOF, EXS_EOF);
    free(in);
}

/* With the flag, the option, and both. */
START_TEST(arrives)
{
    struct pair pair;
    int way = _i / 4;

    pair_open_kind(&pair, _i % 4);
    if (way > 0)
        set_linger(pair.client, 1, 60);
    uint8_t *out = send_all(&pair);
    close_client(&pair, way != 1 ? EXS_LINGER : 0);
    all_arrives(&pair);
    client_ends(&pair, out, 0, 0);
    free(out);
    close_server(&pair);
}
END_TEST

/* Without the flag, and with the option off, the close does not linger. */
START_TEST(off)
{
    struct pair pair;

    pair_open_kind(&pair, _i);
    set_linger(pair.client, 0, 60);
    uint8_t *out = send_all(&pair);
    close_client(&pair, 0);
    client_ends(&pair, out, ECANCELED, 0);
    free(out);
    close_server(&pair);
}
END_TEST

/* Without a time the close waits as long as the peer is connected, longer than for the end of the stream alone. */
START_TEST(no_time)
{
    struct pair pair;

    pair_open_kind(&pair, _i);
    uint8_t *out = send_all(&pair);
    close_client(&pair, EXS_LINGER);
    inbox_quiet(pair.client_box, 6000);
    all_arrives(&pair);
    client_ends(&pair, out, 0, 0);
    free(out);
    close_server(&pair);
}
END_TEST

/* The time has passed when the library polls, but by then everything has arrived and the connection has ended: the
 * close succeeds. */
START_TEST(seen_late)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct pollfd readable = {.fd = exs_qfd(pair.client_box->queue), .events = POLLIN};

    own_clock = true;
    set_linger(pair.client, 1, 60);
    pair.client_box->beside = NULL; /* the peer's device still acknowledges */
    do
        inbox_quiet(pair.client_box, 0);
    while (poll(&readable, 1, 0) != 0);
    close_client(&pair, 0);
    ck_assert_int_eq(poll(&readable, 1, WAIT_MS), 1);
    own_leap = 61000000000;
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    close_server(&pair);
}
END_TEST

/* An exs_shutdown before the close makes no difference: the end of the stream follows the sends. */
START_TEST(behind_a_shutdown)
{
    struct pair pair;

    pair_open_kind(&pair, _i);
    uint8_t *out = send_all(&pair);
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, out));
    close_client(&pair, EXS_LINGER);
    all_arrives(&pair);
    for (int i = 0; i < SENDS; i++)
        ends(pair.client_box, EXS_EVT_SEND, out + i * LENGTH, 0);
    ends(pair.client_box, EXS_EVT_SHUTDOWN, out, 0);
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, 0);
    free(out);
    close_server(&pair);
}
END_TEST

/* SO_SNDTIMEO no longer ends a send during a lingering close. */
START_TEST(limits)
{
    const struct timeval limit = {.tv_usec = 50000};
    struct pair pair;

    pair_open_kind(&pair, _i % 4);
    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    if (_i >= 4)
        set_linger(pair.client, 1, 60);
    uint8_t *out = send_all(&pair);
    close_client(&pair, EXS_LINGER);
    inbox_quiet(pair.client_box, 200);
    all_arrives(&pair);
    client_ends(&pair, out, 0, 0);
    free(out);
    close_server(&pair);
}
END_TEST

/* A close without a queue: the loop that drives the socket's home queue completes it. */
START_TEST(without_event)
{
    struct pair pair;

    pair_open_kind(&pair, _i);
    uint8_t *out = send_all(&pair);
    must(exs_close(pair.client, EXS_LINGER, NULL, NULL));
    all_arrives(&pair);
    for (int i = 0; i < SENDS; i++)
        ends(pair.client_box, EXS_EVT_SEND, out + i * LENGTH, 0);
    inbox_quiet(pair.client_box, QUIET_MS);
    free(out);
    close_server(&pair);
}
END_TEST

/* exs_rread counts as a send: the end of the stream follows the reads, so the peer may close after it. */
START_TEST(one_sided)
{
    uint8_t *there = new_buffer(READ), *here;
    struct pair pair;
    char byte;

    pair_open_kind(&pair, _i);
    here = read_all(&pair, there);
    close_client(&pair, EXS_LINGER);
    must(exs_recv(pair.server, &byte, 1, 0, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    must(exs_close(pair.server, 0, pair.server_box->queue, NULL));
    for (size_t i = 0; i < READS; i++) {
        ends(pair.client_box, EXS_EVT_RREAD, here + i * READ, 0);
        pattern_check(here + i * READ, READ, 5, 0);
    }
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, 0);
    take_good(pair.server_box, EXS_EVT_CLOSE, pair.server);
    pair_close_rest(&pair);
    free(here);
    free(there);
}
END_TEST

static void *close_it(void *socket)
{
    must(exs_blocking_close(*(int *)socket));
    return NULL;
}

/* A blocking close returns when everything has arrived. */
START_TEST(calls_that_wait)
{
    uint8_t *out = new_buffer(LENGTH), *in = new_buffer(LENGTH);
    struct pair pair;
    struct inbox box;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, 4);
    pattern_fill(out, LENGTH, 1, 0);
    set_linger(pair.client, 1, 60);
    must(exs_send(pair.client, out, LENGTH, 0, box.queue, out, NULL));
    pthread_t thread = thread_start(close_it, &pair.client);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, LENGTH, MSG_WAITALL, NULL), (long)LENGTH);
    pattern_check(in, LENGTH, 1, 0);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, 1, 0, NULL), 0);
    thread_join(thread);
    take_good(&box, EXS_EVT_SEND, pair.client);
    must(exs_blocking_close(pair.server));
    must(exs_blocking_close(pair.listener));
    inbox_close(&box);
    free(out);
    free(in);
}
END_TEST

/* A socket that was bound before it connected has no owner. A close without a queue does not wait: the library's thread
 * completes it, and the queue that the connect named can be deleted at once. */
START_TEST(of_a_bound_one)
{
    uint8_t *out = new_buffer(LENGTH), *in = new_buffer(LENGTH);
    struct address address, here = loopback(AF_INET, 0);
    exs_acceptaddr_t wanted = {0};
    struct inbox near, far;
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&near, 4);
    inbox_open(&far, 4);
    near.beside = &far;
    far.beside = &near;
    must(exs_bind(client, SA(&here), here.length));
    set_linger(client, 1, 60);
    must(exs_accept(listener, &wanted, 1, 0, far.queue));
    must(exs_connect(client, SA(&address), address.length, 0, NULL, near.queue, NULL));
    take_good(&near, EXS_EVT_CONNECT, client);
    take_good(&far, EXS_EVT_ACCEPT, listener);
    pattern_fill(out, LENGTH, 1, 0);
    /* Without an operation on the queue. */
    must(exs_send(client, out, LENGTH, EXS_UNSIGNALED, NULL, NULL, NULL));
    double start = seconds_now();
    must(exs_close(client, 0, NULL, NULL));
    double took = seconds_now() - start;
    ck_assert_msg(took < LATE_S, "it waited for %g s", took);
    inbox_quiet(&near, QUIET_MS);
    inbox_close(&near);
    far.beside = NULL;
    must(exs_recv(wanted.exs_socket, in, LENGTH, MSG_WAITALL, far.queue, NULL, NULL));
    take_good(&far, EXS_EVT_RECV, wanted.exs_socket);
    pattern_check(in, LENGTH, 1, 0);
    must(exs_recv(wanted.exs_socket, in, 1, 0, far.queue, NULL, NULL));
    exs_event_t event = take_good(&far, EXS_EVT_RECV, wanted.exs_socket);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    close_socket(&far, wanted.exs_socket);
    close_socket(&far, listener);
    inbox_close(&far);
    free(out);
    free(in);
}
END_TEST

/* Accepted connections inherit the listener's SO_LINGER. */
START_TEST(listeners)
{
    struct linger held;
    socklen_t length = sizeof held;
    struct pair pair;
    int client, server;

    pair_open_kind(&pair, _i);
    set_linger(pair.listener, 1, 7);
    connect_ends(pair.listener, kinds[_i].type, &pair.address, pair.client_box, pair.server_box, &client,
                 &server);
    for (int i = 0; i < 3; i++) {
        must(exs_getsockopt(i == 0   ? server
                            : i == 1 ? client
                                     : pair.server,
                            SOL_SOCKET, SO_LINGER, &held, &length));
        ck_assert_int_eq(held.l_onoff, i == 0);
        ck_assert_int_eq(held.l_linger, i == 0 ? 7 : 0);
    }
    close_socket(pair.client_box, client);
    close_socket(pair.server_box, server);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linger");
    TCase *tcase = add_case(suite, "linger", 30);

    tcase_add_loop_test(tcase, arrives, 0, 12);
    tcase_add_loop_test(tcase, off, 0, 4);
    tcase_add_loop_test(tcase, no_time, 0, 2);
    tcase_add_test(tcase, seen_late);
    tcase_add_loop_test(tcase, behind_a_shutdown, 0, 4);
    tcase_add_loop_test(tcase, limits, 0, 8);
    tcase_add_loop_test(tcase, without_event, 0, 4);
    tcase_add_loop_test(tcase, one_sided, 0, 2);
    tcase_add_test(tcase, calls_that_wait);
    tcase_add_test(tcase, of_a_bound_one);
    tcase_add_loop_test(tcase, listeners, 0, 2);
    return run_suite(suite);
}
