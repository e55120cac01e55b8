/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_silent.c - short fire-and-forget sends (EXS_UNSIGNALED, without a queue): their bytes arrive whole and
 * in order, among operations of every kind, and they leave no region or queue in use.
 */
#include "check/support/files.h"

enum { SHORT = 64, ARENA = 8 * 1024 * 1024, OPS = 3000, WINDOW = 4096, MANY = 20000 };

static const size_t sizes[] = {0, 1, 63, 64, 65, 200};
static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
static const int waits[] = {EXS_WAIT_NOTIFY, EXS_WAIT_ADAPTIVE, EXS_WAIT_BUSY_POLL};
static struct pair pair;

static void hush(int socket, const void *bytes, size_t length, exs_mhandle_t region)
{
    must(exs_send(socket, bytes, length, EXS_UNSIGNALED, NULL, NULL, region));
}

static void wait_so(const struct inbox *box, int wait)
{
    const exs_qattr_t values = {.exs_wait = wait, .exs_wait_us = wait == EXS_WAIT_ADAPTIVE ? 200 : 0};

    must(exs_qmodify(box->queue, EXS_QATTR_WAIT, &values));
}

static exs_evt_xfer_t received(struct inbox *box, int socket)
{
    return take_good(box, EXS_EVT_RECV, socket).exs_evt_union.exs_evt_xfer;
}

/* ---- One at a time ------------------------------------------------------------------------- */

static void receive_exactly(size_t length, uint64_t seed, bool is_started)
{
    char in[512];
    static char started[512];
    char *to = is_started ? started : in;

    if (!is_started)
        must(exs_recv(pair.server, to, sizeof in, 0, pair.server_box->queue, NULL, NULL));
    exs_evt_xfer_t xfer = received(pair.server_box, pair.server);
    ck_assert_uint_eq(xfer.exs_evt_length, length);
    ck_assert_int_eq(xfer.exs_evt_flags, 0);
    pattern_check(xfer.exs_evt_buffer, length, seed, 0);
}

/* No send is pending before it, so the call copies the bytes: the caller may change the buffer immediately. */
START_TEST(overwritten)
{
    int type = types[_i & 1];
    static char out[512], in[512];
    exs_mhandle_t region = _i & 2 ? exs_mregister(out, sizeof out, 0) : NULL;

    pair_open(&pair, AF_INET, type);
    wait_so(pair.client_box, waits[_i / 4]);
    wait_so(pair.server_box, waits[_i / 4]);
    for (uint64_t round = 0; round < 600; round++) {
        size_t length = sizes[round % 4]; /* lengths of sends that complete in the call */

        if (length == 0 && type == SOCK_STREAM) {
            hush(pair.client, out, 0, region);
            continue;
        }
        bool is_started = round % 3 != 0 || type == SOCK_SEQPACKET;
        if (is_started)
            must(exs_recv(pair.server, in, sizeof in, 0, pair.server_box->queue, NULL, NULL));
        if (is_started && type == SOCK_SEQPACKET) { /* waits until the sender has the advertisement */
            must(exs_send(pair.server, "", 1, 0, pair.server_box->queue, NULL, NULL));
            char byte;
            must(exs_recv(pair.client, &byte, 1, 0, pair.client_box->queue, NULL, NULL));
            received(pair.client_box, pair.client);
            take_good(pair.server_box, EXS_EVT_SEND, pair.server);
        }
        pattern_fill(out, length, round, 0);
        hush(pair.client, out, length, region);
        memset(out, 0x5a, sizeof out);
        receive_exactly(length, round, is_started);
    }
    inbox_quiet(pair.client_box, QUIET_MS);
    if (region != NULL)
        must(exs_mderegister(region, 0));
    pair_close(&pair);
}
END_TEST

/* ---- Among operations of every kind ---------------------------------------------------------- */

struct flow { /* one direction */
    int from, to, type, file;
    struct inbox *out, *in;
    char *bytes, *window,
        *there; /* the pattern of `seed`; the part of the peer's memory that is written to; the peer's memory */
    exs_mhandle_t region, there_region;
    exs_token_t token;
    uint64_t seed;
    size_t sent, received;
    size_t lengths[OPS]; /* of messages */
    int written, read;
    uintptr_t owed[EXS_EVT_POLL + 1]; /* number of expected events of each type */
    char *buffer;
};
static struct folder folder;

