/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transfer.c - exs_send and exs_recv, and their blocking forms, one transfer at a time: every size,
 * registered or not, the guarantees of streams and of packet sequences, and the flags. (test_stream.c tests
 * mixtures.)
 */
#include "check/support/support.h"

static const size_t sizes[] = {1, 100, 8191, 8192, 8193, 64 * KIB, MIB, 64 * MIB};

/* The parts of a test's loop index: 8 kinds. */
static int family_of(int i)
{
    return i & 1 ? AF_INET6 : AF_INET;
}

static int type_of(int i)
{
    return i & 2 ? SOCK_SEQPACKET : SOCK_STREAM;
}

static bool is_registered(int i)
{
    return i & 4;
}

struct buffers { /* two buffers of the largest size, with regions if the test needs them */
    char *out, *in;
    exs_mhandle_t out_region, in_region;
};

static void buffers_open(struct buffers *b, bool registered)
{
    size_t length = sizes[COUNT(sizes) - 1] + 64;

    *b = (struct buffers){new_buffer(length), new_buffer(length), NULL, EXS_MHANDLE_UNREGISTERED};
    if (!registered)
        return;
    b->out_region = exs_mregister(b->out, length, EXS_MRF_RECV_DISABLE);
    b->in_region = exs_mregister(b->in, length, EXS_MRF_SEND_DISABLE);
    ck_assert_msg(b->out_region != EXS_MHANDLE_INVALID, "exs_mregister: %s", strerror(errno));
    ck_assert_msg(b->in_region != EXS_MHANDLE_INVALID, "exs_mregister: %s", strerror(errno));
}

static void buffers_close(struct buffers *b, bool registered)
{
    if (registered) {
        must(exs_mderegister(b->out_region, 0));
        must(exs_mderegister(b->in_region, 0));
    }
    free(b->out);
    free(b->in);
}

static void xfer_is(const exs_event_t *event, void *buffer, size_t length, int flags)
{
    const exs_evt_xfer_t *xfer = &event->exs_evt_union.exs_evt_xfer;

    ck_assert_int_eq(event->exs_evt_errno, 0);
    ck_assert_ptr_eq(xfer->exs_evt_buffer, buffer);
    ck_assert_uint_eq(xfer->exs_evt_length, length);
    ck_assert_int_eq(xfer->exs_evt_flags & MSG_TRUNC, flags);
}

/* ---- Every size ---------------------------------------------------------------------- */

static void send_and_check(struct pair *pair, struct buffers *b, size_t length, uint64_t seed)
{
    char *out = b->out + seed % 64, *in = b->in + (seed * 7) % 64;

    pattern_fill(out, length, seed, 0);
    if (seed % 2)
        must(exs_recv(pair->server, in, length, MSG_WAITALL, pair->server_box->queue, in, b->in_region));
    must(exs_send(pair->client, out, length, 0, pair->client_box->queue, out, b->out_region));
    if (seed % 2 == 0)
        must(exs_recv(pair->server, in, length, MSG_WAITALL, pair->server_box->queue, in, b->in_region));
    exs_event_t sent = take_good(pair->client_box, EXS_EVT_SEND, pair->client);
    xfer_is(&sent, out, length, 0);
    ck_assert_ptr_eq(sent.exs_evt_ahandle, out);
    exs_event_t received = take_good(pair->server_box, EXS_EVT_RECV, pair->server);
    xfer_is(&received, in, length, 0);
    ck_assert_ptr_eq(received.exs_evt_ahandle, in);
    pattern_check(in, length, seed, 0);
}

START_TEST(every_size)
{
    struct pair pair;
    struct buffers b;

    buffers_open(&b, is_registered(_i));
    pair_open(&pair, family_of(_i), type_of(_i));
    for (int i = 0; i < COUNT(sizes) - (_i & 1); i++)
        for (uint64_t seed = 1; seed <= 2; seed++)
            send_and_check(&pair, &b, sizes[i], seed);
    pair_close(&pair);
    buffers_close(&b, is_registered(_i));
}
END_TEST

struct sender { /* a thread that sends every size with blocking calls */
    struct pair pair;
    struct buffers b;
    int kind;
};

