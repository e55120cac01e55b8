/* SPDX-License-Identifier: BSD-2-Clause */
/* test_peek.c - MSG_PEEK: received bytes are copied, and the next receive returns them again. */
#include "check/support/support.h"

#define LARGE (100 * KIB) /* a receive of this length is advertised */
#define ALL (300 * KIB)   /* more than the receive ring holds */
#define HELD (192 * KIB)  /* most bytes that a peek waits for */

static exs_evt_xfer_t xfer_of(const exs_event_t *event)
{
    return event->exs_evt_union.exs_evt_xfer;
}

static void receive(const struct pair *pair, void *buffer, size_t length, int flags)
{
    must(exs_recv(pair->server, buffer, length, flags, pair->server_box->queue, buffer, NULL));
}

static void send_bytes(const struct pair *pair, const void *bytes, size_t length)
{
    must(exs_send(pair->client, bytes, length, 0, pair->client_box->queue, NULL, NULL));
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
}

/* The next event is that of the receive into this buffer, with these bytes. */
static void take_bytes(const struct pair *pair, const void *buffer, const void *bytes, size_t length)
{
    exs_event_t event = take_good(pair->server_box, EXS_EVT_RECV, pair->server);

    ck_assert_ptr_eq(event.exs_evt_ahandle, buffer);
    ck_assert_uint_eq(xfer_of(&event).exs_evt_length, length);
    ck_assert_int_eq(xfer_of(&event).exs_evt_flags, 0);
    ck_assert_mem_eq(buffer, bytes, length);
}

/* Blocking peeks return the same bytes each time, up to the length of the buffer, and consume none. */
START_TEST(again_and_again)
{
    struct pair pair;
    char in[100];

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    ck_assert_int_eq(exs_blocking_send(pair.client, "0123456789", 10, 0, NULL), 10);
    for (int i = 0; i < 3; i++) {
        memset(in, CANARY, sizeof in);
        ck_assert_int_eq(exs_blocking_recv(pair.server, in, sizeof in, MSG_PEEK, NULL), 10);
        ck_assert_mem_eq(in, "0123456789", 10);
        same_bytes(in + 10, sizeof in - 10, CANARY);
    }
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, 4, MSG_PEEK, NULL), 4);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, 4, 0, NULL), 4);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in + 4, 4, MSG_PEEK | MSG_DONTWAIT, NULL), 4);
    ck_assert_mem_eq(in, "01234567", 8);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, sizeof in, 0, NULL), 6);
    ck_assert_mem_eq(in, "456789", 6);
    must_fail(exs_blocking_recv(pair.server, in, sizeof in, MSG_PEEK | MSG_DONTWAIT, NULL), EAGAIN);
    pair_close_blocking(&pair);
}
END_TEST

/* A peek waits until data arrives. A receive that was posted after it gets the same data, also a long one. */
START_TEST(waits_in_line)
{
    uint8_t *out = new_buffer(LARGE), *seen = new_buffer(LARGE), *in = new_buffer(LARGE);
    struct pair pair;
    char first[5];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pattern_fill(out, LARGE, 1, 0);
    receive(&pair, first, sizeof first, MSG_WAITALL);
    receive(&pair, seen, LARGE, MSG_PEEK);
    receive(&pair, in, LARGE, MSG_WAITALL);
    must_fail(exs_recv(pair.server, in, 1, MSG_PEEK | MSG_DONTWAIT, pair.server_box->queue, NULL, NULL),
              EAGAIN);
    inbox_quiet(pair.server_box, QUIET_MS);
    send_bytes(&pair, "01234abc", 8);
    take_bytes(&pair, first, "01234", 5);
    take_bytes(&pair, seen, "abc", 3);
    send_bytes(&pair, out, LARGE - 3);
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(xfer_of(&event).exs_evt_length, LARGE);
    ck_assert_mem_eq(in, "abc", 3);
    pattern_check(in + 3, LARGE - 3, 1, 0);
    free(out), free(seen), free(in);
    pair_close(&pair);
}
END_TEST

/* A peek into a long registered buffer is not advertised: the peer does not write into it. */
START_TEST(takes_nothing)
{
    uint8_t *out = new_buffer(LARGE), *seen = new_buffer(LARGE), *in = new_buffer(LARGE);
    exs_mhandle_t region = exs_mregister(seen, LARGE, 0);
    struct pair pair;
    size_t got;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pattern_fill(out, LARGE, 2, 0);
    must(exs_recv(pair.server, seen, LARGE, MSG_PEEK, pair.server_box->queue, seen, region));
    send_bytes(&pair, out, LARGE);
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    got = xfer_of(&event).exs_evt_length;
    ck_assert(got > 0 && got <= LARGE);
    pattern_check(seen, got, 2, 0);
    same_bytes(seen + got, LARGE - got, CANARY);
    receive(&pair, in, LARGE, MSG_WAITALL);
    take_bytes(&pair, in, out, LARGE);
    must(exs_mderegister(region, 0));
    free(out), free(seen), free(in);
    pair_close(&pair);
}
END_TEST

/* MSG_WAITALL: a peek waits for as many bytes as its buffer holds, but not for more than the receive ring
 * holds. The test goes once around the ring. */