static void flow_open(struct flow *f, bool is_back, int type)
{
    *f = (struct flow){.from = is_back ? pair.server : pair.client,
                       .to = is_back ? pair.client : pair.server,
                       .type = type,
                       .out = is_back ? pair.server_box : pair.client_box,
                       .in = is_back ? pair.client_box : pair.server_box,
                       .seed = 100 + is_back};
    f->bytes = new_buffer(ARENA);
    pattern_fill(f->bytes, ARENA, f->seed, 0);
    f->file = folder_file(&folder, is_back ? "back" : "there", 0);
    ck_assert_int_eq(pwrite(f->file, f->bytes, ARENA, 0), ARENA);
    f->region = exs_mregister(f->bytes, ARENA, 0);
    f->there = new_buffer(WINDOW);
    f->there_region = exs_mregister(f->there, WINDOW, 0);
    must(exs_mexport(f->to, f->there_region, f->there, WINDOW, EXS_REMOTE_WRITE, &f->token));
    f->buffer = new_buffer(2 * MIB);
}

static void owe(struct flow *f, int type)
{
    f->owed[type]++;
}

static void note_sent(struct flow *f, size_t length)
{
    f->sent += length;
    if (f->type == SOCK_SEQPACKET || length > 0)
        f->lengths[f->written++] = length;
}

static void send_pieces(struct flow *f, size_t length)
{
    exs_iovec_t pieces[2] = {{.exs_base = f->bytes + f->sent, .exs_length = length / 2},
                             {.exs_base = f->bytes + f->sent + length / 2,
                              .exs_length = length - length / 2,
                              .exs_mhandle = f->region}};
    const exs_msghdr_t message = {.exs_iov = pieces, .exs_iovlen = 2};

    must(exs_sendmsg(f->from, &message, 0, f->out->queue, (void *)f->owed[EXS_EVT_SENDMSG]));
    owe(f, EXS_EVT_SENDMSG);
}

static exs_xferfile_t files[2][OPS];

static void send_file(struct flow *f, size_t length)
{
    exs_xferfile_t *file = &files[f->seed - 100][f->owed[EXS_EVT_SENDFILE]];

    *file = by_fd(f->file, (off_t)f->sent, length);
    must(exs_sendfile(f->from, file, 1, 0, f->out->queue, (void *)f->owed[EXS_EVT_SENDFILE]));
    owe(f, EXS_EVT_SENDFILE);
}

static void send_one(struct flow *f, struct chance *chance)
{
    size_t roll = chance_below(chance, 100), length = sizes[chance_below(chance, COUNT(sizes))];
    exs_mhandle_t region = chance_below(chance, 2) ? f->region : NULL;
    char *from = f->bytes + f->sent;

    if (roll == 99 && f->sent + 3 * MIB < ARENA) {
        length = MIB;
        roll = 70 + chance_below(chance, 10);
    }
    if (f->written >= OPS - 1 || f->sent + length > ARENA)
        return;
    if (roll < 70) {
        hush(f->from, from, length, region);
    } else if (roll < 80) {
        must(exs_send(f->from, from, length, 0, f->out->queue, (void *)f->owed[EXS_EVT_SEND], region));
        owe(f, EXS_EVT_SEND);
    } else if (roll < 86) {
        must(exs_send(f->from, from, length, EXS_UNSIGNALED, f->out->queue, NULL, region));
    } else if (roll < 91 && length > 1) {
        send_pieces(f, length);
    } else if (roll < 95 && length > 0) {
        send_file(f, length);
    } else if (length > 0 && length <= WINDOW) {
        must(exs_rwrite(f->from, f->bytes, length, &f->token, 0, 0, f->out->queue,
                        (void *)f->owed[EXS_EVT_RWRITE], region));
        owe(f, EXS_EVT_RWRITE);
        return;
    } else {
        return;
    }
    note_sent(f, length);
}

