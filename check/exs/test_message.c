/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_message.c - exs_sendmsg and exs_recvmsg: the bytes of all segments are one stream, or one message,
 * however the two ends divide them into segments.
 */
#include "check/support/support.h"

#define PIECES_MAX 60
#define AREA (160 * KIB) /* bytes of memory for all segments of one side */
#define COPIED (8 * KIB) /* the longest message that is copied and not registered */

struct vector { /* segments in one area, with a gap of GAP bytes before each */
    uint8_t *area;
    exs_mhandle_t region; /* of the area, or NULL */
    exs_iovec_t pieces[PIECES_MAX];
    exs_msghdr_t message;
    size_t length, used; /* bytes: of all segments, and of the area */
};
#define GAP 3

static void vector_open(struct vector *vector, bool registered)
{
    *vector = (struct vector){.area = new_buffer(AREA)};
    vector->message.exs_iov = vector->pieces;
    if (registered)
        vector->region = exs_mregister(vector->area, AREA, 0);
    ck_assert_ptr_ne(vector->region, EXS_MHANDLE_INVALID);
}

static void vector_close(struct vector *vector)
{
    if (vector->region != NULL)
        must(exs_mderegister(vector->region, 0));
    free(vector->area);
}

static void vector_add(struct vector *vector, size_t length)
{
    ck_assert_int_lt(vector->message.exs_iovlen, PIECES_MAX);
    ck_assert_uint_le(vector->used + GAP + length, AREA);
    vector->pieces[vector->message.exs_iovlen++] = (exs_iovec_t){
        .exs_base = vector->area + vector->used + GAP, .exs_length = length, .exs_mhandle = vector->region};
    vector->used += GAP + length;
    vector->length += length;
}

/* Fills the segments with the pattern from byte number `at` on. */
static void vector_fill(struct vector *vector, uint64_t at)
{
    for (int i = 0; i < vector->message.exs_iovlen; i++) {
        pattern_fill(vector->pieces[i].exs_base, vector->pieces[i].exs_length, 1, at);
        at += vector->pieces[i].exs_length;
    }
}

/* The segments hold this number of bytes of the pattern, and nothing was written behind these or between the
 * segments. */
static void vector_check(const struct vector *vector, size_t bytes, uint64_t at)
{
    for (int i = 0; i < vector->message.exs_iovlen; i++) {
        const exs_iovec_t *piece = &vector->pieces[i];
        size_t here = bytes < piece->exs_length ? bytes : piece->exs_length;

        same_bytes((uint8_t *)piece->exs_base - GAP, GAP, CANARY);
        pattern_check(piece->exs_base, here, 1, at);
        same_bytes((uint8_t *)piece->exs_base + here, piece->exs_length - here, CANARY);
        at += here;
        bytes -= here;
    }
    ck_assert_uint_eq(bytes, 0);
}

/* ---- One message ----------------------------------------------------------------------------- */

static void send_message(const struct pair *pair, struct vector *vector)
{
    must(exs_sendmsg(pair->client, &vector->message, 0, pair->client_box->queue, vector));
}

static void take_sent(const struct pair *pair, const struct vector *vector)
{
    exs_event_t event = take_good(pair->client_box, EXS_EVT_SENDMSG, pair->client);

    ck_assert_ptr_eq(event.exs_evt_ahandle, vector);
    ck_assert_ptr_eq(event.exs_evt_union.exs_evt_xfermsg.exs_evt_msg, &vector->message);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfermsg.exs_evt_length, vector->length);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xfermsg.exs_evt_flags, 0);
}

static exs_evt_xfermsg_t take_received(const struct pair *pair, const struct vector *vector)
{
    exs_event_t event = take_good(pair->server_box, EXS_EVT_RECVMSG, pair->server);

    ck_assert_ptr_eq(event.exs_evt_ahandle, vector);
    ck_assert_ptr_eq(event.exs_evt_union.exs_evt_xfermsg.exs_evt_msg, &vector->message);
    return event.exs_evt_union.exs_evt_xfermsg;
}

static void receive_message(const struct pair *pair, struct vector *vector, int flags)
{
    must(exs_recvmsg(pair->server, &vector->message, flags, pair->server_box->queue, vector));
}

/* How each end divides a message: the lengths of the segments, up to the first negative one. */
static const struct cut {
    int from[8], to[8];
} cuts[] = {
    {{100, -1}, {100, -1}},
    {{1, 2, 3, 4, -1}, {4, 3, 2, 1, -1}},
    {{0, 10, 0, 0, 20, 0, -1}, {0, 7, 23, 0, -1}},
    {{COPIED - 1, 1, -1}, {1, COPIED - 1, -1}},
    {{COPIED, 1, -1}, {COPIED + 1, -1}},
    {{COPIED + 1, -1}, {1, COPIED, -1}},
    {{5000, 5000, 5000, -1}, {9000, 6000, -1}},
    {{10, 60000, 10, 20, 30, 9000, 5, -1}, {30000, 5, 39070, -1}},
    {{9000, 1, 1, 1, 1, 9000, -1}, {0, 18004, -1}},
    {{65536, 65536, -1}, {1, 131070, 1, -1}},
};

