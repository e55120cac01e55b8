/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_cancel_sends.c - exs_cancel on operations other than receives: sends that have started or not, files, shutdown,
 * one-sided operations, connects and accepts, and blocking calls of other threads.
 */
#include "inside.h"

#define LENGTH (300 * KIB) /* more than the peer's ring buffer */

static exs_evt_xfer_t xfer_of(const exs_event_t *event)
{
    return event->exs_evt_union.exs_evt_xfer;
}

/* ---- Sends -------------------------------------------------------------------------------------------- */

/* Cancels one of several sends. On a STREAM the first has started, because some of it fit into the peer's ring buffer,
 * and ends with the number of bytes sent. The other sends arrive completely. */
START_TEST(one_send)
{
    int which = _i / 4, type = kinds[_i % 4].type;
    size_t length = type == SOCK_STREAM ? LENGTH : 20000, whole = 0, moved = 0;
    uint8_t *out = new_buffer(4 * length), *in = new_buffer(length);
    struct pair pair;

    pair_open(&pair, kinds[_i % 4].family, type);
    for (int i = 0; i < 4; i++) {
        pattern_fill(out + i * length, length, (uint64_t)i, 0);
        must(
            exs_send(pair.client, out + i * length, length, 0, pair.client_box->queue, out + i * length, NULL));
    }
    ck_assert_int_eq(exs_cancel(pair.client, out + which * length, 0), 1);
    exs_event_t event = take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
    ck_assert_ptr_eq(event.exs_evt_ahandle, out + which * length);
    moved = xfer_of(&event).exs_evt_length;
    if (which > 0 || type != SOCK_STREAM)
        ck_assert_uint_eq(moved, 0);
    else
        ck_assert(moved > 0 && moved < length);
    memset(out + which * length, CANARY, length); /* the memory belongs to the application again */
    for (int i = 0; i < 4; i++) {
        whole = i == which ? moved : length;
        if (whole == 0)
            continue;
        must(exs_recv(pair.server, in, whole, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        ck_assert_uint_eq(xfer_of(&event).exs_evt_length, whole);
        pattern_check(in, whole, (uint64_t)i, 0);
        if (i != which)
            take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    }
    inbox_quiet(pair.client_box, 0);
    free(in);
    free(out);
    pair_close(&pair);
}
END_TEST

/* A cancelled EXS_UNSIGNALED send has an event because it failed, unless it named no queue. */
START_TEST(without_events)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    must(exs_send(pair.client, "1", 1, EXS_UNSIGNALED, pair.client_box->queue, &pair, NULL));
    must(exs_send(pair.client, "2", 1, EXS_UNSIGNALED, NULL, &pair, NULL));
    ck_assert_int_eq(exs_cancel(pair.client, &pair, 0), 2);
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
    inbox_quiet(pair.client_box, QUIET_MS);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 10, 1);
    pair_close(&pair);
}
END_TEST

/* A cancelled operation no longer uses its region. */
START_TEST(registered)
{
    struct pair pair;
    uint8_t *memory = new_buffer(2 * LENGTH);
    exs_mhandle_t region = exs_mregister(memory, 2 * LENGTH, 0);

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_send(pair.client, memory, LENGTH, 0, pair.client_box->queue, memory, region));
    must(exs_send(pair.client, memory, LENGTH, 0, pair.client_box->queue, memory, region));
    must(exs_recv(pair.client, memory + LENGTH, LENGTH, 0, pair.client_box->queue, memory, region));
    ck_assert_int_eq(exs_cancel(pair.client, memory, 0), 3);
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
    pair.client_box->beside = pair.server_box;
    take_failed(pair.client_box, EXS_EVT_RECV, pair.client, ECANCELED);
    must(exs_mderegister(region, 0));
    free(memory);
    pair_close(&pair);
}
END_TEST

/* ---- Files -------------------------------------------------------------------------------------------- */

#define ELEMENT 9000 /* bytes: too many to be copied together with another element */

