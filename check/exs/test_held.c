/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_held.c - the sends that a loop's thread starts while it handles a batch of events share a message, and leave at the
 * latest when the thread takes more events, sleeps or waits. All other sends leave at once.
 */
#include <pthread.h>
#include "inside.h"

#define FEW 4     /* events of a batch */
#define EVENTS 64 /* maximum of that */
#define EACH 64   /* bytes, of one send */

static char byte[EVENTS];

/* Gives the client's queue this many events, and takes them as one batch of a loop. */
static void take_batch(const struct pair *pair, int count)
{
    exs_qhandle_t queue = pair->client_box->queue;
    exs_event_t events[EVENTS];
    int taken;

    for (int i = 0; i < count; i++)
        must(exs_recv(pair->client, &byte[i], 1, 0, queue, NULL, NULL));
    must(exs_send(pair->server, byte, (size_t)count, 0, pair->server_box->queue, NULL, NULL));
    while ((taken = exs_qpoll(queue, events, EVENTS, EXS_LOOP_BUDGET)) == 0)
        ;
    ck_assert_int_eq(taken, count);
}

static uint8_t out[EVENTS * EACH];
static exs_mhandle_t region;

static void start_send(const struct pair *pair, int number, int flags)
{
    must(exs_send(pair->client, out + number * EACH, EACH, flags, pair->client_box->queue, NULL, region));
}

/* Number of messages that the client has posted since its credits were `before`. */
static uint32_t messages_since(const struct pair *pair, uint32_t before)
{
    return before - conn_of(pair->client)->credits.available;
}

static void open_with_batch(struct pair *pair, int events)
{
    pair_open(pair, AF_INET, SOCK_STREAM);
    pattern_fill(out, sizeof(out), 9, 0);
    region = exs_mregister(out, sizeof(out), 0);
    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    take_batch(pair, events);
}

/* The server gets the bytes of this many sends, in order, and each send has its event. */
static void close_after(struct pair *pair, int sends)
{
    uint8_t in[sizeof(out)];

    must(exs_recv(pair->server, in, (size_t)sends * EACH, MSG_WAITALL, pair->server_box->queue, NULL, NULL));
    take_good(pair->server_box, EXS_EVT_RECV, pair->server);
    pattern_check(in, (size_t)sends * EACH, 9, 0);
    take_good(pair->server_box, EXS_EVT_SEND, pair->server);
    for (int i = 0; i < sends; i++)
        take_good(pair->client_box, EXS_EVT_SEND, pair->client);
    pair_close(pair);
    must(exs_mderegister(region, 0));
}

/* The first of as many sends as events leaves at once, and the others leave together with the last one. */
START_TEST(a_send_for_each_event)
{
    struct pair pair;

    open_with_batch(&pair, FEW);
    uint32_t before = conn_of(pair.client)->credits.available;

    for (int i = 0; i < FEW - 1; i++) {
        start_send(&pair, i, 0);
        ck_assert_uint_eq(messages_since(&pair, before), 1);
    }
    start_send(&pair, FEW - 1, 0);
    ck_assert_uint_eq(messages_since(&pair, before), 2);
    close_after(&pair, FEW);
}
END_TEST

/* A message that is full leaves before the batch is handled. */
START_TEST(many_sends)
{
    struct pair pair;

    open_with_batch(&pair, EVENTS);
    const struct conn *conn = conn_of(pair.client);
    uint32_t before = conn->credits.available;

    for (uint32_t i = 0; i < EVENTS; i++) {
        start_send(&pair, (int)i, 0);
        ck_assert_uint_eq(messages_since(&pair, before),
                          1 + (i == EVENTS - 1 ? i + conn->limits.max_gather - 1 : i) /
                                  conn->limits.max_gather);
    }
    close_after(&pair, EVENTS);
}
END_TEST

/* What the thread does next, which posts the sends that it holds. */
static void prepare(const struct pair *pair)
{
    must(exs_qprepare(pair->client_box->queue));
}

static void poll_other_queue(const struct pair *pair)
{
    exs_qhandle_t other = exs_qcreate(1);
    exs_event_t event;

    (void)pair;
    ck_assert_int_eq(exs_qdequeue(other, &event, 1, &(struct timeval){0}), 0);
    must(exs_qdelete(other));
}