static void receive_one(struct flow *f, struct chance *chance)
{
    size_t room = f->type == SOCK_STREAM ? chance_size(chance, 1, MIB) : 2 * MIB;

    if (f->type == SOCK_STREAM ? f->received == f->sent : f->read == f->written)
        return;
    must(exs_recv(f->to, f->buffer, room, 0, f->in->queue, NULL, NULL));
    exs_evt_xfer_t xfer = received(f->in, f->to);
    if (f->type == SOCK_SEQPACKET)
        ck_assert_uint_eq(xfer.exs_evt_length, f->lengths[f->read++]);
    else
        ck_assert_uint_gt(xfer.exs_evt_length, 0);
    ck_assert_int_eq(xfer.exs_evt_flags, 0);
    pattern_check(f->buffer, xfer.exs_evt_length, f->seed, f->received);
    f->received += xfer.exs_evt_length;
}

/* Each expected event arrives once, and those of one type in order. */
static void flow_close(struct flow *f)
{
    must(exs_send(f->from, "z", 1, 0, f->out->queue, (void *)f->owed[EXS_EVT_SEND], NULL));
    owe(f, EXS_EVT_SEND);
    must(exs_recv(f->to, f->buffer, 1, 0, f->in->queue, NULL, NULL));
    ck_assert_uint_eq(received(f->in, f->to).exs_evt_length, 1);
    ck_assert_int_eq(*f->buffer, 'z');
    for (int type = 0; type < COUNT(f->owed); type++)
        for (uintptr_t i = 0; i < f->owed[type]; i++)
            ck_assert_ptr_eq(take_good(f->out, type, f->from).exs_evt_ahandle, (void *)i);
    inbox_quiet(f->out, QUIET_MS);
    must(exs_munexport(f->to, &f->token));
    for (int i = 0; i < 1000 && exs_mderegister(f->region, 0) != 0; i++) {
        ck_assert_int_eq(errno, EBUSY);
        ck_assert_int_lt(i, 999);
        inbox_quiet(f->out, 1);
        inbox_quiet(f->in, 1);
    }
    must(exs_mderegister(f->there_region, 0));
    close(f->file);
    free(f->bytes);
    free(f->there);
    free(f->buffer);
}

/* The receiver receives one message for each 1 or 20 that are sent, and the rest at the end. */
START_TEST(mixture)
{
    struct chance chance = chance_new();
    static struct flow flows[2];
    int slow = _i & 2 ? 20 : 1;

    folder_make(&folder);
    pair_open(&pair, AF_INET, types[_i & 1]);
    wait_so(pair.client_box, waits[_i / 4]);
    for (int i = 0; i < 2; i++)
        flow_open(&flows[i], i, types[_i & 1]);
    for (int round = 0; round < OPS; round++)
        for (int i = 0; i < 2; i++) {
            send_one(&flows[i], &chance);
            if (chance_below(&chance, (size_t)slow) == 0)
                receive_one(&flows[i], &chance);
        }
    for (int i = 0; i < 2; i++) {
        while (flows[i].type == SOCK_STREAM ? flows[i].received < flows[i].sent
                                            : flows[i].read < flows[i].written)
            receive_one(&flows[i], &chance);
    }
    for (int i = 0; i < 2; i++)
        flow_close(&flows[i]);
    pair_close(&pair);
    folder_clear(&folder);
}
END_TEST

/* ---- Thousands in a row ------------------------------------------------------------------------ */

/* Both sides send all messages before either receives or dequeues. Then all of them arrive, and a signaled send
 * behind them completes. */
