/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_limits.c - SO_RCVTIMEO and SO_SNDTIMEO: an operation that takes longer ends with ETIMEDOUT and the number of
 * bytes transferred, and the connection still works.
 */
#include "check/support/support.h"

#define LENGTH (300 * KIB) /* more than the peer's ring buffer */
#define LIMIT_US 100000

static void set_limit(int socket, int option, long microseconds)
{
    struct timeval limit = {.tv_sec = microseconds / 1000000, .tv_usec = microseconds % 1000000}, held;
    socklen_t length = sizeof held;

    must(exs_setsockopt(socket, SOL_SOCKET, option, &limit, sizeof limit));
    must(exs_getsockopt(socket, SOL_SOCKET, option, &held, &length));
    ck_assert_uint_eq(length, sizeof held);
    ck_assert_int_eq(held.tv_sec, limit.tv_sec);
    ck_assert_int_eq(held.tv_usec, limit.tv_usec);
}

/* Not less than the timeout, and not much more, with an allowance for a slow machine. */
static void took_the_time(double start)
{
    double took = seconds_now() - start;

    ck_assert(took >= LIMIT_US / 1e6 && took < LIMIT_US / 1e6 + 5 * LATE_S);
}

static size_t bytes_of(const exs_event_t *event)
{
    return event->exs_evt_union.exs_evt_xfer.exs_evt_length;
}

/* Short and long receives, on each kind of socket. A second receive, without a timeout, remains pending. */
START_TEST(receives)
{
    size_t length = _i & 4 ? 20000 : 100;
    uint8_t *in = new_buffer(2 * length);
    struct pair pair;
    double start;

    pair_open_kind(&pair, _i % 4);
    set_limit(pair.server, SO_RCVTIMEO, LIMIT_US);
    start = seconds_now();
    must(exs_recv(pair.server, in, length, MSG_WAITALL, pair.server_box->queue, in, NULL));
    set_limit(pair.server, SO_RCVTIMEO, 0);
    must(exs_recv(pair.server, in + length, length, MSG_WAITALL, pair.server_box->queue, in + length, NULL));
    exs_event_t event = take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ETIMEDOUT);
    took_the_time(start);
    ck_assert_ptr_eq(event.exs_evt_ahandle, in);
    ck_assert_uint_eq(bytes_of(&event), 0);
    inbox_quiet(pair.server_box, 2 * LIMIT_US / 1000);
    must(exs_send(pair.client, in, length, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(bytes_of(&event), length);
    free(in);
    pair_close(&pair);
}
END_TEST

/* Starts three receives, the first with the longest timeout. Returns whether they end in reverse order. Receives whose
 * timeouts have all expired when the queue is polled end in their own order. */
static bool end_in_turn(struct pair *pair)
{
    bool in_turn = true;
    char in[300];
    double start = seconds_now();

    for (int i = 0; i < 3; i++) {
        set_limit(pair->server, SO_RCVTIMEO, (3 - i) * LIMIT_US);
        must(exs_recv(pair->server, in + 100 * i, 100, MSG_WAITALL, pair->server_box->queue, in + 100 * i,
                      NULL));
    }
    must(exs_send(pair->client, "0123456789", 10, EXS_UNSIGNALED, NULL, NULL, NULL));
    for (int left = 3; left > 0; left--) {
        exs_event_t event = take_failed(pair->server_box, EXS_EVT_RECV, pair->server, ETIMEDOUT);
        int which = (int)((char *)event.exs_evt_ahandle - in) / 100;

        ck_assert_double_ge(seconds_now() - start, (3 - which) * LIMIT_US / 1e6);
        ck_assert_uint_eq(bytes_of(&event), which == 0 ? 10 : 0);
        in_turn = in_turn && which == left - 1;
    }
    ck_assert_mem_eq(in, "0123456789", 10);
    return in_turn;
}

/* The event has the bytes that arrived. Each receive ends after its own timeout. */
START_TEST(some_bytes)
{
    struct pair pair;
    int tries = 20;

    pair_open_kind(&pair, 0);
    while (!end_in_turn(&pair))
        ck_assert_msg(--tries > 0, "a limit waits for a longer one");
    set_limit(pair.server, SO_RCVTIMEO, 0);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 20000, 1);
    pair_close(&pair);
}
END_TEST

