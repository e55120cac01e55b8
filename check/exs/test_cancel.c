/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_cancel.c - exs_cancel on receives: each cancelled receive has one event, its memory belongs to the application
 * again, and the remaining receives lose neither bytes nor messages.
 */
#include "check/support/support.h"

#include <sys/mman.h>

#define RECEIVES 5
#define MANY 45 /* more than are advertised at once */

static exs_evt_xfer_t xfer_of(const exs_event_t *event)
{
    return event->exs_evt_union.exs_evt_xfer;
}

/* The event of a receive or send that was cancelled before it transferred any byte. */
static void take_cancelled(struct inbox *box, int type, int socket, void *ahandle)
{
    exs_event_t event = take_failed(box, type, socket, ECANCELED);

    ck_assert_ptr_eq(event.exs_evt_ahandle, ahandle);
    ck_assert_uint_eq(xfer_of(&event).exs_evt_length, 0);
}

static void move_both(const struct pair *pair)
{
    for (int i = 0; i < 5; i++) {
        inbox_pump(pair->server_box, 0);
        inbox_pump(pair->client_box, 1);
    }
}

static void receive(const struct pair *pair, void *buffer, size_t length, int flags)
{
    must(exs_recv(pair->server, buffer, length, flags, pair->server_box->queue, buffer, NULL));
}

static void send_bytes(const struct pair *pair, const void *buffer, size_t length)
{
    must(exs_send(pair->client, buffer, length, 0, pair->client_box->queue, (void *)(uintptr_t)buffer, NULL));
}

/* ---- Nothing to cancel -------------------------------------------------------------------------------- */

START_TEST(nothing)
{
    struct pair pair;
    struct address address;
    int fresh = exs_socket(PF_INET, SOCK_STREAM, 0);
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);

    pair_open_kind(&pair, 0);
    ck_assert_int_eq(exs_cancel(fresh, NULL, EXS_CANCEL_ALL), 0);
    ck_assert_int_eq(exs_cancel(listener, NULL, EXS_CANCEL_ALL), 0);
    ck_assert_int_eq(exs_cancel(pair.client, NULL, EXS_CANCEL_ALL), 0);
    must_fail(exs_cancel(pair.client, NULL, 1), EINVAL);
    must_fail(exs_cancel(pair.client, NULL, EXS_BLOCK), EINVAL);
    must_fail(exs_cancel(0, NULL, 0), EBADF);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
    /* A completed operation is not pending. */
    ck_assert_int_eq(exs_cancel(pair.client, NULL, EXS_CANCEL_ALL), 0);
    must(exs_blocking_close(fresh));
    must_fail(exs_cancel(fresh, NULL, 0), EBADF);
    must(exs_blocking_close(listener));
    pair_close(&pair);
}
END_TEST

/* ---- Receives ----------------------------------------------------------------------------------------- */

/* Cancels one of several receives, before or after the peer has their advertisements, of a length that a STREAM
 * advertises or that it copies from the ring buffer. */
START_TEST(one_receive)
{
    bool told = _i & 4, large = _i & 8;
    int which = _i / 16;
    size_t length = large ? 20000 : 500;
    uint8_t *in = new_buffer(RECEIVES * length), *out = new_buffer(length);
    struct pair pair;
    uint64_t at = 0;

    pair_open_kind(&pair, _i % 4);
    for (int i = 0; i < RECEIVES; i++)
        receive(&pair, in + i * length, length, MSG_WAITALL);
    if (told)
        move_both(&pair);
    ck_assert_int_eq(exs_cancel(pair.server, in + which * length, 0), 1);
    take_cancelled(pair.server_box, EXS_EVT_RECV, pair.server, in + which * length);
    for (int i = 0; i < RECEIVES - 1; i++, at += length) {
        pattern_fill(out, length, 1, at);
        send_bytes(&pair, out, length);
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    }
    at = 0;
    for (int i = 0; i < RECEIVES; i++) {
        if (i == which) {
            same_bytes(in + i * length, length, CANARY);
            continue;
        }
        exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);

        ck_assert_ptr_eq(event.exs_evt_ahandle, in + i * length);
        ck_assert_uint_eq(xfer_of(&event).exs_evt_length, length);
        pattern_check(in + i * length, length, 1, at);
        at += length;
    }
    free(in);
    free(out);
    pair_close(&pair);
}
END_TEST

