/* SPDX-License-Identifier: BSD-2-Clause */
/* test_dontwait.c - MSG_DONTWAIT: a call transfers what it can at once, and does not wait for the rest. */
#include "check/support/support.h"

#define LENGTH (300 * KIB) /* more than the peer's ring buffer */

/* Repeats the call until bytes have arrived. */
static long receive_soon(int socket, void *buffer, size_t length, int flags)
{
    long got;

    do {
        got = exs_blocking_recv(socket, buffer, length, flags | MSG_DONTWAIT, NULL);
    } while (got == -1 && errno == EAGAIN);
    return got;
}

/* Only blocking calls use the socket, so no other thread polls its completion queue. The call returns the bytes that
 * have arrived. */
START_TEST(receives)
{
    struct pair pair;
    char in[100];

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    must_fail(exs_blocking_recv(pair.server, in, sizeof in, MSG_DONTWAIT, NULL), EAGAIN);
    ck_assert_int_eq(exs_blocking_send(pair.client, "0123456789", 10, 0, NULL), 10);
    ck_assert_int_eq(receive_soon(pair.server, in, 4, 0), 4);
    ck_assert_int_eq(receive_soon(pair.server, in + 4, sizeof in - 4, MSG_WAITALL), 6);
    ck_assert_mem_eq(in, "0123456789", 10);
    must_fail(exs_blocking_recv(pair.server, in, sizeof in, MSG_DONTWAIT, NULL), EAGAIN);
    must(exs_shutdown(pair.client, SHUT_WR, EXS_BLOCK, NULL, NULL));
    ck_assert_int_eq(receive_soon(pair.server, in, sizeof in, 0), 0);
    pair_close_blocking(&pair);
}
END_TEST

