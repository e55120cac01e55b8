/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_arrived.c - a connection that is established while no accept is pending is kept, with all bytes that its client
 * has sent. The next accept of any queue returns it, also when the connection's home queue is
 * deleted first.
 */
#include <poll.h>
#include "incoming.h"

/* ---- Two clients --------------------------------------------------------------------------------------- */

/* Two clients that are both established, of which one has been accepted. */
struct two {
    struct inbox box; /* of the clients */
    int client[2], server;
};

static int connected(struct two *two)
{
    int count = 0;

    inbox_pump(&two->box, 0);
    for (int i = 0; i < two->box.count; i++)
        count += two->box.kept[i].exs_evt_type == EXS_EVT_CONNECT;
    return count;
}

/* Both clients connect before there is an accept, so both requests are usually answered before the first connection is
 * established. Returns false if one was not. */
static bool try_two(struct two *two)
{
    for (int i = 0; i < 2; i++) {
        must(two->client[i] = exs_socket(PF_INET, SOCK_STREAM, 0));
        must(exs_connect(two->client[i], SA(&address), address.length, 0, NULL, two->box.queue, NULL));
    }
    inbox_pump(&two->box, QUIET_MS);
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    two->server = accepted(&box);
    for (double end_ = seconds_now() + 1; connected(two) < 2;) {
        if (seconds_now() > end_)
            return false;
        poll(NULL, 0, 1);
    }
    for (int i = 0; i < 2; i++)
        take_good(&two->box, EXS_EVT_CONNECT, two->client[i]);
    return true;
}

static void close_two(struct two *two)
{
    close_socket(&box, two->server);
    close_socket(&two->box, two->client[0]);
    close_socket(&two->box, two->client[1]);
    box.beside = NULL;
    inbox_close(&two->box);
}

static void connect_two(struct two *two)
{
    int tries = 10;

    inbox_open(&two->box, 4);
    box.beside = &two->box;
    while (!try_two(two)) { /* a client whose request was not answered needs another accept */
        ck_assert_msg(--tries > 0, "two clients are never established with one accept");
        must(exs_accept(listener, wanted, 1, 0, box.queue));
        close_socket(&box, two->server);
        two->server = accepted(&box);
        for (int i = 0; i < 2; i++)
            take_good(&two->box, EXS_EVT_CONNECT, two->client[i]);
        close_two(two);
        inbox_open(&two->box, 4);
        box.beside = &two->box;
    }
    for (int i = 0; i < 2; i++) {
        must(exs_send(two->client[i], i == 0 ? "0" : "1", 1, 0, two->box.queue, NULL, NULL));
        take_good(&two->box, EXS_EVT_SEND, two->client[i]);
    }
}

/* Closes the clients, both other queues and the listener. */
static void end_two(struct two *two, struct inbox *other)
{
    for (int i = 0; i < 2; i++)
        close_socket(&two->box, two->client[i]);
    inbox_close(&two->box);
    inbox_close(other);
    must(exs_blocking_close(listener));
}

/* The byte that the client has sent tells which client this socket is connected to. */
static int whose(struct inbox *inbox, int server)
{
    char byte = 0;

    must(exs_recv(server, &byte, 1, 0, inbox->queue, NULL, NULL));
    take_good(inbox, EXS_EVT_RECV, server);
    ck_assert_msg(byte == '0' || byte == '1', "what was sent before the accept is lost");
    return byte - '0';
}

/* ---- Later accepts ------------------------------------------------------------------------------------- */

START_TEST(sent_before_the_accept)
{
    struct two two;
    int first;

    incoming_begin();
    connect_two(&two);
    first = whose(&box, two.server);
    must(exs_accept(listener, wanted + 1, 1, 0, box.queue));
    int second = accepted(&box);

    ck_assert_int_eq(whose(&box, second), !first);
    close_socket(&box, second);
    close_two(&two);
    incoming_end();
}
END_TEST

/* The client has sent and closed before the accept: the accepted socket returns its bytes and then the end. */
START_TEST(gone_before_the_accept)
{
    struct two two;
    char byte;

    incoming_begin();
    connect_two(&two);
    int first = whose(&box, two.server);

    close_socket(&two.box, two.client[!first]);
    must(exs_accept(listener, wanted + 1, 1, 0, box.queue));
    int second = accepted(&box);

    ck_assert_int_eq(whose(&box, second), !first);
    must(exs_recv(second, &byte, 1, 0, box.queue, NULL, NULL));
    exs_event_t event = take_good(&box, EXS_EVT_RECV, second);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    close_socket(&box, second);
    must(two.client[!first] = exs_socket(PF_INET, SOCK_STREAM, 0)); /* close_two closes it */
    close_two(&two);
    incoming_end();
}
END_TEST