/* Cancels more receives than can be advertised; the connection still works. */
START_TEST(all_receives)
{
    struct pair pair;
    uint8_t *in = new_buffer(MANY * 20000);

    pair_open_kind(&pair, _i % 4);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++)
            receive(&pair, in + i * 20000, _i & 4 ? 20000 : 100, 0);
        if (round > 0)
            move_both(&pair);
        ck_assert_int_eq(exs_cancel(pair.server, NULL, EXS_CANCEL_ALL), MANY);
        if (round == 2) /* a second call does no harm */
            exs_cancel(pair.server, NULL, EXS_CANCEL_ALL);
        for (int i = 0; i < MANY; i++) { /* receives that were not advertised end first */
            exs_event_t event = take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ECANCELED);

            ck_assert_uint_eq(xfer_of(&event).exs_evt_length, 0);
        }
        same_bytes(in, MANY * 20000, CANARY);
        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 20000, 1);
    }
    free(in);
    pair_close(&pair);
}
END_TEST

/* A cancelled receive reports the bytes that it got, and the next receive continues after them. */
START_TEST(half_a_receive)
{
    size_t length = _i & 1 ? 100000 : 1000, half = length / 2 - 17;
    uint8_t *in = new_buffer(2 * length), *out = new_buffer(length);
    struct pair pair;

    pair_open_kind(&pair, _i & 2);
    ck_assert_int_eq(kinds[_i & 2].type, SOCK_STREAM);
    pattern_fill(out, length, 1, 0);
    receive(&pair, in, length, MSG_WAITALL);
    move_both(&pair);
    send_bytes(&pair, out, half);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    move_both(&pair);
    receive(&pair, in + length, length - half, MSG_WAITALL);
    ck_assert_int_eq(exs_cancel(pair.server, in, 0), 1);
    exs_event_t event = take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ECANCELED);
    ck_assert_uint_eq(xfer_of(&event).exs_evt_length, half);
    pattern_check(in, half, 1, 0);
    same_bytes(in + half, length - half, CANARY);
    send_bytes(&pair, out + half, length - half);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    pattern_check(in + length, length - half, 1, half);
    free(in);
    free(out);
    pair_close(&pair);
}
END_TEST

/* The file has the bytes that arrived: neither blocks nor length remain from preallocation. */
START_TEST(into_a_file)
{
    size_t length = _i & 1 ? 300000 : 0;
    uint8_t *bytes = new_buffer(300001);
    int file = memfd_create("cancel", 0);
    exs_xferfile_t vector = {
        .exs_xfv_type = EXS_FDVEC,
        .exs_xfv.exs_fdv = {.exs_fildes = file, .exs_length = _i & 2 ? (size_t)1 << 24 : 0}};
    struct pair pair;

    pair_open_kind(&pair, 0);
    must(exs_recvfile(pair.server, &vector, 1, 0, pair.server_box->queue, &vector));
    move_both(&pair);
    pattern_fill(bytes, length, 1, 0);
    if (length > 0) {
        send_bytes(&pair, bytes, length);
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
        move_both(&pair);
    }
    ck_assert_int_eq(exs_cancel(pair.server, &vector, 0), 1);
    exs_event_t event = take_failed(pair.server_box, EXS_EVT_RECVFILE, pair.server, ECANCELED);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_length, length);
    memset(bytes, CANARY, length);
    ck_assert_int_eq(pread(file, bytes, 300001, 0), length);
    pattern_check(bytes, length, 1, 0);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 20000, 2);
    close(file);
    free(bytes);
    pair_close(&pair);
}
END_TEST

/* Data that the peer wrote before it received the recall is delivered. */
START_TEST(crossing)
{
    uint8_t *in = new_buffer(40000), *out = new_buffer(20000);
    struct pair pair;

    pair_open_kind(&pair, _i);
    receive(&pair, in, 20000, 0);
    receive(&pair, in + 20000, 20000, 0);
    move_both(&pair);
    pair.client_box->beside = NULL;
    pattern_fill(out, 20000, 1, 0);
    send_bytes(&pair, out, 20000);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client); /* the data is in the server's memory */
    ck_assert_int_eq(exs_cancel(pair.server, NULL, EXS_CANCEL_ALL), 2);
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_ptr_eq(event.exs_evt_ahandle, in);
    pattern_check(in, 20000, 1, 0);
    take_cancelled(pair.server_box, EXS_EVT_RECV, pair.server, in + 20000);
    same_bytes(in + 20000, 20000, CANARY);
    free(in);
    free(out);
    pair_close(&pair);
}
END_TEST

