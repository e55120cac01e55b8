/* SPDX-License-Identifier: BSD-2-Clause */
/* test_end.c - the orderly end of a connection is reported by EXS_EOF, and nothing else is. */
#include "check/support/support.h"

#include <sys/mman.h>
#include "core/conn/conn.h"
#include "core/sock/sock.h"

static void receive(const struct pair *pair, void *buffer, size_t length, int flags)
{
    must(exs_recv(pair->server, buffer, length, flags, pair->server_box->queue, NULL, NULL));
}

/* The next receive ends with this number of bytes and these flags. */
static void takes(const struct pair *pair, size_t length, int flags)
{
    exs_event_t event = take_good(pair->server_box, EXS_EVT_RECV, pair->server);

    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_flags, flags);
}

static void sends(const struct pair *pair, size_t length)
{
    static uint8_t bytes[100000];

    must(exs_send(pair->client, bytes, length, 0, pair->client_box->queue, NULL, NULL));
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
}

static void pair_opens(struct pair *pair, int type)
{
    pair_open(pair, AF_INET, type);
}

/* The peer ends the stream, by shutdown or by close. */
static void peer_ends(struct pair *pair, bool closes)
{
    if (closes) {
        close_socket(pair->client_box, pair->client);
        return;
    }
    must(exs_shutdown(pair->client, SHUT_WR, 0, pair->client_box->queue, NULL));
    take_good(pair->client_box, EXS_EVT_SHUTDOWN, pair->client);
}

static void pair_ends(struct pair *pair, bool closed)
{
    close_socket(pair->server_box, pair->server);
    if (!closed)
        close_socket(pair->client_box, pair->client);
    pair_close_rest(pair);
}

/* Receives that were pending before the end, and receives that start after it. */
START_TEST(stream)
{
    bool closes = _i & 1, before = _i & 2, large = _i & 4;
    uint8_t *buffer = new_buffer(3 * 100000);
    size_t room = large ? 100000 : 1000, sent = room / 2;
    struct pair pair;

    pair_opens(&pair, SOCK_STREAM);
    if (before) {
        receive(&pair, buffer, room, 0);
        receive(&pair, buffer + room, room, MSG_WAITALL);
        receive(&pair, buffer + 2 * room, room, 0);
        inbox_quiet(pair.server_box, 0);
    }
    sends(&pair, 10);
    if (!before)
        receive(&pair, buffer, 10, 0);
    takes(&pair, 10, 0);
    sends(&pair, sent);
    peer_ends(&pair, closes);
    if (!before) {
        receive(&pair, buffer + room, room, MSG_WAITALL);
        receive(&pair, buffer + 2 * room, room, 0);
    }
    takes(&pair, sent, EXS_EOF); /* less than it waited for */
    takes(&pair, 0, EXS_EOF);
    receive(&pair, buffer, room, 0);
    takes(&pair, 0, EXS_EOF);
    pair_ends(&pair, closes);
    free(buffer);
}
END_TEST

/* An empty message has no EXS_EOF. */
START_TEST(packets)
{
    bool closes = _i;
    uint8_t buffer[4][100];
    struct pair pair;

    pair_opens(&pair, SOCK_SEQPACKET);
    for (int i = 0; i < 4; i++)
        receive(&pair, buffer[i], sizeof buffer[i], 0);
    sends(&pair, 0);
    sends(&pair, 101);
    peer_ends(&pair, closes);
    takes(&pair, 0, 0);
    takes(&pair, 100, MSG_TRUNC);
    takes(&pair, 0, EXS_EOF);
    takes(&pair, 0, EXS_EOF);
    pair_ends(&pair, closes);
}
END_TEST

/* This side shuts down receiving. */
START_TEST(own)
{
    static uint8_t buffer[100000];
    struct pair pair;

    pair_opens(&pair, _i ? SOCK_SEQPACKET : SOCK_STREAM);
    receive(&pair, buffer, sizeof buffer, 0);
    inbox_quiet(pair.server_box, QUIET_MS);
    must(exs_shutdown(pair.server, SHUT_RD, 0, pair.server_box->queue, NULL));
    take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    takes(&pair, 0, EXS_EOF);
    pair_close(&pair);
}
END_TEST

/* Messages are on their way when this side shuts down receiving: no message is delivered after EXS_EOF. The second
 * receive's own buffer is advertised, the first one's is not. */