static void *send_every_size(void *arg)
{
    struct sender *s = arg;

    for (int i = 0; i < COUNT(sizes) - (s->kind & 1); i++) {
        ssize_t sent;
        pattern_fill(s->b.out, sizes[i], (uint64_t)i, 0);
        if (i % 3 == 0)
            sent = exs_send(s->pair.client, s->b.out, sizes[i], EXS_BLOCK, NULL, NULL, s->b.out_region);
        else if (i % 3 == 1)
            sent = exs_blocking_send(s->pair.client, s->b.out, sizes[i], 0, s->b.out_region);
        else
            sent = exs_write(s->pair.client, s->b.out, sizes[i]);
        ck_assert_int_eq(sent, sizes[i]);
    }
    return NULL;
}

START_TEST(every_size_blocking)
{
    struct sender s = {.kind = _i};
    bool all = type_of(_i) == SOCK_STREAM; /* a packet always arrives whole */

    buffers_open(&s.b, is_registered(_i));
    pair_open_blocking(&s.pair, family_of(_i), type_of(_i));
    pthread_t thread = thread_start(send_every_size, &s);
    for (int i = 0; i < COUNT(sizes) - (_i & 1); i++) {
        ssize_t got;
        if (i % 2)
            got = exs_blocking_recv(s.pair.server, s.b.in, sizes[i], all ? MSG_WAITALL : 0, s.b.in_region);
        else
            got = exs_recv(s.pair.server, s.b.in, sizes[i], EXS_BLOCK | (all ? MSG_WAITALL : 0), NULL, NULL,
                           s.b.in_region);
        ck_assert_int_eq(got, sizes[i]);
        pattern_check(s.b.in, sizes[i], (uint64_t)i, 0);
    }
    thread_join(thread);
    must(exs_shutdown(s.pair.client, SHUT_WR, EXS_BLOCK, NULL, NULL));
    ck_assert_int_eq(exs_read(s.pair.server, s.b.in, 1), 0);
    pair_close_blocking(&s.pair);
    buffers_close(&s.b, is_registered(_i));
}
END_TEST

START_TEST(read_what_is_there)
{
    struct pair pair;
    char in[100];

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    ck_assert_int_eq(exs_write(pair.client, "hello", 5), 5);
    ck_assert_int_eq(exs_read(pair.server, in, sizeof in), 5);
    ck_assert_mem_eq(in, "hello", 5);
    pair_close_blocking(&pair);
}
END_TEST

START_TEST(both_ways_at_once)
{
    struct pair pair;
    struct buffers b, c;
    size_t length = 16 * MIB;

    buffers_open(&b, false);
    buffers_open(&c, true);
    pair_open(&pair, AF_INET, type_of(_i));
    pattern_fill(b.out, length, 1, 0);
    pattern_fill(c.out, length, 2, 0);
    must(exs_send(pair.client, b.out, length, 0, pair.client_box->queue, NULL, b.out_region));
    must(exs_send(pair.server, c.out, length, 0, pair.server_box->queue, NULL, c.out_region));
    must(exs_recv(pair.server, b.in, length, MSG_WAITALL, pair.server_box->queue, NULL, b.in_region));
    must(exs_recv(pair.client, c.in, length, MSG_WAITALL, pair.client_box->queue, NULL, c.in_region));
    take_good(pair.client_box, EXS_EVT_RECV, pair.client);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_SEND, pair.server);
    pattern_check(b.in, length, 1, 0);
    pattern_check(c.in, length, 2, 0);
    pair_close(&pair);
    buffers_close(&b, false);
    buffers_close(&c, true);
}
END_TEST

/* ---- A stream ------------------------------------------------------------------------ */

static void send_piece(struct pair *pair, const char *bytes, size_t length)
{
    must(exs_send(pair->client, bytes, length, 0, pair->client_box->queue, NULL, NULL));
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
}

