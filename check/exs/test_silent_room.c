/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_silent_room.c - send-buffer space and pending operations in the presence of short fire-and-forget sends
 * (EXS_UNSIGNALED, without a queue): SO_SNDBUF, MSG_DONTWAIT, exs_poll, exs_cancel.
 */
#include "check/support/support.h"

#include <limits.h>

#define SHORT ((size_t)64)
enum { MANY = 6000, LIMIT = 1000 };

static struct pair pair;
static char *out, *in;

static void open_all(int type)
{
    pair_open(&pair, AF_INET, type);
    out = new_buffer(MANY * SHORT);
    in = new_buffer(MANY * SHORT + SHORT);
    pattern_fill(out, MANY * SHORT, 4, 0);
}

static void close_all(void)
{
    inbox_quiet(pair.client_box, QUIET_MS);
    inbox_quiet(pair.server_box, 0);
    pair_close(&pair);
    free(out);
    free(in);
}

static ssize_t hush(int i)
{
    return exs_send(pair.client, out + i * SHORT, SHORT, EXS_UNSIGNALED, NULL, NULL, NULL);
}

static void receive_all(size_t bytes)
{
    must(exs_recv(pair.server, in, bytes, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, bytes);
}

static void set_int(int option, int value)
{
    must(exs_setsockopt(pair.client, SOL_SOCKET, option, &value, sizeof value));
}

/* The limit is reached when the peer's buffer is full, and no longer when the peer has received. */
START_TEST(limited)
{
    int sent = 0;

    open_all(SOCK_STREAM);
    set_int(SO_SNDBUF, LIMIT);
    set_int(EXS_SO_SENDLIMIT, 1);
    for (int round = 0; round < 3; round++) {
        size_t before = (size_t)sent;

        for (; sent < MANY && hush(sent) == 0; sent++)
            ;
        if (sent < MANY)
            ck_assert_int_eq(errno, EAGAIN);
        ck_assert_uint_ge(sent - before, LIMIT / SHORT);
        if (round < 2)
            ck_assert_int_lt(sent, MANY);
        receive_all(((size_t)sent - before) * SHORT);
        pattern_check(in, ((size_t)sent - before) * SHORT, 4, before * SHORT);
        exs_pollfd_t fd = {.exs_fd = pair.client, .exs_events = EXS_POLLOUT};
        must(exs_poll(&fd, 1, 0, NULL, pair.client_box->queue, NULL));
        take_good(pair.client_box, EXS_EVT_POLL, -1);
        ck_assert_int_eq(fd.exs_revents, EXS_POLLOUT);
        sent = sent > MANY / 2 ? 0 : sent;
        if (sent == 0)
            break;
    }
    close_all();
}
END_TEST

/* The socket is writable as long as the peer has buffer space, and polls report that. */
START_TEST(polled)
{
    exs_pollfd_t fd = {.exs_fd = pair.client, .exs_events = EXS_POLLOUT};

    open_all(SOCK_STREAM);
    fd.exs_fd = pair.client;
    for (int i = 0; i < 500; i++) {
        must(hush(i));
        ck_assert_int_eq(exs_poll(&fd, 1, EXS_BLOCK, &(struct timeval){.tv_sec = 5}, NULL, NULL), 1);
        ck_assert_int_eq(fd.exs_revents, EXS_POLLOUT);
        must(exs_send(pair.client, out + i * SHORT, 0, MSG_DONTWAIT, pair.client_box->queue, NULL, NULL));
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
        if (i % 7 == 6)
            receive_all(7 * SHORT);
    }
    receive_all(SHORT * (500 % 7));
    close_all();
}
END_TEST

/* Between fire-and-forget sends, a send with MSG_DONTWAIT succeeds or fails with EAGAIN. Bytes arrive in order. */
START_TEST(without_waiting)
{
    size_t sent = 0, received = 0;
    int refused = 0;

    open_all(SOCK_STREAM);
    must_fail(exs_send(pair.client, out, 1, EXS_UNSIGNALED | MSG_DONTWAIT, NULL, NULL, NULL), EINVAL);
    for (int i = 0; i + 1 < MANY; i++) {
        must(exs_send(pair.client, out + sent, SHORT - 1, EXS_UNSIGNALED, NULL, NULL, NULL));
        sent += SHORT - 1;
        if (exs_send(pair.client, out + sent, SHORT, MSG_DONTWAIT, pair.client_box->queue, NULL, NULL) == 0) {
            exs_event_t event = take_good(pair.client_box, EXS_EVT_SEND, pair.client);
            sent += event.exs_evt_union.exs_evt_xfer.exs_evt_length;
        } else {
            ck_assert_int_eq(errno, EAGAIN);
            refused++;
        }
        if (sent + 2 * SHORT > MANY * SHORT)
            break;
    }
    while (received < sent) {
        must(exs_recv(pair.server, in, 3000, 0, pair.server_box->queue, NULL, NULL));
        exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        size_t got = event.exs_evt_union.exs_evt_xfer.exs_evt_length;
        pattern_check(in, got, 4, received);
        received += got;
    }
    ck_assert_uint_eq(received, sent);
    must(exs_send(pair.client, out, 1, MSG_DONTWAIT, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    receive_all(1);
    ck_assert_int_gt(refused, 0);
    close_all();
}
END_TEST

/* A cancel does not affect what was posted to the device; a message is delivered completely or not at all. The
 * connection continues. */
START_TEST(cancelled)
{
    int count = _i & 2 ? MANY : 20, type = _i & 1 ? SOCK_SEQPACKET : SOCK_STREAM;
    size_t bytes = 0, got;

    open_all(type);
    for (int i = 0; i < count; i++)
        must(hush(i));
    int ended = exs_cancel(pair.client, NULL, EXS_CANCEL_ALL);
    must(ended);
    ck_assert_int_le(ended, count);
    inbox_quiet(pair.client_box, QUIET_MS);
    must(exs_send(pair.client, "end", 3, 0, pair.client_box->queue, NULL, NULL));
    do {
        must(exs_recv(pair.server, in + bytes, SHORT, 0, pair.server_box->queue, NULL, NULL));
        exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        got = event.exs_evt_union.exs_evt_xfer.exs_evt_length;
        bytes += got;
    } while (memcmp(in + bytes - 3, "end", 3) != 0);
    ck_assert_mem_eq(in, out, bytes - 3);
    ck_assert_uint_ge((bytes - 3) / SHORT + (size_t)ended, (size_t)count);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    must(hush(0));
    must(exs_recv(pair.server, in, SHORT, 0, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    pattern_check(in, SHORT, 4, 0);
    close_all();
}
END_TEST

/* A send timeout of one of these sends breaks the connection, because messages would be missing and no event
 * would report that. */
START_TEST(timed)
{
    const struct timeval limit = {.tv_usec = 100000};
    int error;
    socklen_t length = sizeof error;

    open_all(SOCK_SEQPACKET);
    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    for (int i = 0; i < 100; i++)
        must(hush(i));
    must(exs_send(pair.client, "a", 1, 0, pair.client_box->queue, NULL, NULL));
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECONNRESET);
    must_fail(exs_send(pair.client, "b", 1, 0, pair.client_box->queue, NULL, NULL), ECONNRESET);
    must(exs_getsockopt(pair.client, SOL_SOCKET, SO_ERROR, &error, &length));
    ck_assert_int_eq(error, ECONNRESET);
    while (exs_recv(pair.server, in, SHORT, 0, pair.server_box->queue, NULL, NULL) == 0)
        take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ECONNRESET);
    ck_assert_int_eq(errno, ECONNRESET);
    close_all();
}
END_TEST

/* When they fail no event reports that, on any queue. */
START_TEST(fails_in_silence)
{
    open_all(_i ? SOCK_SEQPACKET : SOCK_STREAM);
    for (int i = 0; i < MANY; i++)
        must(hush(i));
    close_socket(pair.server_box, pair.server);
    inbox_quiet(pair.client_box, QUIET_MS);
    ck_assert_int_eq(hush(0), -1);
    ck_assert_msg(errno == ECONNRESET || errno == EPIPE, "%s", strerror(errno));
    exs_qstatus_t status;
    must(exs_qstatus(pair.client_box->queue, &status));
    ck_assert_int_eq(status.exs_pending, 0);
    close_socket(pair.client_box, pair.client);
    pair_close_rest(&pair);
    free(out);
    free(in);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("silent room");
    TCase *tcase = add_case(suite, "room", 20);

    tcase_add_test(tcase, limited);
    tcase_add_test(tcase, polled);
    tcase_add_test(tcase, without_waiting);
    tcase_add_loop_test(tcase, cancelled, 0, 4);
    tcase_add_test(tcase, timed);
    tcase_add_loop_test(tcase, fails_in_silence, 0, 2);
    return run_suite(suite);
}