/* The connection's home queue is that of the first accept. If a later accept names another queue, that queue returns
 * the connection and drives it. */
START_TEST(accepted_on_another_queue)
{
    struct two two;
    struct inbox other;

    incoming_begin();
    inbox_open(&other, 4);
    connect_two(&two);
    int first = whose(&box, two.server);

    must(exs_accept(listener, wanted + 1, 1, 0, other.queue));
    int second = accepted(&other);

    ck_assert_int_eq(whose(&other, second), !first);
    close_socket(&other, second);
    close_two(&two);
    inbox_close(&other);
    incoming_end();
}
END_TEST

/* The connection's home queue can be deleted when the application has no other socket on it, and the accepted
 * connection keeps working. */
START_TEST(home_is_deleted)
{
    struct two two;
    struct inbox other;
    int second;

    incoming_begin();
    inbox_open(&other, 4);
    connect_two(&two);
    int first = whose(&box, two.server);

    if (_i == 0) {
        must(exs_accept(listener, wanted + 1, 1, 0, other.queue));
        second = accepted(&other);
    } else {
        must(second = exs_blocking_accept(listener, NULL, NULL));
    }
    must_fail(exs_qdelete(box.queue), EBUSY);
    close_socket(&box, two.server);
    must(exs_qdelete(box.queue));
    must_fail(exs_qdelete(box.queue), EINVAL);
    ck_assert_int_eq(whose(&other, second), !first);
    close_socket(&other, second);
    end_two(&two, &other);
}
END_TEST

/* The connection's home queue is deleted before the accept: a later accept on another queue still returns it, with
 * what its client has sent. */
START_TEST(home_is_deleted_before)
{
    struct two two;
    struct inbox other;
    char byte;
    int second;

    incoming_begin();
    inbox_open(&other, 4);
    connect_two(&two);
    int first = whose(&box, two.server);

    if (_i > 1) { /* the client has closed in order */
        close_socket(&two.box, two.client[!first]);
        must(two.client[!first] = exs_socket(PF_INET, SOCK_STREAM, 0));
    }
    close_socket(&box, two.server);
    must(exs_qdelete(box.queue));
    if (_i % 2 == 0) {
        must(exs_accept(listener, wanted + 1, 1, 0, other.queue));
        second = accepted(&other);
    } else {
        must(second = exs_blocking_accept(listener, NULL, NULL));
    }
    ck_assert_int_eq(whose(&other, second), !first);
    if (_i > 1) {
        must(exs_recv(second, &byte, 1, 0, other.queue, NULL, NULL));
        exs_event_t event = take_good(&other, EXS_EVT_RECV, second);
        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    }
    close_socket(&other, second);
    end_two(&two, &other);
}
END_TEST

/* The connection is never accepted: its client receives the end or ECONNRESET. */
START_TEST(never_accepted)
{
    struct two two;
    char byte;

    incoming_begin();
    connect_two(&two);
    int first = whose(&box, two.server);

    if (_i == 0)
        close_socket(&box, listener);
    close_socket(&box, two.server);
    if (_i == 1) {
        inbox_close(&box);
        must(exs_blocking_close(listener));
    }
    if (exs_recv(two.client[!first], &byte, 1, 0, two.box.queue, NULL, NULL) == 0)
        ck_assert_uint_eq(inbox_take(&two.box, EXS_EVT_RECV, -1).exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    else
        ck_assert_int_eq(errno, ECONNRESET);
    close_socket(&two.box, two.client[0]);
    close_socket(&two.box, two.client[1]);
    if (_i == 0)
        inbox_close(&box);
    inbox_close(&two.box);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arrived");
    TCase *arrived = add_bare_case(suite, "arrived", 20);

    tcase_add_test(arrived, sent_before_the_accept);
    tcase_add_test(arrived, gone_before_the_accept);
    tcase_add_test(arrived, accepted_on_another_queue);
    tcase_add_loop_test(arrived, home_is_deleted, 0, 2);
    tcase_add_loop_test(arrived, home_is_deleted_before, 0, 4);
    tcase_add_loop_test(arrived, never_accepted, 0, 2);
    return run_suite(suite);
}