/* A cancel and a shutdown both need a recall: the peer gets only one. */
START_TEST(cancelled_and_shut)
{
    uint8_t *in = new_buffer(40000);
    struct pair pair;

    pair_open_kind(&pair, _i % 4);
    receive(&pair, in, 20000, 0);
    receive(&pair, in + 20000, 20000, 0);
    move_both(&pair);
    ck_assert_int_eq(exs_cancel(pair.server, in + 20000, 0), 1);
    must(exs_shutdown(pair.server, SHUT_RD, 0, pair.server_box->queue, NULL));
    take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    for (int i = 0; i < 2; i++) { /* cancelled, or at the end of the stream */
        while (pair.server_box->count == 0)
            inbox_pump(pair.server_box, WAIT_MS);
        exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);

        ck_assert(event.exs_evt_errno == 0 || event.exs_evt_ahandle == in + 20000);
        ck_assert_uint_eq(xfer_of(&event).exs_evt_length, 0);
    }
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, 20000, 1);
    free(in);
    pair_close(&pair);
}
END_TEST

/* ---- At random ---------------------------------------------------------------------------------------- */

struct flow { /* one direction of a pair */
    struct pair pair;
    struct chance chance;
    uint64_t sent, received;
    int sends, receives;
    uint8_t *in, *out;
};
#define PLACES 8 /* of receives, and of sends, at once */
#define PLACE (100 * KIB)

/* Checks that the bytes of all events, in order, are the stream: cancelling neither loses nor repeats bytes. */
static void take_bytes(struct flow *flow)
{
    exs_event_t event;

    inbox_pump(flow->pair.server_box, 0);
    while (flow->pair.server_box->count > 0) {
        event = inbox_take(flow->pair.server_box, EXS_EVT_RECV, flow->pair.server);
        ck_assert(event.exs_evt_errno == 0 || event.exs_evt_errno == ECANCELED);
        pattern_check(event.exs_evt_ahandle, xfer_of(&event).exs_evt_length, 1, flow->received);
        memset(event.exs_evt_ahandle, CANARY, PLACE); /* the memory belongs to the application again */
        flow->received += xfer_of(&event).exs_evt_length;
        flow->receives--;
    }
    inbox_pump(flow->pair.client_box, 0);
    while (flow->pair.client_box->count > 0) {
        take_good(flow->pair.client_box, EXS_EVT_SEND, flow->pair.client);
        flow->sends--;
    }
}

static void do_something(struct flow *flow, int turn)
{
    uint8_t *in = flow->in + (turn % PLACES) * PLACE, *out = flow->out + (turn % PLACES) * PLACE;
    size_t length = chance_size(&flow->chance, 1, PLACE);

    switch (chance_below(&flow->chance, 5)) {
    case 0:
    case 1:
        if (flow->receives == 0) {
            for (int i = 0; i < PLACES; i++, flow->receives++)
                receive(&flow->pair, flow->in + i * PLACE, chance_size(&flow->chance, 1, PLACE),
                        chance_below(&flow->chance, 2) ? MSG_WAITALL : 0);
        }
        break;
    case 2:
        must(exs_cancel(flow->pair.server, in, chance_below(&flow->chance, 4) ? 0 : EXS_CANCEL_ALL));
        break;
    default:
        if (flow->sends > 0)
            break;
        pattern_fill(out, length, 1, flow->sent);
        send_bytes(&flow->pair, out, length);
        flow->sends++;
        flow->sent += length;
    }
}

START_TEST(stream_at_random)
{
    struct flow flow = {
        .chance = chance_new(), .in = new_buffer(PLACES * PLACE), .out = new_buffer(PLACES * PLACE)};
    double end = seconds_now() + seconds_to_spend();

    pair_open(&flow.pair, AF_INET, SOCK_STREAM);
    for (int turn = 0; seconds_now() < end; turn++) {
        do_something(&flow, turn);
        take_bytes(&flow);
    }
    ck_assert_uint_gt(flow.received, 0);
    must(exs_cancel(flow.pair.server, NULL, EXS_CANCEL_ALL));
    while (flow.receives > 0)
        take_bytes(&flow);
    while (flow.received < flow.sent) {
        receive(&flow.pair, flow.in, PLACE, 0);
        flow.receives++;
        while (flow.receives > 0)
            take_bytes(&flow);
    }
    while (flow.sends > 0)
        take_bytes(&flow);
    free(flow.in);
    free(flow.out);
    pair_close(&flow.pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cancel");
    TCase *tcase = add_case(suite, "cancel", 20);

    tcase_add_test(tcase, nothing);
    tcase_add_loop_test(tcase, one_receive, 0, 16 * RECEIVES);
    tcase_add_loop_test(tcase, all_receives, 0, 8);
    tcase_add_loop_test(tcase, half_a_receive, 0, 4);
    tcase_add_loop_test(tcase, into_a_file, 0, 4);
    tcase_add_loop_test(tcase, crossing, 0, 4);
    tcase_add_loop_test(tcase, cancelled_and_shut, 0, 4);
    tcase_add_test(tcase, stream_at_random);
    return run_suite(suite);
}