static void many_elements(exs_xferfile_t files[EXS_XFV_MAX], uint8_t *memory)
{
    for (int i = 0; i < EXS_XFV_MAX; i++)
        files[i] =
            (exs_xferfile_t){.exs_xfv_type = EXS_IOVEC,
                             .exs_xfv.exs_iov = {.exs_base = memory + i * ELEMENT, .exs_length = ELEMENT}};
}

/* The send is cancelled between two elements, in the middle of a transfer into the peer's own buffer, because the peer
 * returns no credits. The peer's receive ends with the bytes that arrived, or together with the next send. */
START_TEST(between_elements)
{
    const size_t all = EXS_XFV_MAX * ELEMENT;
    uint8_t *out = new_buffer(all), *in = new_buffer(all);
    exs_xferfile_t files[EXS_XFV_MAX];
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pattern_fill(out, all, 1, 0);
    many_elements(files, out);
    must(exs_recv(pair.server, in, all, 0, pair.server_box->queue, NULL, NULL));
    inbox_pump(pair.server_box, 0);
    inbox_pump(pair.client_box, 5);
    must(exs_sendfile(pair.client, files, EXS_XFV_MAX, 0, pair.client_box->queue, out));
    if (_i == 1)
        must(exs_send(pair.client, out, 50, 0, pair.client_box->queue, NULL, NULL));
    ck_assert_int_eq(exs_cancel(pair.client, out, 0), 1);
    exs_event_t sent = take_failed(pair.client_box, EXS_EVT_SENDFILE, pair.client, ECANCELED);
    size_t moved = (size_t)sent.exs_evt_union.exs_evt_xferfile.exs_evt_length;

    ck_assert(moved > 0 && moved < all && moved % ELEMENT == 0);
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(xfer_of(&event).exs_evt_length, moved + (_i == 1 ? 50 : 0));
    pattern_check(in, moved, 1, 0);
    same_bytes(in + moved + 50, all - moved - 50, CANARY);
    if (_i == 1)
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 20000, 1);
    free(in);
    free(out);
    pair_close(&pair);
}
END_TEST