START_TEST(all)
{
    uint8_t *out = new_buffer(ALL), *in = new_buffer(ALL);
    struct pair pair;
    exs_event_t event;
    uint64_t at = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    receive(&pair, in, 8, MSG_PEEK | MSG_WAITALL);
    send_bytes(&pair, "0123", 4);
    inbox_quiet(pair.server_box, QUIET_MS);
    send_bytes(&pair, "4567", 4);
    take_bytes(&pair, in, "01234567", 8);
    receive(&pair, in, 8, 0);
    take_bytes(&pair, in, "01234567", 8);
    for (int i = 0; i < 5; i++) {
        pattern_fill(out, ALL, 3, at);
        memset(in, CANARY, ALL);
        must(exs_send(pair.client, out, ALL, 0, pair.client_box->queue, NULL, NULL));
        receive(&pair, in, ALL, MSG_PEEK | MSG_WAITALL);
        event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        size_t seen = xfer_of(&event).exs_evt_length;
        /* On a slow machine the round trip is as long as on a long path, so the ring may have grown to ALL. */
        ck_assert(seen >= HELD && seen <= ALL);
        pattern_check(in, seen, 3, at);
        same_bytes(in + seen, ALL - seen, CANARY);
        receive(&pair, in, ALL, MSG_WAITALL);
        take_bytes(&pair, in, out, ALL);
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
        at += ALL;
    }
    free(out), free(in);
    pair_close(&pair);
}
END_TEST

/* End of stream: a peek with MSG_WAITALL returns what has arrived. Later peeks return the end of stream, as
 * often as they are called. */
START_TEST(end)
{
    struct pair pair;
    exs_event_t event;
    char in[10];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    send_bytes(&pair, "abc", 3);
    receive(&pair, in, sizeof in, MSG_PEEK | MSG_WAITALL);
    inbox_quiet(pair.server_box, QUIET_MS);
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(xfer_of(&event).exs_evt_length, 3);
    ck_assert_int_eq(xfer_of(&event).exs_evt_flags, EXS_EOF); /* fewer bytes than it waited for */
    ck_assert_mem_eq(in, "abc", 3);
    receive(&pair, in, sizeof in, 0);
    take_bytes(&pair, in, "abc", 3);
    for (int i = 0; i < 2; i++) {
        receive(&pair, in, sizeof in, MSG_PEEK);
        event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        ck_assert_uint_eq(xfer_of(&event).exs_evt_length, 0);
        ck_assert_int_eq(xfer_of(&event).exs_evt_flags, EXS_EOF);
        ck_assert_int_eq(exs_blocking_recv(pair.server, in, 1, MSG_PEEK | MSG_DONTWAIT, NULL), 0);
    }
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    pair_close(&pair);
}
END_TEST

/* A peek into several segments. */
START_TEST(pieces)
{
    struct pair pair;
    char one[3], two[4];
    exs_iovec_t iov[] = {
        {.exs_base = one, .exs_length = 3}, {.exs_length = 0}, {.exs_base = two, .exs_length = 4}};
    exs_msghdr_t message = {.exs_iov = iov, .exs_iovlen = COUNT(iov), .exs_msg_flags = -1};

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    ck_assert_int_eq(exs_blocking_send(pair.client, "0123456789", 10, 0, NULL), 10);
    for (int i = 0; i < 2; i++) {
        memset(two, CANARY, sizeof two);
        ck_assert_int_eq(exs_blocking_recvmsg(pair.server, &message, MSG_PEEK), 7);
        ck_assert_int_eq(message.exs_msg_flags, 0);
        ck_assert_mem_eq(one, "012", 3);
        ck_assert_mem_eq(two, "3456", 4);
    }
    pair_close_blocking(&pair);
}
END_TEST

/* SOCK_SEQPACKET does not allow peeks; the connection continues. */
START_TEST(messages)
{
    struct pair pair;
    char in[10];

    pair_open_blocking(&pair, AF_INET, SOCK_SEQPACKET);
    must_fail(exs_blocking_recv(pair.server, in, 1, MSG_PEEK, NULL), EOPNOTSUPP);
    must_fail(exs_blocking_recv(pair.server, in, 1, MSG_PEEK | MSG_DONTWAIT, NULL), EOPNOTSUPP);
    pair_close_blocking(&pair);
}
END_TEST

/* A peek ends as other receives do: it is cancelled, times out, ends with its connection, or fails because of
 * its buffer. The next receive gets the data. */
START_TEST(ends_otherwise)
{
    const struct timeval limit = {.tv_usec = 50000}, none = {0};
    struct pair pair;
    char in[10];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    receive(&pair, in, sizeof in, MSG_PEEK);
    ck_assert_int_eq(exs_cancel(pair.server, in, 0), 1);
    take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ECANCELED);
    must(exs_setsockopt(pair.server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    receive(&pair, in, sizeof in, MSG_PEEK);
    take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ETIMEDOUT);
    must(exs_setsockopt(pair.server, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));
    must(exs_recv(pair.server, (void *)16, 10, MSG_PEEK, pair.server_box->queue, NULL, NULL));
    send_bytes(&pair, "abc", 3);
    take_failed(pair.server_box, EXS_EVT_RECV, pair.server, EFAULT);
    receive(&pair, in, sizeof in, 0);
    take_bytes(&pair, in, "abc", 3);
    receive(&pair, in, sizeof in, MSG_PEEK);
    must(exs_close(pair.server, 0, pair.server_box->queue, NULL));
    take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ECANCELED);
    take_good(pair.server_box, EXS_EVT_CLOSE, pair.server);
    close_socket(pair.client_box, pair.client);
    pair_close_rest(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peek");
    TCase *tcase = add_case(suite, "peek", 10);

    tcase_add_test(tcase, again_and_again);
    tcase_add_test(tcase, waits_in_line);
    tcase_add_test(tcase, takes_nothing);
    tcase_add_test(tcase, all);
    tcase_add_test(tcase, end);
    tcase_add_test(tcase, pieces);
    tcase_add_test(tcase, messages);
    tcase_add_test(tcase, ends_otherwise);
    return run_suite(suite);
}
