/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_cancel_begun.c - exs_cancel in the middle of a transfer into the receiver's own buffer, and while a recall of
 * advertisements is in progress.
 */
#include "check/support/support.h"

#define ELEMENT 9000 /* bytes: too many to be copied together with another element */
#define ALL (EXS_XFV_MAX * ELEMENT)

struct flow {
    struct pair pair;
    uint8_t *in, *out; /* in: 2 * ALL bytes; out: ALL bytes */
    exs_xferfile_t files[EXS_XFV_MAX];
};

static void flow_open(struct flow *flow, int type)
{
    flow->in = new_buffer(2 * ALL);
    flow->out = new_buffer(ALL);
    pattern_fill(flow->out, ALL, 1, 0);
    for (int i = 0; i < EXS_XFV_MAX; i++)
        flow->files[i] =
            (exs_xferfile_t){.exs_xfv_type = EXS_IOVEC,
                             .exs_xfv.exs_iov = {.exs_base = flow->out + i * ELEMENT, .exs_length = ELEMENT}};
    pair_open(&flow->pair, AF_INET, type);
}

static void flow_close(struct flow *flow)
{
    pair_close(&flow->pair);
    free(flow->in);
    free(flow->out);
}

static void receive(struct flow *flow, void *buffer, size_t length, int flags)
{
    must(exs_recv(flow->pair.server, buffer, length, flags, flow->pair.server_box->queue, buffer, NULL));
}

static void pump(struct inbox *box)
{
    for (int i = 0; i < 5; i++)
        inbox_pump(box, 1);
}

static void pump_both(struct flow *flow)
{
    for (int i = 0; i < 3; i++) {
        pump(flow->pair.server_box);
        pump(flow->pair.client_box);
    }
}

/* The server's receive is advertised, and the client sends elements into it until it has no credit left. */
static void begin_transfer(struct flow *flow)
{
    pump_both(flow);
    must(exs_sendfile(flow->pair.client, flow->files, EXS_XFV_MAX, 0, flow->pair.client_box->queue, flow->out));
}

static exs_event_t take_received(struct flow *flow, const void *buffer, size_t length)
{
    exs_event_t event = inbox_take(flow->pair.server_box, EXS_EVT_RECV, flow->pair.server);

    ck_assert_ptr_eq(event.exs_evt_ahandle, buffer);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    return event;
}

/* The peer finishes the transfer that it has started, and writes no further data into the buffer, though there is space
 * left. */
START_TEST(being_filled)
{
    struct flow flow;
    uint8_t *next;

    flow_open(&flow, SOCK_STREAM);
    next = flow.in + ALL + 1000;
    receive(&flow, flow.in, ALL + 1000, MSG_WAITALL);
    begin_transfer(&flow);
    pump(flow.pair.server_box); /* the buffer has the first elements */
    ck_assert_int_eq(exs_cancel(flow.pair.server, flow.in, 0), 1);
    if (_i == 1)
        receive(&flow, next, 20000, MSG_WAITALL);
    flow.pair.server_box->beside = flow.pair.client_box;
    ck_assert_int_eq(take_received(&flow, flow.in, ALL).exs_evt_errno, ECANCELED);
    pattern_check(flow.in, ALL, 1, 0);
    take_good(flow.pair.client_box, EXS_EVT_SENDFILE, flow.pair.client);
    if (_i == 0)
        receive(&flow, next, 20000, MSG_WAITALL);
    must(exs_send(flow.pair.client, flow.out, 20000, 0, flow.pair.client_box->queue, NULL, NULL));
    ck_assert_int_eq(take_received(&flow, next, 20000).exs_evt_errno, 0);
    pattern_check(next, 20000, 1, 0);
    same_bytes(flow.in + ALL, 1000, CANARY);
    flow.pair.client_box->beside = flow.pair.server_box;
    take_good(flow.pair.client_box, EXS_EVT_SEND, flow.pair.client);
    flow_close(&flow);
}
END_TEST

/* A message that has been started is sent completely: the cancel has no effect. */
START_TEST(a_message)
{
    struct flow flow;

    flow_open(&flow, SOCK_SEQPACKET);
    receive(&flow, flow.in, ALL, 0);
    begin_transfer(&flow);
    ck_assert_int_eq(exs_cancel(flow.pair.client, flow.out, 0), 1);
    flow.pair.client_box->beside = flow.pair.server_box;
    exs_event_t event = take_good(flow.pair.client_box, EXS_EVT_SENDFILE, flow.pair.client);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_length, ALL);
    ck_assert_int_eq(take_received(&flow, flow.in, ALL).exs_evt_errno, 0);
    pattern_check(flow.in, ALL, 1, 0);
    flow_close(&flow);
}
END_TEST

/* The receiver recalls a buffer from a sender that had aborted its transfer into another one. */
START_TEST(both_ends)
{
    struct flow flow;

    flow_open(&flow, SOCK_STREAM);
    receive(&flow, flow.in, ALL, 0);
    begin_transfer(&flow);
    ck_assert_int_eq(exs_cancel(flow.pair.client, flow.out, 0), 1);
    flow.pair.client_box->beside = flow.pair.server_box;
    take_failed(flow.pair.client_box, EXS_EVT_SENDFILE, flow.pair.client, ECANCELED);
    take_good(flow.pair.server_box, EXS_EVT_RECV, flow.pair.server);
    receive(&flow, flow.in + ALL, 20000, 0);
    pump_both(&flow);
    ck_assert_int_eq(exs_cancel(flow.pair.server, flow.in + ALL, 0), 1);
    flow.pair.server_box->beside = flow.pair.client_box;
    flow.pair.client_box->beside = NULL;
    ck_assert_int_eq(take_received(&flow, flow.in + ALL, 0).exs_evt_errno, ECANCELED);
    pass_bytes(flow.pair.client_box, flow.pair.client, flow.pair.server_box, flow.pair.server, 20000, 3);
    flow_close(&flow);
}
END_TEST