/* A cancelled exs_sendfile or exs_shutdown does not end the stream: sends are possible again. */
START_TEST(no_end)
{
    bool begun = _i & 1, by_element = _i & 2;
    int type = begun ? SOCK_STREAM : SOCK_SEQPACKET;
    uint8_t *out = new_buffer(LENGTH), *in = new_buffer(LENGTH);
    exs_xferfile_t file = {
        .exs_xfv_type = EXS_IOVEC,
        .exs_xfv.exs_iov = {.exs_base = out, .exs_length = LENGTH, .exs_flags = by_element ? EXS_SHUT_WR : 0}};
    struct pair pair;

    pair_open(&pair, AF_INET, type);
    must(exs_sendfile(pair.client, &file, 1, 0, pair.client_box->queue, NULL));
    if (!by_element)
        must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    must_fail(exs_send(pair.client, out, 1, 0, pair.client_box->queue, NULL, NULL), EPIPE);
    ck_assert_int_eq(exs_cancel(pair.client, NULL, EXS_CANCEL_ALL), by_element ? 1 : 2);
    exs_event_t event = take_failed(pair.client_box, EXS_EVT_SENDFILE, pair.client, ECANCELED);
    size_t moved = (size_t)event.exs_evt_union.exs_evt_xferfile.exs_evt_length;

    ck_assert(begun ? moved > 0 && moved < LENGTH : moved == 0);
    if (!by_element)
        take_failed(pair.client_box, EXS_EVT_SHUTDOWN, pair.client, ECANCELED);
    if (begun) {
        must(exs_recv(pair.server, in, moved, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    }
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 20000, 1);
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    must(exs_recv(pair.server, in, 1, 0, pair.server_box->queue, NULL, NULL));
    event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_int_eq(xfer_of(&event).exs_evt_flags, EXS_EOF);
    free(in);
    free(out);
    pair_close(&pair);
}
END_TEST

/* Cancelling a send does not cancel the exs_shutdown that follows it. */
START_TEST(the_end_stays)
{
    uint8_t *out = new_buffer(LENGTH), byte;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    must(exs_send(pair.client, out, LENGTH, 0, pair.client_box->queue, out, NULL));
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    ck_assert_int_eq(exs_cancel(pair.client, out, 0), 1);
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    must_fail(exs_send(pair.client, out, 1, 0, pair.client_box->queue, NULL, NULL), EPIPE);
    must(exs_recv(pair.server, &byte, 1, 0, pair.server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_int_eq(xfer_of(&event).exs_evt_flags, EXS_EOF);
    free(out);
    pair_close(&pair);
}
END_TEST

/* ---- One-sided operations ----------------------------------------------------------------------------- */

#define READS 40

/* Operations that the device already has complete as usual; the others end with ECANCELED. */
START_TEST(one_sided)
{
    bool reads = _i == 0;
    uint8_t *there = new_buffer(MIB), *here = new_buffer(READS * MIB);
    exs_mhandle_t region = exs_mregister(there, MIB, 0), own = exs_mregister(here, READS * MIB, 0);
    struct pair pair;
    exs_token_t token;
    int done = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pattern_fill(reads ? there : here, MIB, 1, 0);
    must(exs_mexport(pair.server, region, there, MIB, EXS_REMOTE_READ | EXS_REMOTE_WRITE, &token));
    for (int i = 0; i < READS; i++)
        must((reads ? exs_rread(pair.client, here + i * MIB, MIB, &token, 0, 0, pair.client_box->queue,
                                here + i * MIB, own)
                    : exs_rwrite(pair.client, here, MIB, &token, 0, 0, pair.client_box->queue, here, own)));
    ck_assert_int_ge(exs_cancel(pair.client, NULL, EXS_CANCEL_ALL), READS);
    for (int i = 0; i < READS; i++) {
        exs_event_t event = inbox_take(pair.client_box, reads ? EXS_EVT_RREAD : EXS_EVT_RWRITE, pair.client);

        ck_assert(event.exs_evt_errno == 0 || event.exs_evt_errno == ECANCELED);
        if (event.exs_evt_errno == 0)
            ck_assert_uint_eq(xfer_of(&event).exs_evt_length, MIB);
        if (reads)
            pattern_check(xfer_of(&event).exs_evt_buffer, xfer_of(&event).exs_evt_length, 1, 0);
        done += event.exs_evt_errno == 0;
    }
    ck_assert(done < READS || !reads);
    must(reads ? exs_rread(pair.client, here, 1000, &token, 0, 0, pair.client_box->queue, NULL, NULL)
               : exs_rwrite(pair.client, here, 1000, &token, 0, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, reads ? EXS_EVT_RREAD : EXS_EVT_RWRITE, pair.client);
    must(exs_mderegister(own, 0)); /* no operation uses it */
    pair_close(&pair);
    must(exs_mderegister(region, 0));
    free(there);
    free(here);
}
END_TEST

/* An operation of more work requests than the send queue holds: those that were posted complete as usual, and the event
 * reports their bytes. */
START_TEST(one_sided_in_part)
{
    enum { REQUEST = 1000 }; /* bytes: LENGTH takes hundreds of them */
    bool reads = _i == 0;
    uint8_t *there = new_buffer(LENGTH), *here = new_buffer(LENGTH), *to = reads ? here : there;
    exs_mhandle_t region = exs_mregister(there, LENGTH, 0), own = exs_mregister(here, LENGTH, 0);
    struct pair pair;
    exs_token_t token;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    cut_requests(&pair, REQUEST);
    pattern_fill(reads ? there : here, LENGTH, 1, 0);
    must(exs_mexport(pair.server, region, there, LENGTH, EXS_REMOTE_READ | EXS_REMOTE_WRITE, &token));
    must(reads ? exs_rread(pair.client, here, LENGTH, &token, 0, 0, pair.client_box->queue, NULL, own)
               : exs_rwrite(pair.client, here, LENGTH, &token, 0, 0, pair.client_box->queue, NULL, own));
    ck_assert_int_eq(exs_cancel(pair.client, NULL, EXS_CANCEL_ALL), 1);
    exs_event_t event =
        take_failed(pair.client_box, reads ? EXS_EVT_RREAD : EXS_EVT_RWRITE, pair.client, ECANCELED);
    size_t moved = xfer_of(&event).exs_evt_length;

    ck_assert(moved > 0 && moved < LENGTH && moved % REQUEST == 0);
    pattern_check(to, moved, 1, 0);
    same_bytes(to + moved, LENGTH - moved, CANARY);
    must(exs_mderegister(own, 0));
    pair_close(&pair);
    must(exs_mderegister(region, 0));
    free(there);
    free(here);
}
END_TEST

/* ---- Connections -------------------------------------------------------------------------------------- */

START_TEST(accepts)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted[3] = {{.exs_ahandle = "0"}, {.exs_ahandle = "1"}, {.exs_ahandle = "2"}};
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address), client, server;

    inbox_open(&box, 8);
    must(exs_accept(listener, wanted, 3, 0, box.queue));
    ck_assert_int_eq(exs_cancel(listener, wanted[_i].exs_ahandle, 0), 1);
    exs_event_t event = take_failed(&box, EXS_EVT_ACCEPT, listener, ECANCELED);
    ck_assert_ptr_eq(event.exs_evt_ahandle, wanted[_i].exs_ahandle);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_accept.exs_evt_newsocket, -1);
    ck_assert_int_eq(wanted[_i].exs_socket, -1);
    for (int i = 0; i < 2; i++) {
        client = exs_socket(PF_INET, SOCK_STREAM, 0);
        must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
        event = take_good(&box, EXS_EVT_ACCEPT, listener);
        ck_assert_ptr_eq(event.exs_evt_ahandle, wanted[_i == 0 ? i + 1 : _i == 1 ? 2 * i : i].exs_ahandle);
        server = event.exs_evt_union.exs_evt_accept.exs_evt_newsocket;
        take_good(&box, EXS_EVT_CONNECT, client);
        close_socket(&box, client);
        close_socket(&box, server);
    }
    must(exs_accept(listener, wanted, 3, 0, box.queue));
    ck_assert_int_eq(exs_cancel(listener, NULL, EXS_CANCEL_ALL), 3);
    for (int i = 0; i < 3; i++)
        take_failed(&box, EXS_EVT_ACCEPT, listener, ECANCELED);
    must(exs_blocking_close(listener));
    inbox_close(&box);
}
END_TEST

/* After the cancel the socket is as it was before the connect. */
START_TEST(connecting)
{
    struct inbox box;
    struct address address;
    int keep, client = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct address deaf = deaf_address(&keep);
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address), server;
    exs_acceptaddr_t wanted = {0};

    inbox_open(&box, 8);
    must(exs_connect(client, SA(&deaf), deaf.length, 0, NULL, box.queue, &keep));
    inbox_quiet(&box, QUIET_MS);
    ck_assert_int_eq(exs_cancel(client, &client, 0), 0);
    ck_assert_int_eq(exs_cancel(client, &keep, 0), 1);
    take_failed(&box, EXS_EVT_CONNECT, client, ECANCELED);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, client);
    server = take_good(&box, EXS_EVT_ACCEPT, listener).exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    pass_bytes(&box, client, &box, server, 1000, 1);
    close_socket(&box, client);
    close_socket(&box, server);
    must(exs_blocking_close(listener));
    inbox_close(&box);
    close(keep);
}
END_TEST