static void vector_cut(struct vector *vector, const int *lengths)
{
    for (int i = 0; i < 8 && lengths[i] >= 0; i++)
        vector_add(vector, (size_t)lengths[i]);
}

/* The receive is posted before the message is sent, or after it. */
START_TEST(one_message)
{
    int kind = _i % 4, received_first = _i / 4 % 2, registered = _i / 8 % 4;
    const struct cut *cut = &cuts[_i / 32];
    struct vector from, to;
    struct pair pair;

    pair_open_kind(&pair, kind);
    vector_open(&from, registered & 1);
    vector_open(&to, registered & 2);
    vector_cut(&from, cut->from);
    vector_cut(&to, cut->to);
    ck_assert_uint_eq(from.length, to.length);
    vector_fill(&from, 0);
    if (received_first)
        receive_message(&pair, &to, MSG_WAITALL);
    inbox_pump(pair.server_box, 0);
    inbox_pump(pair.client_box, received_first ? 5 : 0);
    send_message(&pair, &from);
    if (!received_first)
        receive_message(&pair, &to, MSG_WAITALL);
    memset(from.pieces, 0xff, sizeof from.pieces); /* the call has returned: the array is the caller's again */
    pair.client_box->beside = pair.server_box;
    take_sent(&pair, &from);
    exs_evt_xfermsg_t came = take_received(&pair, &to);

    ck_assert_uint_eq(came.exs_evt_length, to.length);
    ck_assert_int_eq(came.exs_evt_flags, 0);
    vector_check(&to, to.length, 0);
    pair_close(&pair);
    vector_close(&from);
    vector_close(&to);
}
END_TEST

/* ---- Messages of SOCK_SEQPACKET -------------------------------------------------------------- */

/* A message that is longer than the segments is truncated; one that is shorter fills some of them. The next
 * message arrives whole. */
START_TEST(truncated)
{
    static const size_t sent[] = {20, 40, 80, 9000, 30000, 60000, 100000, 0};
    size_t length = sent[_i % COUNT(sent)];
    bool large = _i / COUNT(sent) % 2, registered = _i / COUNT(sent) / 2;
    struct vector from, to, behind;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    vector_open(&from, registered);
    vector_open(&to, registered);
    vector_open(&behind, registered);
    vector_add(&from, length / 2);
    vector_add(&from, length - length / 2);
    for (int i = 0; i < 4; i++)
        vector_add(&to, large ? 10000 : 10);
    vector_add(&behind, 50000);
    vector_add(&behind, 50000);
    receive_message(&pair, &to, 0);
    receive_message(&pair, &behind, 0);
    pair.client_box->beside = pair.server_box;
    for (int i = 0; i < 2; i++) {
        vector_fill(&from, 0);
        send_message(&pair, &from);
        take_sent(&pair, &from);
    }
    exs_evt_xfermsg_t came = take_received(&pair, &to);

    ck_assert_uint_eq(came.exs_evt_length, length < to.length ? length : to.length);
    ck_assert_int_eq(came.exs_evt_flags, length > to.length ? MSG_TRUNC : 0);
    vector_check(&to, came.exs_evt_length, 0);
    came = take_received(&pair, &behind);
    ck_assert_uint_eq(came.exs_evt_length, length);
    ck_assert_int_eq(came.exs_evt_flags, 0);
    vector_check(&behind, length, 0);
    pair_close(&pair);
    vector_close(&from);
    vector_close(&to);
    vector_close(&behind);
}
END_TEST

/* ---- Blocking -------------------------------------------------------------------------------- */

static void *send_blocking(void *argument)
{
    const struct pair *pair = argument;
    struct vector from;

    vector_open(&from, false);
    for (int i = 0; i < 50; i++)
        vector_add(&from, 1000);
    vector_fill(&from, 0);
    ck_assert_int_eq(exs_blocking_sendmsg(pair->client, &from.message, 0), 50000);
    vector_close(&from);
    return NULL;
}

START_TEST(blocking)
{
    bool stream = _i == 0;
    struct vector to;
    struct pair pair;

    pair_open_blocking(&pair, AF_INET, stream ? SOCK_STREAM : SOCK_SEQPACKET);
    vector_open(&to, false);
    vector_add(&to, 7);
    vector_add(&to, 40000);
    to.message.exs_msg_flags = -1;
    pthread_t sender = thread_start(send_blocking, &pair);

    ck_assert_int_eq(exs_blocking_recvmsg(pair.server, &to.message, MSG_WAITALL), 40007);
    ck_assert_int_eq(to.message.exs_msg_flags, stream ? 0 : MSG_TRUNC);
    vector_check(&to, 40007, 0);
    if (stream) { /* receive the rest */
        to.message.exs_iov = &to.pieces[1];
        to.message.exs_iovlen = 1;
        to.pieces[1].exs_length = 50000 - 40007;
        ck_assert_int_eq(exs_blocking_recvmsg(pair.server, &to.message, MSG_WAITALL), 50000 - 40007);
        pattern_check(to.pieces[1].exs_base, 50000 - 40007, 1, 40007);
    }
    thread_join(sender);
    pair_close_blocking(&pair);
    vector_close(&to);
}
END_TEST