/* With a queue: a call that fails has no event. Bytes that arrive go to the receives that were pending before. */
START_TEST(receives_with_events)
{
    struct pair pair;
    char in[2];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must_fail(exs_recv(pair.server, in, 1, MSG_DONTWAIT, pair.server_box->queue, NULL, NULL), EAGAIN);
    must(exs_recv(pair.server, in, 1, 0, pair.server_box->queue, in, NULL));
    must(exs_send(pair.client, "xy", 2, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    while (exs_recv(pair.server, in + 1, 1, MSG_DONTWAIT, pair.server_box->queue, in + 1, NULL) < 0)
        ck_assert_int_eq(errno, EAGAIN);
    for (int i = 0; i < 2; i++)
        ck_assert_ptr_eq(take_good(pair.server_box, EXS_EVT_RECV, pair.server).exs_evt_ahandle, in + i);
    ck_assert_mem_eq(in, "xy", 2);
    inbox_quiet(pair.server_box, 0);
    pair_close(&pair);
}
END_TEST

/* A pending receive with MSG_PEEK | MSG_WAITALL keeps the bytes that have arrived: a later receive gets none before the
 * peek has ended. */
START_TEST(behind_one_that_looks)
{
    struct pair pair;
    char seen[10], in[10];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_recv(pair.server, seen, 10, MSG_PEEK | MSG_WAITALL, pair.server_box->queue, seen, NULL));
    must(exs_send(pair.client, "01234", 5, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    inbox_quiet(pair.server_box, 0);
    must_fail(exs_recv(pair.server, in, 5, MSG_DONTWAIT, pair.server_box->queue, in, NULL), EAGAIN);
    must(exs_send(pair.client, "56789", 5, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_ptr_eq(take_good(pair.server_box, EXS_EVT_RECV, pair.server).exs_evt_ahandle, seen);
    ck_assert_mem_eq(seen, "0123456789", 10);
    must(exs_recv(pair.server, in, 10, MSG_DONTWAIT, pair.server_box->queue, in, NULL));
    ck_assert_ptr_eq(take_good(pair.server_box, EXS_EVT_RECV, pair.server).exs_evt_ahandle, in);
    ck_assert_mem_eq(in, "0123456789", 10);
    pair_close(&pair);
}
END_TEST

/* On a SEQPACKET a message waits at its sender for a receive, so a receive with MSG_DONTWAIT can only return the end of
 * the stream. */
START_TEST(messages)
{
    struct pair pair;
    char in[10];

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    must_fail(exs_send(pair.client, "x", 1, MSG_DONTWAIT, pair.client_box->queue, NULL, NULL), EAGAIN);
    must_fail(exs_recv(pair.server, in, 1, MSG_DONTWAIT, pair.server_box->queue, NULL, NULL), EAGAIN);
    must(exs_recv(pair.server, in, sizeof in, 0, pair.server_box->queue, NULL, NULL));
    while (exs_send(pair.client, "0123456789", 10, MSG_DONTWAIT, pair.client_box->queue, NULL, NULL) < 0)
        ck_assert_int_eq(errno, EAGAIN);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_mem_eq(in, "0123456789", 10);
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    ck_assert_int_eq(receive_soon(pair.server, in, 1, 0), 0);
    inbox_quiet(pair.client_box, 0);
    pair_close(&pair);
}
END_TEST

/* EXS_UNSIGNALED: a send that transferred only a part has an event, like a failure. */
START_TEST(unsignaled)
{
    static char bytes[MIB];
    const int flags = MSG_DONTWAIT | EXS_UNSIGNALED;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must_fail(exs_send(pair.client, bytes, 1, flags, NULL, NULL, NULL), EINVAL);
    must(exs_send(pair.client, bytes, 10, flags, pair.client_box->queue, NULL, NULL));
    inbox_quiet(pair.client_box, QUIET_MS);
    must(exs_send(pair.client, bytes, sizeof bytes, flags, pair.client_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair.client_box, EXS_EVT_SEND, pair.client);

    ck_assert_uint_lt(event.exs_evt_union.exs_evt_xfer.exs_evt_length, sizeof bytes);
    pair_close(&pair);
}
END_TEST

/* A message is sent completely, whatever the number of its segments. */
START_TEST(pieces)
{
    enum { COUNT_OF = 20, SIZE = 10000 };
    static char bytes[COUNT_OF * SIZE];
    exs_iovec_t of[COUNT_OF];
    exs_msghdr_t message = {.exs_iov = of, .exs_iovlen = COUNT_OF};
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < COUNT_OF; i++)
        of[i] = (exs_iovec_t){.exs_base = bytes + i * SIZE, .exs_length = SIZE};
    must(exs_sendmsg(pair.client, &message, MSG_DONTWAIT, pair.client_box->queue, NULL));
    exs_event_t event = take_good(pair.client_box, EXS_EVT_SENDMSG, pair.client);

    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfermsg.exs_evt_length, sizeof bytes);
    pair_close(&pair);
}
END_TEST

/* Sends what fits into the peer's ring buffer, then nothing until the peer has received. */
START_TEST(sends)
{
    uint8_t *out = new_buffer(LENGTH), *in = new_buffer(LENGTH);
    struct pair pair;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    pattern_fill(out, LENGTH, 1, 0);
    long sent = exs_blocking_send(pair.client, out, LENGTH, MSG_DONTWAIT, NULL);
    ck_assert(sent > 0 && sent < (long)LENGTH);
    must_fail(exs_blocking_send(pair.client, out, 1, MSG_DONTWAIT, NULL), EAGAIN);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, (size_t)sent, MSG_WAITALL, NULL), sent);
    pattern_check(in, (size_t)sent, 1, 0);
    while (exs_blocking_send(pair.client, out, 1, MSG_DONTWAIT, NULL) != 1)
        ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, 1, 0, NULL), 1);
    pair_close_blocking(&pair);
    free(out);
    free(in);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dontwait");
    TCase *tcase = add_case(suite, "dontwait", 10);

    tcase_add_test(tcase, receives);
    tcase_add_test(tcase, receives_with_events);
    tcase_add_test(tcase, behind_one_that_looks);
    tcase_add_test(tcase, messages);
    tcase_add_test(tcase, pieces);
    tcase_add_test(tcase, unsignaled);
    tcase_add_test(tcase, sends);
    return run_suite(suite);
}