static void ask_whether_writable(const struct pair *pair)
{
    exs_pollfd_t ready = {.exs_fd = pair->client, .exs_events = EXS_POLLOUT};

    must(exs_poll(&ready, 1, EXS_BLOCK, &(struct timeval){0}, NULL, NULL));
}

static void wait_for_other_socket(const struct pair *pair)
{
    struct pair other;
    char in;

    (void)pair;
    pair_open_blocking(&other, AF_INET, SOCK_STREAM);
    must(exs_blocking_send(other.server, "!", 1, 0, NULL));
    ck_assert_int_eq(exs_blocking_recv(other.client, &in, 1, 0, NULL), 1);
    pair_close_blocking(&other);
}

static void (*const next_steps[])(const struct pair *pair) = {prepare, poll_other_queue, ask_whether_writable,
                                                              wait_for_other_socket};

START_TEST(what_the_thread_does_next)
{
    struct pair pair;

    open_with_batch(&pair, FEW);
    uint32_t before = conn_of(pair.client)->credits.available;

    start_send(&pair, 0, 0);
    start_send(&pair, 1, 0);
    start_send(&pair, 2, 0);
    ck_assert_uint_eq(messages_since(&pair, before), 1);
    next_steps[_i](&pair);
    ck_assert_uint_eq(messages_since(&pair, before), 2);
    close_after(&pair, 3);
}
END_TEST

static void *send_third(void *argument)
{
    start_send(argument, 2, 0);
    return NULL;
}

/* A send of another thread, or one with MSG_DONTWAIT, leaves at once, and so do those that are held. */
START_TEST(a_send_that_is_not_held)
{
    struct pair pair;
    pthread_t thread;

    open_with_batch(&pair, FEW);
    uint32_t before = conn_of(pair.client)->credits.available;

    start_send(&pair, 0, 0);
    start_send(&pair, 1, 0);
    if (_i == 0) {
        start_send(&pair, 2, MSG_DONTWAIT);
    } else {
        ck_assert_int_eq(pthread_create(&thread, NULL, send_third, &pair), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    ck_assert_uint_eq(messages_since(&pair, before), _i == 0 ? 3 : 2);
    close_after(&pair, 3);
}
END_TEST

/* After a batch of one event, and outside of a loop, no send is held. */
START_TEST(no_batch)
{
    struct pair pair;

    open_with_batch(&pair, _i == 0 ? 1 : FEW);
    if (_i == 1)
        prepare(&pair);
    uint32_t before = conn_of(pair.client)->credits.available;

    start_send(&pair, 0, 0);
    start_send(&pair, 1, 0);
    ck_assert_uint_eq(messages_since(&pair, before), 2);
    close_after(&pair, 2);
}
END_TEST

/* A socket that lingers sends what is held before it closes. */
START_TEST(closed_while_held)
{
    struct pair pair;
    uint8_t in[sizeof(out)];

    open_with_batch(&pair, FEW);
    for (int i = 0; i < 3; i++)
        start_send(&pair, i, 0);
    must(exs_close(pair.client, EXS_LINGER, pair.client_box->queue, NULL));
    must(exs_recv(pair.server, in, 3 * EACH, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    pattern_check(in, 3 * EACH, 9, 0);
    take_good(pair.server_box, EXS_EVT_SEND, pair.server);
    for (int i = 0; i < 3; i++)
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    close_socket(pair.server_box, pair.server);
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    pair_close_rest(&pair);
    must(exs_mderegister(region, 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("held sends");
    TCase *tcase = add_case(suite, "in a loop", 20);

    tcase_add_test(tcase, a_send_for_each_event);
    tcase_add_test(tcase, many_sends);
    tcase_add_loop_test(tcase, what_the_thread_does_next, 0, sizeof(next_steps) / sizeof(*next_steps));
    tcase_add_loop_test(tcase, a_send_that_is_not_held, 0, 2);
    tcase_add_loop_test(tcase, no_batch, 0, 2);
    tcase_add_test(tcase, closed_while_held);
    return run_suite(suite);
}