START_TEST(waitall_gathers)
{
    struct pair pair;
    char out[1000], in[1000];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pattern_fill(out, sizeof out, 5, 0);
    must(exs_recv(pair.server, in, sizeof in, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    for (int i = 0; i < 10; i++) {
        inbox_quiet(pair.server_box, 1);
        send_piece(&pair, out + 100 * i, 100);
    }
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    xfer_is(&event, in, sizeof in, 0);
    pattern_check(in, sizeof in, 5, 0);
    pair_close(&pair);
}
END_TEST

/* Without MSG_WAITALL a receive completes with the first bytes that arrive. */
START_TEST(receive_takes_what_comes)
{
    struct pair pair;
    char out[100], in[1000];
    size_t at = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pattern_fill(out, sizeof out, 5, 0);
    must(exs_recv(pair.server, in, sizeof in, 0, pair.server_box->queue, NULL, NULL));
    inbox_quiet(pair.server_box, QUIET_MS);
    send_piece(&pair, out, sizeof out);
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    xfer_is(&event, in, sizeof out, 0);
    send_piece(&pair, out, sizeof out);
    for (size_t step = 1; at < sizeof out; at += event.exs_evt_union.exs_evt_xfer.exs_evt_length, step++) {
        must(exs_recv(pair.server, in + at, step, 0, pair.server_box->queue, NULL, NULL));
        event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        ck_assert_uint_ge(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 1);
        ck_assert_uint_le(event.exs_evt_union.exs_evt_xfer.exs_evt_length, step);
    }
    ck_assert_uint_eq(at, sizeof out);
    pattern_check(in, at, 5, 0);
    pair_close(&pair);
}
END_TEST

/* Many receives get the bytes of one long send. */
START_TEST(no_boundaries)
{
    struct pair pair;
    enum { PIECES = 50, PIECE = 997 };
    char *out = new_buffer(PIECES * PIECE), *in = new_buffer(PIECES * PIECE);

    pair_open(&pair, AF_INET6, SOCK_STREAM);
    pattern_fill(out, PIECES * PIECE, 9, 0);
    for (int i = 0; i < PIECES; i++)
        must(exs_recv(pair.server, in + i * PIECE, PIECE, MSG_WAITALL, pair.server_box->queue, in + i * PIECE,
                      NULL));
    must(exs_send(pair.client, out, PIECES * PIECE, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    for (int i = 0; i < PIECES; i++) {
        exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        ck_assert_ptr_eq(event.exs_evt_ahandle, in + i * PIECE);
        xfer_is(&event, in + i * PIECE, PIECE, 0);
    }
    pattern_check(in, PIECES * PIECE, 9, 0);
    pair_close(&pair);
    free(out);
    free(in);
}
END_TEST

/* ---- A sequence of packets ----------------------------------------------------------- */

START_TEST(one_send_one_receive)
{
    struct pair pair;
    char out[100], in[20][100];
    exs_event_t event;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    pattern_fill(out, sizeof out, 3, 0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; round == 0 && i < 20; i++)
            must(exs_send(pair.client, out, (size_t)(i + 1), EXS_UNSIGNALED, NULL, NULL, NULL));
        for (int i = 0; i < 20; i++) /* MSG_WAITALL makes no difference */
            must(exs_recv(pair.server, in[i], 100, i % 2 * MSG_WAITALL, pair.server_box->queue, in[i], NULL));
        for (int i = 0; round == 1 && i < 20; i++)
            must(exs_send(pair.client, out, (size_t)(i + 1), EXS_UNSIGNALED, NULL, NULL, NULL));
        for (int i = 0; i < 20; i++) {
            event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
            ck_assert_ptr_eq(event.exs_evt_ahandle, in[i]);
            xfer_is(&event, in[i], (size_t)(i + 1), 0);
            pattern_check(in[i], (size_t)(i + 1), 3, 0);
        }
    }
    pair_close(&pair);
}
END_TEST

/* The rest of a packet that is too long is lost and not written behind the buffer; its send reports the whole
 * length. */
START_TEST(truncation)
{
    struct pair pair;
    size_t length = _i ? 3 * MIB : 1000;
    char *out = new_buffer(length), *in = new_buffer(length);

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    pattern_fill(out, length, 4, 0);
    for (int late = 0; late < 2; late++) {
        memset(in, CANARY, length);
        if (late)
            must(exs_send(pair.client, out, length, 0, pair.client_box->queue, NULL, NULL));
        must(exs_recv(pair.server, in, 100, 0, pair.server_box->queue, NULL, NULL));
        must(exs_recv(pair.server, in + 200, 100, 0, pair.server_box->queue, NULL, NULL));
        if (!late)
            must(exs_send(pair.client, out, length, 0, pair.client_box->queue, NULL, NULL));
        must(exs_send(pair.client, "ok", 2, EXS_UNSIGNALED, NULL, NULL, NULL));
        exs_event_t event = take_good(pair.client_box, EXS_EVT_SEND, pair.client);
        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
        event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        xfer_is(&event, in, 100, MSG_TRUNC);
        pattern_check(in, 100, 4, 0);
        event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        xfer_is(&event, in + 200, 2, 0);
        ck_assert_mem_eq(in + 200, "ok", 2);
        same_bytes(in + 100, 100, CANARY);
        same_bytes(in + 202, length - 202, CANARY);
    }
    pair_close(&pair);
    free(out);
    free(in);
}
END_TEST

static void *send_two_packets(void *arg)
{
    struct pair *pair = arg;

    ck_assert_int_eq(exs_write(pair->client, "a long packet", 13), 13);
    ck_assert_int_eq(exs_write(pair->client, "short", 5), 5);
    return NULL;
}

START_TEST(truncation_blocking)
{
    struct pair pair;
    char in[100] = "";

    pair_open_blocking(&pair, AF_INET, SOCK_SEQPACKET);
    pthread_t thread = thread_start(send_two_packets, &pair);
    ck_assert_int_eq(exs_read(pair.server, in, 6), 6);
    ck_assert_str_eq(in, "a long");
    ck_assert_int_eq(exs_blocking_recv(pair.server, in, sizeof in, 0, NULL), 5);
    ck_assert_mem_eq(in, "short", 5);
    thread_join(thread);
    pair_close_blocking(&pair);
}
END_TEST

/* ---- Flags and regions --------------------------------------------------------------- */

START_TEST(unsignaled)
{
    struct pair pair;
    char in[200], out[] = "never seen by any queue";
    size_t got = 0;

    pair_open(&pair, AF_INET, type_of(_i));
    must(exs_send(pair.client, out, 10, EXS_UNSIGNALED, NULL, NULL, NULL));
    must(exs_send(pair.client, out, 10, EXS_UNSIGNALED, pair.client_box->queue, out, NULL));
    must(exs_send(pair.client, out, 10, 0, pair.client_box->queue, in, NULL));
    while (got < 30) {
        must(exs_recv(pair.server, in, 30 - got, 0, pair.server_box->queue, NULL, NULL));
        exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        got += event.exs_evt_union.exs_evt_xfer.exs_evt_length;
    }
    ck_assert_ptr_eq(take_good(pair.client_box, EXS_EVT_SEND, pair.client).exs_evt_ahandle, in);
    inbox_quiet(pair.client_box, QUIET_MS);
    pair_close(&pair);
}
END_TEST

/* One region is used in parts by two queues and two sockets. */
START_TEST(shared_region)
{
    struct pair pair[2];
    size_t part = 10000;
    char *memory = new_buffer(8 * part);
    exs_mhandle_t region = exs_mregister(memory, 8 * part, EXS_MRF_SHARED);

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    for (int i = 0; i < 2; i++) {
        pair_open(&pair[i], AF_INET, type_of(_i));
        char *out = memory + 4 * i * (int)part, *in = out + 2 * part;
        pattern_fill(out, part, (uint64_t)i, 0);
        must(exs_recv(pair[i].server, in, part, MSG_WAITALL, pair[i].server_box->queue, NULL, region));
        must(exs_send(pair[i].client, out, part, 0, pair[i].client_box->queue, NULL, region));
    }
    for (int i = 0; i < 2; i++) {
        take_good(pair[i].server_box, EXS_EVT_RECV, pair[i].server);
        take_good(pair[i].client_box, EXS_EVT_SEND, pair[i].client);
        pattern_check(memory + (4 * i + 2) * (int)part, part, (uint64_t)i, 0);
        same_bytes(memory + (4 * i + 1) * (int)part, part, CANARY);
        same_bytes(memory + (4 * i + 3) * (int)part, part, CANARY);
        pair_close(&pair[i]);
    }
    must(exs_mderegister(region, 0));
    free(memory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transfer");
    TCase *size = add_case(suite, "sizes", 30), *stream = add_case(suite, "stream", 10),
          *packets = add_case(suite, "packets", 10), *flags = add_case(suite, "flags", 10);

    tcase_add_loop_test(size, every_size, 0, 8);
    tcase_add_loop_test(size, every_size_blocking, 0, 8);
    tcase_add_loop_test(size, both_ways_at_once, 1, 3); /* SOCK_STREAM and SOCK_SEQPACKET */
    tcase_add_test(stream, read_what_is_there);
    tcase_add_test(stream, waitall_gathers);
    tcase_add_test(stream, receive_takes_what_comes);
    tcase_add_test(stream, no_boundaries);
    tcase_add_test(packets, one_send_one_receive);
    tcase_add_loop_test(packets, truncation, 0, 2);
    tcase_add_test(packets, truncation_blocking);
    tcase_add_loop_test(flags, unsignaled, 1, 3);
    tcase_add_loop_test(flags, shared_region, 1, 3);
    return run_suite(suite);
}
