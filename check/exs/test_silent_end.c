/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_silent_end.c - how a connection ends after short fire-and-forget sends (EXS_UNSIGNALED, without a
 * queue): the peer receives all of them and an orderly end, or a reset; a lingering close reports whether they
 * were delivered; a linger time of 0 resets the connection.
 */
#include "lingering.h"

#define SHORT ((size_t)64)
enum { MANY = 1000 };

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
static struct pair pair;
static char *out;

static void hush(int socket, const void *bytes, size_t length)
{
    must(exs_send(socket, bytes, length, EXS_UNSIGNALED, NULL, NULL, NULL));
}

static void open_pair(int type)
{
    pair_open(&pair, AF_INET, type);
    out = new_buffer(MANY * SHORT);
    pattern_fill(out, MANY * SHORT, 3, 0);
}

static void hush_many(int socket, int count)
{
    for (int i = 0; i < count; i++)
        hush(socket, out + i * SHORT, SHORT);
}

/* Receives whole messages, or bytes, until the end of stream or an error. Returns the number of bytes, and the
 * error in *error (0: end of stream). */
static size_t received_until(int socket, struct inbox *box, int *error)
{
    char in[SHORT];
    size_t bytes = 0;

    for (;;) {
        if (exs_recv(socket, in, sizeof in, 0, box->queue, NULL, NULL) != 0) {
            *error = errno;
            return bytes;
        }
        exs_event_t event = inbox_take(box, EXS_EVT_RECV, socket);
        size_t got = event.exs_evt_union.exs_evt_xfer.exs_evt_length;
        *error = event.exs_evt_errno;
        if (event.exs_evt_errno != 0 || got == 0)
            return bytes;
        pattern_check(in, got, 3, bytes);
        bytes += got;
    }
}

/* Closes the rest, after the client's close has completed. */
static void close_rest(void)
{
    double start = seconds_now();

    close_socket(pair.server_box, pair.server);
    ck_assert_msg(seconds_now() - start < 6 + LATE_S, "the receiver's close took %g s", seconds_now() - start);
    pair_close_rest(&pair);
    free(out);
}

/* ---- Closes ------------------------------------------------------------------------------------- */

static const int counts[] = {1, 10, 100, MANY};

/* A close without lingering: the peer receives everything and the end of stream, or less and a reset; never
 * less and the end of stream. */
START_TEST(closed_in_order)
{
    int error;

    open_pair(types[_i & 1]);
    hush_many(pair.client, counts[_i / 2]);
    close_socket(pair.client_box, pair.client);
    size_t bytes = received_until(pair.server, pair.server_box, &error);
    if (error != ECONNRESET) {
        ck_assert_int_eq(error, 0);
        ck_assert_uint_eq(bytes, counts[_i / 2] * SHORT);
    }
    ck_assert_uint_eq(bytes % SHORT, 0);
    close_rest();
}
END_TEST

/* A lingering close delivers what fits into the peer's buffer, and what the peer receives while the close
 * waits. */
START_TEST(lingered)
{
    int type = types[_i & 1], count = counts[_i / 2 % 4];
    bool by_option = _i / 8;
    static char in[MANY][SHORT];

    open_pair(type);
    if (by_option)
        set_linger(pair.client, 1, 20);
    for (int i = 0; type == SOCK_SEQPACKET && i < count; i++)
        must(exs_recv(pair.server, in[i], SHORT, 0, pair.server_box->queue, NULL, NULL));
    hush_many(pair.client, count);
    must(exs_close(pair.client, by_option ? 0 : EXS_LINGER, pair.client_box->queue, NULL));
    double start = seconds_now();
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    ck_assert_double_lt(seconds_now() - start, 6 + LATE_S);
    for (int i = 0; type == SOCK_SEQPACKET && i < count; i++) {
        exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, SHORT);
        pattern_check(in[i], SHORT, 3, i * SHORT);
    }
    int error;
    size_t bytes = received_until(pair.server, pair.server_box, &error);
    ck_assert_int_eq(error, 0);
    ck_assert_uint_eq(bytes, type == SOCK_STREAM ? count * SHORT : 0);
    close_rest();
}
END_TEST

/* The peer posts no receive, so the messages wait here. The lingering close times out. */
START_TEST(lingered_in_vain)
{
    open_pair(SOCK_SEQPACKET);
    set_linger(pair.client, 1, 1);
    hush_many(pair.client, counts[_i]);
    must(exs_close(pair.client, 0, pair.client_box->queue, NULL));
    take_failed(pair.client_box, EXS_EVT_CLOSE, pair.client, ETIMEDOUT);
    int error;
    ck_assert_uint_eq(received_until(pair.server, pair.server_box, &error), 0);
    ck_assert_int_eq(error, ECONNRESET);
    close_rest();
}
END_TEST

START_TEST(cut)
{
    int error;

    open_pair(types[_i & 1]);
    set_linger(pair.client, 1, 0);
    hush_many(pair.client, counts[_i / 2]);
    close_socket(pair.client_box, pair.client);
    size_t bytes = received_until(pair.server, pair.server_box, &error);
    ck_assert_uint_eq(bytes % SHORT, 0);
    ck_assert_int_eq(error, ECONNRESET);
    close_rest();
}
END_TEST

static void *close_blocking(void *arg)
{
    (void)arg;
    must(exs_blocking_close(pair.client));
    return NULL;
}

/* The example of the manual: a final message, and a close that waits. */
START_TEST(last_word)
{
    char in[2 * SHORT];

    pair_open_blocking(&pair, AF_INET, types[_i]);
    set_linger(pair.client, 1, 10);
    hush(pair.client, "bye", 3);
    pthread_t thread = thread_start(close_blocking, NULL);
    ck_assert_int_eq(exs_read(pair.server, in, sizeof in), 3);
    ck_assert_mem_eq(in, "bye", 3);
    ck_assert_int_eq(exs_read(pair.server, in, sizeof in), 0);
    thread_join(thread);
    must(exs_blocking_close(pair.server));
    must(exs_blocking_close(pair.listener));
}
END_TEST

/* ---- Shutdowns ------------------------------------------------------------------------------------ */

START_TEST(shut)
{
    int type = types[_i & 1], count = counts[_i / 2 % 4], error;
    bool peer_has_shut = _i / 8;
    size_t bytes;

    open_pair(type);
    if (peer_has_shut) {
        must(exs_shutdown(pair.server, SHUT_WR, 0, pair.server_box->queue, NULL));
        take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    }
    hush_many(pair.client, count);
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    if (type == SOCK_STREAM)
        take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    must_fail(exs_send(pair.client, out, 1, EXS_UNSIGNALED, NULL, NULL, NULL), EPIPE);
    bytes = received_until(pair.server, pair.server_box, &error);
    ck_assert_int_eq(error, 0);
    ck_assert_uint_eq(bytes, count * SHORT);
    if (type == SOCK_SEQPACKET)
        take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    inbox_quiet(pair.client_box, QUIET_MS);
    close_socket(pair.client_box, pair.client);
    close_rest();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("silent end");
    TCase *tcase = add_case(suite, "closes", 20);

    tcase_add_loop_test(tcase, closed_in_order, 0, 8);
    tcase_add_loop_test(tcase, lingered, 0, 16);
    tcase_add_loop_test(tcase, lingered_in_vain, 0, 4);
    tcase_add_loop_test(tcase, cut, 0, 8);
    tcase_add_loop_test(tcase, last_word, 0, 2);
    tcase_add_loop_test(tcase, shut, 0, 16);
    return run_suite(suite);
}
