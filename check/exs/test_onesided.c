/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_onesided.c - exs_mexport, exs_munexport, exs_rread, exs_rwrite: which bytes are moved, and in which
 * order, while the peer's program makes no call; what the library of the caller and the device of the peer
 * refuse; and how access rights and connections end.
 */
#include "check/support/support.h"

#define SIZE (2 * MIB + 100) /* bytes of the exported region, which has canary bytes around it */
#define EDGE 64

static struct pair pair; /* of the running test; the server exports its memory to the client */
static char *memory, *exported;
static exs_mhandle_t region;
static exs_token_t token;

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};

static exs_token_t export(int socket, void *addr, size_t length, int access)
{
    exs_token_t given;

    must(exs_mexport(socket, region, addr, length, access, &given));
    return given;
}

static void set_up(int type)
{
    pair_open(&pair, AF_INET, type);
    memory = new_buffer(SIZE + 2 * EDGE);
    exported = memory + EDGE;
    region = exs_mregister(memory, SIZE + 2 * EDGE, 0);
    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    token = export(pair.server, exported, SIZE, EXS_REMOTE_READ | EXS_REMOTE_WRITE);
}

static void tear_down(void)
{
    inbox_quiet(pair.client_box, QUIET_MS);
    inbox_quiet(pair.server_box, QUIET_MS);
    pair_close(&pair);
    must(exs_mderegister(region, 0));
    same_bytes(memory, EDGE, CANARY);
    same_bytes(exported + SIZE, EDGE, CANARY);
    free(memory);
}

static int put(const void *from, size_t length, uint64_t offset, exs_mhandle_t mhandle)
{
    return (int)exs_rwrite(pair.client, from, length, &token, offset, 0, pair.client_box->queue, (void *)from,
                           mhandle);
}

static int get(void *to, size_t length, uint64_t offset, exs_mhandle_t mhandle)
{
    return (int)exs_rread(pair.client, to, length, &token, offset, 0, pair.client_box->queue, to, mhandle);
}

static void done(int type, const void *buffer, size_t length)
{
    exs_event_t event = take_good(pair.client_box, type, pair.client);

    ck_assert_ptr_eq(event.exs_evt_ahandle, buffer);
    ck_assert_ptr_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_buffer, buffer);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
}

/* ---- Bytes --------------------------------------------------------------------------- */

static const size_t lengths[] = {1, 7, 64, 65, 4096, 8192, 8193, 70000, MIB + 1, 2 * MIB};

static void there_and_back(size_t length, size_t offset, bool registered)
{
    char *out = new_buffer(length), *in = new_buffer(length + 2);
    exs_mhandle_t here = NULL;

    pattern_fill(out, length, length, offset);
    if (registered) {
        here = exs_mregister(in, length + 2, 0);
        ck_assert_ptr_ne(here, EXS_MHANDLE_INVALID);
    }
    memset(exported, CANARY, SIZE);
    must(put(out, length, offset, NULL));
    done(EXS_EVT_RWRITE, out, length);
    pattern_check(exported + offset, length, length, offset);
    same_bytes(exported, offset, CANARY);
    same_bytes(exported + offset + length, SIZE - offset - length, CANARY);
    must(get(in + 1, length, offset, here));
    done(EXS_EVT_RREAD, in + 1, length);
    pattern_check(in + 1, length, length, offset);
    same_bytes(in, 1, CANARY);
    same_bytes(in + length + 1, 1, CANARY);
    if (here != NULL)
        must(exs_mderegister(here, 0));
    free(out);
    free(in);
}

START_TEST(bytes)
{
    set_up(types[_i]);
    for (int i = 0; i < COUNT(lengths); i++) {
        there_and_back(lengths[i], 0, false);
        there_and_back(lengths[i], SIZE - lengths[i], true);
    }
    tear_down();
}
END_TEST