START_TEST(nothing_behind_the_end)
{
    static uint8_t buffer[2][100];
    struct pair pair;

    pair_opens(&pair, SOCK_SEQPACKET);
    exs_mhandle_t region = exs_mregister(buffer, sizeof buffer, 0);
    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    pair.client_box->beside = NULL;
    receive(&pair, buffer[0], sizeof buffer[0], 0);
    must(exs_recv(pair.server, buffer[1], sizeof buffer[1], 0, pair.server_box->queue, NULL, region));
    inbox_quiet(pair.client_box, QUIET_MS); /* the client has both advertisements */
    for (int i = 0; i < 2; i++)
        must(exs_send(pair.client, "word", 4, 0, pair.client_box->queue, NULL, NULL));
    must(exs_shutdown(pair.server, SHUT_RD, 0, pair.server_box->queue, NULL));
    pair.client_box->beside = pair.server_box;
    take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    exs_event_t first = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    exs_event_t second = take_good(pair.server_box, EXS_EVT_RECV, pair.server);

    if (first.exs_evt_union.exs_evt_xfer.exs_evt_flags == EXS_EOF) {
        ck_assert_uint_eq(second.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
        ck_assert_int_eq(second.exs_evt_union.exs_evt_xfer.exs_evt_flags, EXS_EOF);
    }
    for (int i = 0; i < 2; i++)
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    pair_close(&pair);
    must(exs_mderegister(region, 0));
}
END_TEST

/* Later receives report EXS_EOF, too. */
START_TEST(own_for_good)
{
    uint8_t buffer[10];
    struct pair pair;

    pair_opens(&pair, SOCK_STREAM);
    must(exs_shutdown(pair.server, SHUT_RD, 0, pair.server_box->queue, NULL));
    take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    receive(&pair, buffer, sizeof buffer, 0);
    takes(&pair, 0, EXS_EOF);
    sends(&pair, 5);
    inbox_quiet(pair.server_box, QUIET_MS);
    for (int i = 0; i < 2; i++) {
        receive(&pair, buffer, sizeof buffer, 0);
        takes(&pair, 0, EXS_EOF);
    }
    pair_close(&pair);
}
END_TEST

/* A receive with MSG_DONTWAIT gets EXS_EOF after SHUT_RD, also while the peer, whose application does not run, could
 * still write to a recalled receive. */
START_TEST(own_at_once)
{
    uint8_t buffer[2][10];
    struct pair pair;

    pair_opens(&pair, SOCK_SEQPACKET);
    receive(&pair, buffer[0], sizeof buffer[0], 0);
    inbox_quiet(pair.server_box, QUIET_MS);
    pair.server_box->beside = NULL;
    must(exs_shutdown(pair.server, SHUT_RD, 0, pair.server_box->queue, NULL));
    take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    takes(&pair, 0, EXS_EOF);
    receive(&pair, buffer[1], sizeof buffer[1], MSG_DONTWAIT);
    takes(&pair, 0, EXS_EOF);
    pair_close(&pair);
}
END_TEST

/* This side shuts down writing after the peer has closed in order: exs_shutdown succeeds, whether the application has
 * received the peer's end of the stream, the library has, or neither. */
START_TEST(behind_the_peers)
{
    uint8_t buffer[10];
    bool seen = _i == 0;
    struct pair pair;

    pair_opens(&pair, SOCK_STREAM);
    if (_i == 2)
        pair.client_box->beside = NULL;
    peer_ends(&pair, true);
    if (seen) {
        receive(&pair, buffer, sizeof buffer, 0);
        takes(&pair, 0, EXS_EOF);
    }
    must(exs_shutdown(pair.server, SHUT_WR, 0, pair.server_box->queue, NULL));
    take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    pair_ends(&pair, true);
}
END_TEST

static uint32_t credits_of(int socket)
{
    struct sock *sock = xs_sock_get_locked(socket);

    ck_assert_ptr_nonnull(sock);
    uint32_t credits = sock->conn->credits.available;

    xs_sock_put_locked(sock);
    return credits;
}

/* Sends have used all credits that they may use, and the peer's application does not run for longer than a close waits.
 * The end of the stream has a reserved credit, so the peer still receives it. */
START_TEST(without_credit)
{
    static uint8_t out[RQ_DEPTH], in[RQ_DEPTH], room[16 * KIB];
    bool shuts_down = _i == 1;
    struct pair pair;
    size_t sent = 0;

    pair_opens(&pair, SOCK_STREAM);
    pair.client_box->beside = NULL;
    while (credits_of(pair.client) > CREDITS_KEPT) {
        ck_assert_uint_lt(sent, sizeof out);
        out[sent] = (uint8_t)(sent + 1);
        must(exs_send(pair.client, &out[sent], 1, 0, pair.client_box->queue, NULL, NULL));
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
        sent++;
    }
    must(exs_recv(pair.client, room, sizeof room, 0, pair.client_box->queue, NULL, NULL));
    ck_assert_uint_eq(credits_of(pair.client), CREDITS_KEPT); /* no credit was used to advertise it */
    if (shuts_down) {
        must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
        take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    }
    must(exs_close(pair.client, _i == 2 ? EXS_LINGER : 0, pair.client_box->queue, &pair));
    take_failed(pair.client_box, EXS_EVT_RECV, pair.client, ECANCELED);
    ck_assert_ptr_eq(take_good(pair.client_box, EXS_EVT_CLOSE, pair.client).exs_evt_ahandle, &pair);
    receive(&pair, in, sent, MSG_WAITALL);
    takes(&pair, sent, 0);
    ck_assert_mem_eq(in, out, sent);
    receive(&pair, in, 1, 0);
    takes(&pair, 0, EXS_EOF);
    pair_ends(&pair, true);
}
END_TEST

/* A broken connection reports no EXS_EOF. */
START_TEST(broken)
{
    static uint8_t buffer[100];
    struct pair pair;

    pair_opens(&pair, SOCK_STREAM);
    receive(&pair, buffer, sizeof buffer, 0);
    must(exs_close(pair.server, 0, pair.server_box->queue, NULL));
    exs_event_t event = take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ECANCELED);

    ck_assert_int_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_flags, 0);
    take_good(pair.server_box, EXS_EVT_CLOSE, pair.server);
    close_socket(pair.client_box, pair.client);
    pair_close_rest(&pair);
}
END_TEST