/* ---- Blocking calls of other threads ------------------------------------------------------------------ */

struct call {
    int socket;
    int what;
    struct address address;
    uint8_t *buffer;
    long result;
    int error;
    _Atomic bool done; /* release: pairs with the loop in cancel_call, after which the other members are read */
};

static void *wait_in_call(void *argument)
{
    struct call *call = argument;

    switch (call->what) {
    case EXS_EVT_RECV:
        call->result = exs_blocking_recv(call->socket, call->buffer, LENGTH, MSG_WAITALL, NULL);
        break;
    case EXS_EVT_SEND:
        call->result = exs_blocking_send(call->socket, call->buffer, LENGTH, 0, NULL);
        break;
    case EXS_EVT_ACCEPT:
        call->result = exs_blocking_accept(call->socket, NULL, NULL);
        break;
    default:
        call->result = exs_blocking_connect(call->socket, SA(&call->address), call->address.length);
        break;
    }
    call->error = errno;
    call->done = true;
    return NULL;
}

/* The peer must run, because it has to reply to a recall. */
static void cancel_call(struct call *call, struct inbox *peer)
{
    pthread_t thread = thread_start(wait_in_call, call);

    while (exs_cancel(call->socket, NULL, 0) == 0)
        inbox_pump(peer, 1);
    while (!call->done)
        inbox_pump(peer, 1);
    thread_join(thread);
}