/* A receive is cancelled while the peer's reply to an earlier recall is on its way: there is only one recall. */
START_TEST(asked_once)
{
    struct flow flow;

    flow_open(&flow, SOCK_STREAM);
    receive(&flow, flow.in, 20000, 0);
    receive(&flow, flow.in + ALL, 20000, 0);
    pump_both(&flow);
    ck_assert_int_eq(exs_cancel(flow.pair.server, flow.in, 0), 1);
    pump(flow.pair.client_box);
    ck_assert_int_eq(exs_cancel(flow.pair.server, flow.in + ALL, 0), 1);
    pump(flow.pair.client_box);
    ck_assert_int_eq(take_received(&flow, flow.in, 0).exs_evt_errno, ECANCELED);
    ck_assert_int_eq(take_received(&flow, flow.in + ALL, 0).exs_evt_errno, ECANCELED);
    pump_both(&flow);
    pass_bytes(flow.pair.client_box, flow.pair.client, flow.pair.server_box, flow.pair.server, 20000, 1);
    flow_close(&flow);
}
END_TEST

/* A receive that is started during a recall is advertised once. */
START_TEST(told_once)
{
    struct flow flow;

    flow_open(&flow, SOCK_STREAM);
    receive(&flow, flow.in, 20000, 0);
    pump_both(&flow);
    ck_assert_int_eq(exs_cancel(flow.pair.server, flow.in, 0), 1);
    receive(&flow, flow.in + ALL, 20000, MSG_WAITALL);
    pump_both(&flow);
    ck_assert_int_eq(take_received(&flow, flow.in, 0).exs_evt_errno, ECANCELED);
    flow.pair.server_box->beside = flow.pair.client_box;
    for (int i = 0; i < 2; i++) {
        must(exs_send(flow.pair.client, flow.out, 20000, 0, flow.pair.client_box->queue, NULL, NULL));
        ck_assert_int_eq(take_received(&flow, flow.in + (1 - i) * ALL, 20000).exs_evt_errno, 0);
        pattern_check(flow.in + (1 - i) * ALL, 20000, 1, 0);
        take_good(flow.pair.client_box, EXS_EVT_SEND, flow.pair.client);
        if (i == 0)
            receive(&flow, flow.in, 20000, MSG_WAITALL);
    }
    flow_close(&flow);
}
END_TEST

/* A sendfile that was to shut down writing is cancelled and exs_shutdown is not: writing is shut down. */
START_TEST(another_end)
{
    struct flow flow;

    flow_open(&flow, SOCK_SEQPACKET);
    flow.files[0].exs_xfv.exs_iov.exs_flags = EXS_SHUT_WR;
    must(exs_sendfile(flow.pair.client, flow.files, 1, 0, flow.pair.client_box->queue, flow.out));
    must(exs_shutdown(flow.pair.client, SHUT_WR, 0, flow.pair.client_box->queue, NULL));
    ck_assert_int_eq(exs_cancel(flow.pair.client, flow.out, 0), 1);
    take_failed(flow.pair.client_box, EXS_EVT_SENDFILE, flow.pair.client, ECANCELED);
    must_fail(exs_send(flow.pair.client, flow.out, 1, 0, flow.pair.client_box->queue, NULL, NULL), EPIPE);
    flow.pair.client_box->beside = flow.pair.server_box;
    take_good(flow.pair.client_box, EXS_EVT_SHUTDOWN, flow.pair.client);
    flow_close(&flow);
}
END_TEST

/* A cancelled accept no longer gets connections: its queue has no sockets. */
START_TEST(an_accept)
{
    exs_acceptaddr_t wanted[2] = {{.exs_ahandle = &wanted[0]}, {.exs_ahandle = &wanted[1]}};
    struct inbox one, other;
    struct address address;
    exs_qstatus_t status;
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address),
        client = exs_socket(AF_INET, SOCK_STREAM, 0);

    must(client);
    inbox_open(&one, 4);
    inbox_open(&other, 4);
    must(exs_accept(listener, &wanted[0], 1, 0, one.queue));
    ck_assert_int_eq(exs_cancel(listener, &wanted[0], 0), 1);
    take_failed(&one, EXS_EVT_ACCEPT, listener, ECANCELED);
    must(exs_accept(listener, &wanted[1], 1, 0, other.queue));
    must(exs_connect(client, SA(&address), address.length, 0, NULL, other.queue, NULL));
    int server = take_good(&other, EXS_EVT_ACCEPT, listener).exs_evt_union.exs_evt_accept.exs_evt_newsocket;

    take_good(&other, EXS_EVT_CONNECT, client);
    must(exs_qstatus(one.queue, &status));
    ck_assert_int_eq(status.exs_sockets, 0);
    must(exs_qstatus(other.queue, &status));
    ck_assert_int_eq(status.exs_sockets, 2);
    close_socket(&other, client);
    close_socket(&other, server);
    close_socket(&other, listener);
    inbox_close(&one);
    inbox_close(&other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cancel_begun");
    TCase *tcase = add_case(suite, "cancel", 20);

    tcase_add_loop_test(tcase, being_filled, 0, 2);
    tcase_add_test(tcase, a_message);
    tcase_add_test(tcase, both_ends);
    tcase_add_test(tcase, asked_once);
    tcase_add_test(tcase, told_once);
    tcase_add_test(tcase, another_end);
    tcase_add_test(tcase, an_accept);
    return run_suite(suite);
}