/* Data that arrives in time is received, and the timeout has no effect later. */
START_TEST(in_time)
{
    struct pair pair;
    char in[2];

    pair_open_kind(&pair, _i);
    set_limit(pair.server, SO_RCVTIMEO, 60000000);
    set_limit(pair.client, SO_SNDTIMEO, 60000000);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 20000, 1);
    set_limit(pair.server, SO_RCVTIMEO, LIMIT_US);
    must(exs_recv(pair.server, in, 1, 0, pair.server_box->queue, NULL, NULL));
    must(exs_send(pair.client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);
    if (event.exs_evt_errno != 0) { /* on a busy machine */
        ck_assert_int_eq(event.exs_evt_errno, ETIMEDOUT);
        set_limit(pair.server, SO_RCVTIMEO, 0);
        must(exs_recv(pair.server, in + 1, 1, 0, pair.server_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    }
    inbox_quiet(pair.server_box, 2 * LIMIT_US / 1000);
    pair_close(&pair);
}
END_TEST

START_TEST(sends)
{
    uint8_t *out = new_buffer(LENGTH), *in = new_buffer(LENGTH);
    struct pair pair;
    double start;

    pair_open_kind(&pair, _i);
    pattern_fill(out, LENGTH, 1, 0);
    set_limit(pair.client, SO_SNDTIMEO, LIMIT_US);
    start = seconds_now();
    must(exs_send(pair.client, out, LENGTH, 0, pair.client_box->queue, out, NULL));
    exs_event_t event = take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ETIMEDOUT);
    took_the_time(start);
    size_t moved = bytes_of(&event);
    if (kinds[_i].type == SOCK_STREAM) {
        ck_assert(moved > 0 && moved < LENGTH);
        must(exs_recv(pair.server, in, moved, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        pattern_check(in, moved, 1, 0);
    } else {
        ck_assert_uint_eq(moved, 0);
    }
    set_limit(pair.client, SO_SNDTIMEO, 0);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 20000, 2);
    free(out);
    free(in);
    pair_close(&pair);
}
END_TEST

/* Each send ends after its own timeout. */
START_TEST(sends_in_turn)
{
    uint8_t bytes[2][100] = {0};
    struct pair pair;

    pair_open_kind(&pair, 1); /* a SEQPACKET, whose messages wait for receives */
    for (int i = 0; i < 2; i++) {
        set_limit(pair.client, SO_SNDTIMEO, (1 + 2 * i) * LIMIT_US);
        must(exs_send(pair.client, bytes[i], 100, 0, pair.client_box->queue, bytes[i], NULL));
    }
    for (int i = 0; i < 2; i++) {
        exs_event_t event = take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ETIMEDOUT);

        ck_assert_ptr_eq(event.exs_evt_ahandle, bytes[i]);
    }
    pair_close(&pair);
}
END_TEST

/* A blocking call without bytes fails, and one with some returns their number. The peer does not run. */
START_TEST(calls_that_wait)
{
    uint8_t *bytes = new_buffer(LENGTH);
    struct pair pair;
    double start;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    set_limit(pair.client, SO_RCVTIMEO, LIMIT_US);
    set_limit(pair.client, SO_SNDTIMEO, LIMIT_US);
    set_limit(pair.listener, SO_RCVTIMEO, LIMIT_US);
    start = seconds_now();
    must_fail(exs_blocking_recv(pair.client, bytes, LENGTH, 0, NULL), ETIMEDOUT);
    took_the_time(start);
    ck_assert_int_eq(exs_blocking_send(pair.server, "0123456789", 10, 0, NULL), 10);
    ck_assert_int_eq(exs_blocking_recv(pair.client, bytes, LENGTH, MSG_WAITALL, NULL), 10);
    start = seconds_now();
    long sent = exs_blocking_send(pair.client, bytes, LENGTH, 0, NULL);
    took_the_time(start);
    ck_assert(sent > 0 && sent < (long)LENGTH);
    must_fail(exs_blocking_send(pair.client, bytes, LENGTH, 0, NULL), ETIMEDOUT);
    start = seconds_now();
    must_fail(exs_blocking_accept(pair.listener, NULL, NULL), ETIMEDOUT);
    took_the_time(start);
    ck_assert_int_eq(exs_blocking_recv(pair.server, bytes, (size_t)sent, MSG_WAITALL, NULL), sent);
    ck_assert_int_eq(exs_blocking_send(pair.client, "x", 1, 0, NULL), 1);
    pair_close_blocking(&pair);
    free(bytes);
}
END_TEST

/* The first of two accepts has a timeout. */
START_TEST(accepts)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t first = {.exs_ahandle = "1"}, second = {.exs_ahandle = "2"};
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address),
        client = exs_socket(PF_INET, SOCK_STREAM, 0);
    double start = seconds_now();

    inbox_open(&box, 4);
    set_limit(listener, SO_RCVTIMEO, LIMIT_US);
    must(exs_accept(listener, &first, 1, 0, box.queue));
    set_limit(listener, SO_RCVTIMEO, 0);
    must(exs_accept(listener, &second, 1, 0, box.queue));
    exs_event_t event = take_failed(&box, EXS_EVT_ACCEPT, listener, ETIMEDOUT);
    took_the_time(start);
    ck_assert_ptr_eq(event.exs_evt_ahandle, first.exs_ahandle);
    ck_assert_int_eq(first.exs_socket, -1);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    event = take_good(&box, EXS_EVT_ACCEPT, listener);
    ck_assert_ptr_eq(event.exs_evt_ahandle, second.exs_ahandle);
    take_good(&box, EXS_EVT_CONNECT, client);
    close_socket(&box, client);
    close_socket(&box, event.exs_evt_union.exs_evt_accept.exs_evt_newsocket);
    must(exs_blocking_close(listener));
    inbox_close(&box);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limits");
    TCase *tcase = add_case(suite, "limits", 20);

    tcase_add_loop_test(tcase, receives, 0, 8);
    tcase_add_test(tcase, some_bytes);
    tcase_add_loop_test(tcase, in_time, 0, 4);
    tcase_add_loop_test(tcase, sends, 0, 4);
    tcase_add_test(tcase, sends_in_turn);
    tcase_add_test(tcase, calls_that_wait);
    tcase_add_test(tcase, accepts);
    return run_suite(suite);
}