/* The server's program makes no call and does not poll its queue. */
START_TEST(blocking_calls)
{
    char *out = new_buffer(100000), *in = new_buffer(100000);

    set_up(types[_i]);
    pattern_fill(out, 100000, 9, 0);
    ck_assert_int_eq(exs_rwrite(pair.client, out, 100000, &token, 5, EXS_BLOCK, NULL, NULL, NULL), 100000);
    ck_assert_int_eq(exs_rread(pair.client, in, 100000, &token, 5, EXS_BLOCK, NULL, NULL, NULL), 100000);
    pattern_check(in, 100000, 9, 0);
    tear_down();
    free(out);
    free(in);
}
END_TEST

START_TEST(unsignaled_write)
{
    set_up(types[_i]);
    must(exs_rwrite(pair.client, "quiet", 5, &token, 0, EXS_UNSIGNALED, NULL, NULL, NULL));
    char in[5];
    /* events come in the order of the calls, so the write is complete when this read is */
    must(get(in, 5, 0, NULL));
    done(EXS_EVT_RREAD, in, 5);
    ck_assert_mem_eq(exported, "quiet", 5);
    tear_down();
}
END_TEST

/* ---- Order --------------------------------------------------------------------------- */

START_TEST(a_send_says_that_the_write_is_there)
{
    char in, out[512];

    set_up(types[_i]);
    for (int round = 0; round < 200; round++) {
        must(exs_recv(pair.server, &in, 1, 0, pair.server_box->queue, NULL, NULL));
        memset(out, round, sizeof out);
        for (int i = 0; i < 8; i++)
            must(put(out, sizeof out, (size_t)i * 4096, NULL));
        must(exs_send(pair.client, "x", 1, 0, pair.client_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        for (int i = 0; i < 8; i++)
            same_bytes(exported + (size_t)i * 4096, sizeof out, (unsigned char)round);
        for (int i = 0; i < 8; i++)
            done(EXS_EVT_RWRITE, out, sizeof out);
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    }
    tear_down();
}
END_TEST

/* Many more operations than the device takes at once: each gets its event, in order. */
START_TEST(many_at_once)
{
    enum { MANY = 500 };
    static uint32_t in[MANY];

    set_up(types[_i]);
    for (uint32_t i = 0; i < MANY; i++)
        memcpy(exported + i * sizeof i, &i, sizeof i);
    for (uint32_t i = 0; i < MANY; i++)
        must(get(&in[i], sizeof i, i * sizeof i, NULL));
    for (uint32_t i = 0; i < MANY; i++) {
        done(EXS_EVT_RREAD, &in[i], sizeof i);
        ck_assert_uint_eq(in[i], i);
    }
    tear_down();
}
END_TEST

/* The peer does not receive, so a send waits. One-sided operations do not wait for it. */
START_TEST(no_waiting_behind_a_send)
{
    char in[16] = "";

    set_up(SOCK_SEQPACKET);
    must(exs_send(pair.client, "late", 4, 0, pair.client_box->queue, NULL, NULL));
    must(put("through", 7, 0, NULL));
    take_good(pair.client_box, EXS_EVT_RWRITE, pair.client);
    must(get(in, 7, 0, NULL));
    done(EXS_EVT_RREAD, in, 7);
    ck_assert_str_eq(in, "through");
    must(exs_recv(pair.server, in, sizeof in, 0, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_mem_eq(in, "late", 4);
    tear_down();
}
END_TEST

/* ---- Random operations, compared with a copy of the memory ------------------------------ */

struct flight { /* one pending operation */
    char *buffer;
    size_t length, offset;
    int type;
};

static void launch(struct chance *chance, struct flight *flight, char *model)
{
    flight->type = chance_below(chance, 2) ? EXS_EVT_RREAD : EXS_EVT_RWRITE;
    flight->length = chance_size(chance, 1, 300 * KIB);
    flight->offset = chance_below(chance, SIZE - flight->length);
    flight->buffer = new_buffer(flight->length);
    if (flight->type == EXS_EVT_RREAD) {
        must(get(flight->buffer, flight->length, flight->offset, NULL));
        return;
    }
    pattern_fill(flight->buffer, flight->length, chance_next(chance), 0);
    memcpy(model + flight->offset, flight->buffer, flight->length);
    must(put(flight->buffer, flight->length, flight->offset, NULL));
}

/* Operations of one batch may overlap, and only their order defines the result. Data that was read is compared
 * if the batch has no write. */
START_TEST(any_mixture)
{
    struct chance chance = chance_new();
    double end = seconds_now() + seconds_to_spend() / 2;
    struct flight flights[24];

    set_up(types[_i]);
    char *model = new_buffer(SIZE);
    while (seconds_now() < end) {
        int count = 1 + (int)chance_below(&chance, COUNT(flights));
        bool wrote = false;

        for (int i = 0; i < count; i++) {
            launch(&chance, &flights[i], model);
            wrote = wrote || flights[i].type == EXS_EVT_RWRITE;
            if (chance_below(&chance, 8) == 0)
                pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, 3000, 5);
        }
        for (int i = 0; i < count; i++) {
            done(flights[i].type, flights[i].buffer, flights[i].length);
            if (flights[i].type == EXS_EVT_RREAD && !wrote)
                ck_assert_mem_eq(flights[i].buffer, model + flights[i].offset, flights[i].length);
            free(flights[i].buffer);
        }
        ck_assert(memcmp(exported, model, SIZE) == 0);
    }
    free(model);
    tear_down();
}
END_TEST

/* ---- What the library refuses ----------------------------------------------------------- */

static void refused(const exs_token_t *given, size_t length, uint64_t offset, int error)
{
    char buffer[32] = "";

    must_fail(exs_rwrite(pair.client, buffer, length, given, offset, 0, pair.client_box->queue, NULL, NULL),
              error);
    must_fail(exs_rread(pair.client, buffer, length, given, offset, 0, pair.client_box->queue, NULL, NULL),
              error);
    must_fail(exs_rwrite(pair.client, buffer, length, given, offset, EXS_BLOCK, NULL, NULL, NULL), error);
    must_fail(exs_rread(pair.client, buffer, length, given, offset, EXS_BLOCK, NULL, NULL, NULL), error);
}

START_TEST(bad_tokens_and_ranges)
{
    exs_token_t none = {{0}}, back;

    set_up(types[_i]);
    back = export(pair.client, exported, 10, EXS_REMOTE_READ | EXS_REMOTE_WRITE);
    refused(NULL, 1, 0, EINVAL);
    refused(&none, 1, 0, EINVAL);
    refused(&back, 1, 0, EINVAL); /* a token for the other end */
    refused(&token, 0, 0, EINVAL);
    refused(&token, EXS_MSG_MAX + 1, 0, EINVAL);
    refused(&token, 1, SIZE, ERANGE);
    refused(&token, 2, SIZE - 1, ERANGE);
    refused(&token, 1, UINT64_MAX, ERANGE);
    refused(&token, 32, UINT64_MAX - 8, ERANGE);
    same_bytes(exported, SIZE, CANARY);
    there_and_back(100, 0, false); /* the connection still works */
    tear_down();
}
END_TEST

START_TEST(bad_arguments)
{
    char buffer[32] = "";

    set_up(types[_i]);
    exs_qhandle_t queue = pair.client_box->queue;
    must_fail(exs_rread(pair.client, NULL, 1, &token, 0, 0, queue, NULL, NULL), EINVAL);
    must_fail(exs_rread(pair.client, buffer, 1, &token, 0, MSG_PEEK, queue, NULL, NULL), EOPNOTSUPP);
    must_fail(exs_rread(pair.client, buffer, 1, &token, 0, EXS_UNSIGNALED, queue, NULL, NULL), EOPNOTSUPP);
    must_fail(exs_rwrite(pair.client, buffer, 1, &token, 0, EXS_UNSIGNALED | EXS_BLOCK, queue, NULL, NULL),
              EINVAL);
    must_fail(exs_rread(pair.client, buffer, 1, &token, 0, 0, NULL, NULL, NULL), EINVAL);
    must_fail(exs_rwrite(pair.client, buffer, 1, &token, 0, 0, EXS_QHANDLE_INVALID, NULL, NULL), EINVAL);
    must_fail(exs_rwrite(pair.client, buffer, 1, &token, 0, 0, queue, NULL, region), EINVAL);
    must_fail(exs_rread(-1, buffer, 1, &token, 0, 0, queue, NULL, NULL), EBADF);
    must_fail(exs_rread(pair.listener, buffer, 1, &token, 0, 0, queue, NULL, NULL), ENOTCONN);
    tear_down();
}
END_TEST

START_TEST(flags_of_regions)
{
    static char bytes[64];
    exs_mhandle_t no_send = exs_mregister(bytes, sizeof bytes, EXS_MRF_SEND_DISABLE);
    exs_mhandle_t no_recv = exs_mregister(bytes, sizeof bytes, EXS_MRF_RECV_DISABLE);
    exs_token_t given;

    set_up(types[_i]);
    must_fail(put(bytes, 8, 0, no_send), EACCES);
    must_fail(get(bytes, 8, 0, no_recv), EACCES);
    must_fail(exs_mexport(pair.server, no_send, bytes, 8, EXS_REMOTE_READ, &given), EACCES);
    must_fail(exs_mexport(pair.server, no_recv, bytes, 8, EXS_REMOTE_WRITE, &given), EACCES);
    must_fail(exs_mexport(pair.server, no_recv, bytes, 8, EXS_REMOTE_WRITE | EXS_REMOTE_READ, &given), EACCES);
    must(exs_mexport(pair.server, no_recv, bytes, 8, EXS_REMOTE_READ, &given));
    must(exs_munexport(pair.server, &given));
    must(exs_mderegister(no_send, 0));
    must(exs_mderegister(no_recv, 0));
    tear_down();
}
END_TEST

START_TEST(rights_of_tokens)
{
    char in[8];

    set_up(types[_i]);
    exs_token_t reading = export(pair.server, exported, 8, EXS_REMOTE_READ),
                writing = export(pair.server, exported, 8, EXS_REMOTE_WRITE);
    exs_qhandle_t queue = pair.client_box->queue;

    must_fail(exs_rwrite(pair.client, "12345678", 8, &reading, 0, 0, queue, NULL, NULL), EACCES);
    must_fail(exs_rread(pair.client, in, 8, &writing, 0, 0, queue, NULL, NULL), EACCES);
    must(exs_rwrite(pair.client, "12345678", 8, &writing, 0, 0, queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_RWRITE, pair.client);
    must(exs_rread(pair.client, in, 8, &reading, 0, 0, queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_RREAD, pair.client);
    ck_assert_mem_eq(in, "12345678", 8);
    memset(exported, CANARY, 8);
    tear_down();
}
END_TEST

START_TEST(bad_exports)
{
    exs_token_t given;

    set_up(types[_i]);
    int s = pair.server;
    must_fail(exs_mexport(s, NULL, exported, 8, EXS_REMOTE_READ, &given), EINVAL);
    must_fail(exs_mexport(s, EXS_MHANDLE_UNREGISTERED, exported, 8, EXS_REMOTE_READ, &given), EINVAL);
    must_fail(exs_mexport(s, EXS_MHANDLE_INVALID, exported, 8, EXS_REMOTE_READ, &given), EINVAL);
    must_fail(exs_mexport(s, region, NULL, 8, EXS_REMOTE_READ, &given), EINVAL);
    must_fail(exs_mexport(s, region, exported, 0, EXS_REMOTE_READ, &given), EINVAL);
    must_fail(exs_mexport(s, region, exported, SIZE + EDGE + 1, EXS_REMOTE_READ, &given), EINVAL);
    must_fail(exs_mexport(s, region, exported, 8, 0, &given), EINVAL);
    must_fail(exs_mexport(s, region, exported, 8, 4, &given), EINVAL);
    must_fail(exs_mexport(s, region, exported, 8, EXS_REMOTE_READ, NULL), EFAULT);
    must_fail(exs_mexport(-1, region, exported, 8, EXS_REMOTE_READ, &given), EBADF);
    must_fail(exs_mexport(pair.listener, region, exported, 8, EXS_REMOTE_READ, &given), ENOTCONN);
    must_fail(exs_munexport(s, NULL), EINVAL);
    must_fail(exs_munexport(pair.client, &token), EINVAL); /* the server exported this token, not the client */
    must_fail(exs_munexport(-1, &token), EBADF);
    must(exs_munexport(s, &token));
    must_fail(exs_munexport(s, &token), EINVAL);
    tear_down();
}
END_TEST

/* ---- What the peer's device refuses ------------------------------------------------------- */

/* The operation fails with EACCES and the connection breaks at both ends. The memory is unchanged. */
static void broken_by(int type, const exs_token_t *given, size_t length, uint64_t offset)
{
    char *buffer = new_buffer(length), in;
    exs_qhandle_t queue = pair.client_box->queue;

    must(exs_recv(pair.server, &in, 1, 0, pair.server_box->queue, NULL, NULL));
    must(exs_recv(pair.client, &in, 1, 0, queue, NULL, NULL));
    if (type == EXS_EVT_RREAD)
        must(exs_rread(pair.client, buffer, length, given, offset, 0, queue, NULL, NULL));
    else
        must(exs_rwrite(pair.client, memset(buffer, 1, length), length, given, offset, 0, queue, NULL, NULL));
    take_failed(pair.client_box, type, pair.client, EACCES);
    take_failed(pair.client_box, EXS_EVT_RECV, pair.client, ECONNRESET);
    take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ECONNRESET);
    must_fail(exs_rwrite(pair.client, buffer, 1, &token, 0, 0, queue, NULL, NULL), ECONNRESET);
    if (type == EXS_EVT_RREAD)
        same_bytes(buffer, length, CANARY);
    same_bytes(memory, SIZE + 2 * EDGE, CANARY);
    free(buffer);
}

static const struct {
    int type;
    bool revoked;
    int access;    /* rights of the exported token */
    int byte, bit; /* the bit that is changed in the token */
    uint64_t offset;
} lies[] = {
    {EXS_EVT_RREAD, .revoked = true, .access = 3},
    {EXS_EVT_RWRITE, .revoked = true, .access = 3},
    {EXS_EVT_RREAD, .access = EXS_REMOTE_WRITE, .byte = 7, .bit = EXS_REMOTE_READ},
    {EXS_EVT_RWRITE, .access = EXS_REMOTE_READ, .byte = 7, .bit = EXS_REMOTE_WRITE},
    {EXS_EVT_RREAD, .access = 3, .byte = 38, .bit = 0x10, .offset = 1}, /* the length, 4096 bytes longer */
    {EXS_EVT_RWRITE, .access = 3, .byte = 38, .bit = 0x10, .offset = 1},
    {EXS_EVT_RREAD, .access = 3, .byte = 15, .bit = 0x80}, /* another key */
    {EXS_EVT_RWRITE, .access = 3, .byte = 12, .bit = 0x40},
};

START_TEST(lies_are_found_out)
{
    set_up(types[_i % 2]);
    exs_token_t given = export(pair.server, exported, 100, lies[_i / 2].access);

    given.exs_bytes[lies[_i / 2].byte] ^= (unsigned char)lies[_i / 2].bit;
    if (lies[_i / 2].revoked)
        must(exs_munexport(pair.server, &given));
    broken_by(lies[_i / 2].type, &given, 100, lies[_i / 2].offset);
    tear_down();
}
END_TEST

/* ---- Ends of rights and connections --------------------------------------------------------- */

START_TEST(exported_memory_stays)
{
    set_up(types[_i]);
    exs_token_t second = export(pair.server, exported, 8, EXS_REMOTE_READ);

    must_fail(exs_mderegister(region, 0), EBUSY);
    must(exs_munexport(pair.server, &token));
    must_fail(exs_mderegister(region, 0), EBUSY);
    must(exs_munexport(pair.server, &second));
    must(exs_mderegister(region, 0));
    region = exs_mregister(memory, SIZE + 2 * EDGE, 0);
    token = export(pair.server, exported, SIZE, EXS_REMOTE_WRITE);
    close_socket(pair.server_box, pair.server); /* also revokes what the server exported */
    must(exs_mderegister(region, 0));
    close_socket(pair.client_box, pair.client);
    pair_close_rest(&pair);
    free(memory);
}
END_TEST

START_TEST(closing_with_operations_under_way)
{
    enum { MANY = 100 };
    char *buffer;

    set_up(types[_i]);
    buffer = new_buffer(SIZE);
    for (int i = 0; i < MANY; i++)
        must(get(buffer, SIZE, 0, NULL));
    must(exs_close(pair.client, 0, pair.client_box->queue, NULL));
    int canceled = 0;
    for (int i = 0; i < MANY; i++) {
        exs_event_t event = inbox_take(pair.client_box, EXS_EVT_RREAD, pair.client);

        ck_assert(event.exs_evt_errno == 0 || event.exs_evt_errno == ECANCELED);
        ck_assert(canceled == 0 || event.exs_evt_errno == ECANCELED);
        canceled += event.exs_evt_errno == ECANCELED;
    }
    ck_assert_int_gt(canceled, 0);
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    free(buffer); /* the device must not use it any more: the sanitizers would report that */
    close_socket(pair.server_box, pair.server);
    must(exs_mderegister(region, 0));
    pair_close_rest(&pair);
    free(memory);
}
END_TEST

START_TEST(the_exporter_goes)
{
    char *buffer;
    int failed = 0;

    set_up(types[_i]);
    buffer = new_buffer(SIZE);
    for (int i = 0; i < 50; i++)
        must(get(buffer, SIZE, 0, NULL));
    must(exs_close(pair.server, 0, pair.server_box->queue, NULL));
    take_good(pair.server_box, EXS_EVT_CLOSE, pair.server);
    must(exs_mderegister(region, 0));
    for (int i = 0; i < 50; i++) {
        exs_event_t event = inbox_take(pair.client_box, EXS_EVT_RREAD, pair.client);

        ck_assert_msg(event.exs_evt_errno == 0 || event.exs_evt_errno == ECONNRESET ||
                          event.exs_evt_errno == EACCES || event.exs_evt_errno == ETIMEDOUT,
                      "%s", strerror(event.exs_evt_errno));
        failed += event.exs_evt_errno != 0;
    }
    fprintf(stderr, "# %d of 50 failed\n", failed);
    close_socket(pair.client_box, pair.client);
    free(buffer);
    pair_close_rest(&pair);
    free(memory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("onesided");
    TCase *moving = add_case(suite, "moving", 60), *refusing = add_case(suite, "refusing", 30),
          *ending = add_case(suite, "ending", 30);

    tcase_add_loop_test(moving, bytes, 0, 2);
    tcase_add_loop_test(moving, blocking_calls, 0, 2);
    tcase_add_loop_test(moving, unsignaled_write, 0, 2);
    tcase_add_loop_test(moving, a_send_says_that_the_write_is_there, 0, 2);
    tcase_add_loop_test(moving, many_at_once, 0, 2);
    tcase_add_test(moving, no_waiting_behind_a_send);
    tcase_add_loop_test(moving, any_mixture, 0, 2);
    tcase_add_loop_test(refusing, bad_tokens_and_ranges, 0, 2);
    tcase_add_loop_test(refusing, bad_arguments, 0, 2);
    tcase_add_loop_test(refusing, flags_of_regions, 0, 2);
    tcase_add_loop_test(refusing, rights_of_tokens, 0, 2);
    tcase_add_loop_test(refusing, bad_exports, 0, 2);
    tcase_add_loop_test(refusing, lies_are_found_out, 0, 2 * COUNT(lies));
    tcase_add_loop_test(ending, exported_memory_stays, 0, 2);
    tcase_add_loop_test(ending, closing_with_operations_under_way, 0, 2);
    tcase_add_loop_test(ending, the_exporter_goes, 0, 2);
    return run_suite(suite);
}