START_TEST(calls_that_wait)
{
    struct call call = {.what = _i, .buffer = new_buffer(LENGTH)};
    struct pair pair;
    int keep = -1;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    call.socket = pair.client;
    if (_i == EXS_EVT_ACCEPT)
        call.socket = pair.listener;
    if (_i == EXS_EVT_CONNECT) {
        call.socket = exs_socket(PF_INET, SOCK_STREAM, 0);
        call.address = deaf_address(&keep);
    }
    cancel_call(&call, pair.server_box);
    ck_assert_int_eq(call.result, -1);
    ck_assert_int_eq(call.error, ECANCELED);
    if (_i == EXS_EVT_CONNECT) {
        must(exs_blocking_close(call.socket));
        close(keep);
    }
    pair_close(&pair);
    free(call.buffer);
}
END_TEST

/* A call that has transferred bytes returns their number. */
START_TEST(some_bytes)
{
    struct call call = {.what = _i == 0 ? EXS_EVT_RECV : EXS_EVT_SEND, .buffer = new_buffer(LENGTH)};
    uint8_t *in = new_buffer(LENGTH);
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    call.socket = pair.client;
    pattern_fill(_i == 0 ? in : call.buffer, LENGTH, 1, 0);
    if (_i == 0)
        ck_assert_int_eq(exs_blocking_send(pair.server, in, 1000, 0, NULL), 1000);
    cancel_call(&call, pair.server_box);
    if (_i == 0) {
        ck_assert(call.result == 1000 || (call.result == -1 && call.error == ECANCELED));
        pattern_check(call.buffer, call.result > 0 ? (size_t)call.result : 0, 1, 0);
    } else {
        ck_assert_int_gt(call.result, 0);
        ck_assert_int_lt(call.result, LENGTH);
        ck_assert_int_eq(exs_blocking_recv(pair.server, in, (size_t)call.result, MSG_WAITALL, NULL),
                         call.result);
        pattern_check(in, (size_t)call.result, 1, 0);
    }
    pair_close(&pair);
    free(call.buffer);
    free(in);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cancel_sends");
    TCase *tcase = add_case(suite, "cancel", 20);

    tcase_add_loop_test(tcase, one_send, 0, 16);
    tcase_add_test(tcase, without_events);
    tcase_add_test(tcase, registered);
    tcase_add_loop_test(tcase, between_elements, 0, 2);
    tcase_add_loop_test(tcase, no_end, 0, 4);
    tcase_add_test(tcase, the_end_stays);
    tcase_add_loop_test(tcase, one_sided, 0, 2);
    tcase_add_loop_test(tcase, one_sided_in_part, 0, 2);
    tcase_add_loop_test(tcase, accepts, 0, 3);
    tcase_add_test(tcase, connecting);
    tcase_add_loop_test(tcase, calls_that_wait, EXS_EVT_CONNECT, EXS_EVT_RECV + 1);
    tcase_add_loop_test(tcase, some_bytes, 0, 2);
    return run_suite(suite);
}