START_TEST(thousands)
{
    int type = types[_i & 1];
    size_t length = _i & 2 ? 64 : 1;
    char *out = new_buffer(MANY * length), *in = new_buffer(MANY * length);
    exs_mhandle_t region = _i & 4 ? exs_mregister(out, MANY * length, 0) : NULL;
    int ends[2];

    pair_open(&pair, AF_INET, type);
    ends[0] = pair.client;
    ends[1] = pair.server;
    pattern_fill(out, MANY * length, 9, 0);
    for (size_t i = 0; i < MANY; i++)
        for (int end = 0; end < 2; end++)
            hush(ends[end], out + i * length, length, region);
    for (int end = 0; end < 2; end++) {
        struct inbox *to = end ? pair.client_box : pair.server_box, *from = to->beside;

        must(exs_send(ends[end], "z", 1, 0, from->queue, NULL, NULL));
        memset(in, 0, MANY * length);
        if (type == SOCK_STREAM) {
            must(exs_recv(ends[!end], in, MANY * length, MSG_WAITALL, to->queue, NULL, NULL));
            ck_assert_uint_eq(received(to, ends[!end]).exs_evt_length, MANY * length);
        }
        for (size_t i = 0; type == SOCK_SEQPACKET && i < MANY; i++) {
            must(exs_recv(ends[!end], in + i * length, length, 0, to->queue, NULL, NULL));
            if (i % 50 == 49 || i == MANY - 1)
                for (size_t j = i - i % 50; j <= i; j++)
                    ck_assert_uint_eq(received(to, ends[!end]).exs_evt_length, length);
        }
        pattern_check(in, MANY * length, 9, 0);
        must(exs_recv(ends[!end], in, length, 0, to->queue, NULL, NULL));
        ck_assert_uint_eq(received(to, ends[!end]).exs_evt_length, 1);
        take_good(from, EXS_EVT_SEND, ends[end]);
    }
    for (int end = 0; end < 2; end++)
        inbox_quiet(end ? pair.server_box : pair.client_box, QUIET_MS);
    if (region != NULL)
        must(exs_mderegister(region, 0));
    pair_close(&pair);
    free(out);
    free(in);
}
END_TEST

/* ---- Resources ------------------------------------------------------------------------------- */

static const size_t lengths_left[] = {1, 64, 65, 200, 5000, 100000};

/* After an idle moment the region and a named queue are no longer in use, also after longer sends. */
START_TEST(leave_nothing_busy)
{
    size_t length = lengths_left[_i % COUNT(lengths_left)];
    int type = types[_i / COUNT(lengths_left) & 1];
    char *out = new_buffer(length), *in = new_buffer(length);
    exs_qhandle_t other = exs_qcreate(4);
    exs_mhandle_t region;

    pair_open(&pair, AF_INET, type);
    for (int count = 1; count <= 40; count = count * 3 + 1)
        for (int named = 0; named < 2; named++) {
            exs_qhandle_t queue = named ? exs_qcreate(4) : NULL;

            region = exs_mregister(out, length, 0);
            for (int i = 0; i < count; i++) {
                must(exs_recv(pair.server, in, length, MSG_WAITALL * (type == SOCK_STREAM),
                              pair.server_box->queue, NULL, NULL));
                must(exs_send(pair.client, out, length, EXS_UNSIGNALED, queue, NULL, region));
                ck_assert_uint_eq(received(pair.server_box, pair.server).exs_evt_length, length);
            }
            double limit = seconds_now() + 3 * LATE_S;
            while (exs_mderegister(region, 0) != 0) {
                ck_assert_int_eq(errno, EBUSY);
                ck_assert_msg(seconds_now() < limit, "the region is busy for ever after %d of %zu", count,
                              length);
                inbox_quiet(pair.client_box, 1);
            }
            while (queue != NULL && exs_qdelete(queue) != 0) {
                ck_assert_int_eq(errno, EBUSY);
                ck_assert_msg(seconds_now() < limit, "the queue is busy for ever after %d of %zu", count,
                              length);
                inbox_quiet(pair.client_box, 1);
            }
            exs_qstatus_t status;
            must(exs_qstatus(pair.client_box->queue, &status));
            ck_assert_int_eq(status.exs_pending, 0);
        }
    must(exs_qdelete(other));
    pair_close(&pair);
    free(out);
    free(in);
}
END_TEST

/* A send that completes in the call does not use the region afterwards. */
START_TEST(over_at_once)
{
    char out[SHORT], in[SHORT * 10];
    exs_mhandle_t region = exs_mregister(out, sizeof out, 0);

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < 10; i++)
        hush(pair.client, out, sizeof out, region);
    must(exs_mderegister(region, 0));
    must(exs_recv(pair.server, in, sizeof in, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    ck_assert_uint_eq(received(pair.server_box, pair.server).exs_evt_length, sizeof in);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("silent");
    TCase *tcase = add_case(suite, "silent", 30);

    tcase_add_loop_test(tcase, overwritten, 0, 12);
    tcase_add_loop_test(tcase, mixture, 0, 12);
    tcase_add_loop_test(tcase, thousands, 0, 8);
    tcase_add_loop_test(tcase, leave_nothing_busy, 0, 2 * COUNT(lengths_left));
    tcase_add_test(tcase, over_at_once);
    return run_suite(suite);
}