/* A message that could not be stored has broken the connection: it reports no EXS_EOF, although the peer has ended the
 * stream. The peer's message was not delivered, and what this side sends is not either. */
START_TEST(failed_locally)
{
    void *nowhere = mmap(NULL, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char byte;
    struct pair pair;

    ck_assert_ptr_ne(nowhere, MAP_FAILED);
    pair_opens(&pair, SOCK_SEQPACKET);
    receive(&pair, nowhere, 4, 0);
    pair.client_box->beside = NULL; /* the server gets both at once */
    must(exs_send(pair.client, "word", 4, 0, pair.client_box->queue, NULL, NULL));
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    take_failed(pair.server_box, EXS_EVT_RECV, pair.server, EACCES);
    must(exs_shutdown(pair.server, SHUT_WR, 0, pair.server_box->queue, NULL));
    take_failed(pair.server_box, EXS_EVT_SHUTDOWN, pair.server, ECONNRESET);
    must_fail(exs_read(pair.client, &byte, 1), ECONNRESET);
    pair_close(&pair);
    munmap(nowhere, 1);
}
END_TEST

static void *send_and_end(void *argument)
{
    const struct pair *pair = argument;

    ck_assert_int_eq(exs_blocking_send(pair->client, "", 0, 0, NULL), 0);
    must(exs_shutdown(pair->client, SHUT_WR, EXS_BLOCK, NULL, NULL));
    return NULL;
}

START_TEST(blocking)
{
    uint8_t byte;
    exs_iovec_t piece = {.exs_base = &byte, .exs_length = 1};
    exs_msghdr_t message = {.exs_iov = &piece, .exs_iovlen = 1, .exs_msg_flags = -1};
    struct pair pair;

    pair_open_blocking(&pair, AF_INET, SOCK_SEQPACKET);
    pthread_t sender = thread_start(send_and_end, &pair);

    ck_assert_int_eq(exs_blocking_recvmsg(pair.server, &message, 0), 0);
    ck_assert_int_eq(message.exs_msg_flags, 0);
    ck_assert_int_eq(exs_blocking_recvmsg(pair.server, &message, 0), 0);
    ck_assert_int_eq(message.exs_msg_flags, EXS_EOF);
    thread_join(sender);
    pair_close_blocking(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("end");
    TCase *tcase = add_case(suite, "end", 20);

    tcase_add_loop_test(tcase, stream, 0, 8);
    tcase_add_loop_test(tcase, packets, 0, 2);
    tcase_add_loop_test(tcase, own, 0, 2);
    tcase_add_test(tcase, nothing_behind_the_end);
    tcase_add_test(tcase, own_for_good);
    tcase_add_test(tcase, own_at_once);
    tcase_add_loop_test(tcase, behind_the_peers, 0, 3);
    tcase_add_loop_test(tcase, without_credit, 0, 3);
    tcase_add_test(tcase, broken);
    tcase_add_test(tcase, failed_locally);
    tcase_add_test(tcase, blocking);
    return run_suite(suite);
}