/* ---- At random ------------------------------------------------------------------------------- */

static void vector_random(struct vector *vector, struct chance *chance)
{
    size_t left = AREA / 2;

    vector->message.exs_iovlen = 0;
    vector->used = vector->length = 0;
    memset(vector->area, CANARY, AREA);
    for (int count = 1 + (int)chance_below(chance, PIECES_MAX); count > 0; count--) {
        size_t length = chance_below(chance, 8) == 0 ? 0 : chance_size(chance, 1, left / (size_t)count + 1);

        vector_add(vector, length);
        left -= length < left ? length : left;
    }
    if (vector->length == 0) {
        vector->message.exs_iovlen = 0;
        vector_add(vector, 1);
    }
}

/* Sends messages through a stream; the receiver divides the bytes into other segments than the sender. */
static void stream_at_random(const struct pair *pair, struct chance *chance)
{
    bool registered = chance_below(chance, 2);
    uint64_t sent = 0, received = 0;
    struct vector from, to;

    vector_open(&from, registered);
    vector_open(&to, chance_below(chance, 2));
    for (int i = 0; i < 10; i++) {
        vector_random(&from, chance);
        vector_fill(&from, sent);
        sent += from.length;
        send_message(pair, &from);
        while (received < sent) {
            vector_random(&to, chance);
            receive_message(pair, &to, 0);
            exs_evt_xfermsg_t came = take_received(pair, &to);

            ck_assert_uint_gt(came.exs_evt_length, 0);
            vector_check(&to, came.exs_evt_length, received);
            received += came.exs_evt_length;
        }
        take_sent(pair, &from);
    }
    vector_close(&from);
    vector_close(&to);
}

START_TEST(random_stream)
{
    struct chance chance = chance_new();
    double end = seconds_now() + seconds_to_spend() / 4;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    do
        stream_at_random(&pair, &chance);
    while (seconds_now() < end);
    pair_close(&pair);
}
END_TEST

/* ---- Close and end of stream ----------------------------------------------------------------- */

/* A close cancels a pending receive, and an orderly end completes it with 0 bytes. Either releases its memory. */
START_TEST(ends)
{
    int type = _i % 2 ? SOCK_SEQPACKET : SOCK_STREAM;
    bool closes = _i / 2;
    struct vector to;
    struct pair pair;

    pair_open(&pair, AF_INET, type);
    vector_open(&to, true);
    for (int i = 0; i < 3; i++)
        vector_add(&to, 20000);
    receive_message(&pair, &to, 0);
    must_fail(exs_mderegister(to.region, 0), EBUSY);
    if (closes) {
        must(exs_close(pair.server, 0, pair.server_box->queue, NULL));
        take_failed(pair.server_box, EXS_EVT_RECVMSG, pair.server, ECANCELED);
        take_good(pair.server_box, EXS_EVT_CLOSE, pair.server);
    } else {
        must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
        pair.client_box->beside = pair.server_box;
        take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
        ck_assert_uint_eq(take_received(&pair, &to).exs_evt_length, 0);
        close_socket(pair.server_box, pair.server);
    }
    vector_check(&to, 0, 0);
    vector_close(&to);
    close_socket(pair.client_box, pair.client);
    pair_close_rest(&pair);
}
END_TEST

/* A call whose middle element has an invalid region fails, and leaves the regions of the other elements unused. */
START_TEST(refused_in_the_middle)
{
    struct vector vector;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < 2; i++) {
        vector_open(&vector, true);
        vector_add(&vector, 10);
        vector_add(&vector, i == 0 ? 10 : 20000); /* short enough to be copied, or too long for that */
        vector_add(&vector, 10);
        vector.pieces[2].exs_mhandle = EXS_MHANDLE_INVALID;
        must_fail(exs_sendmsg(pair.client, &vector.message, 0, pair.client_box->queue, NULL), EINVAL);
        must_fail(exs_recvmsg(pair.client, &vector.message, 0, pair.client_box->queue, NULL), EINVAL);
        vector_close(&vector); /* fails if an operation uses the region */
    }
    inbox_quiet(pair.client_box, 0);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message");
    TCase *tcase = add_case(suite, "pieces", 20);

    tcase_add_loop_test(tcase, one_message, 0, 32 * COUNT(cuts));
    tcase_add_loop_test(tcase, truncated, 0, 32);
    tcase_add_loop_test(tcase, blocking, 0, 2);
    tcase_add_test(tcase, random_stream);
    tcase_add_loop_test(tcase, ends, 0, 4);
    tcase_add_test(tcase, refused_in_the_middle);
    return run_suite(suite);
}
