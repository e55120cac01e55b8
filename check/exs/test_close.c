/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_close.c - shutdown and close, and which operations they end: blocking and not, IPv4 and IPv6, STREAM and
 * SEQPACKET. Also the descriptors of sockets, queues that are in use, and the names of events.
 */
#include "check/support/support.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

/* ---- Shutting down ------------------------------------------------------------------- */

static void at_the_end(struct inbox *box, int socket)
{
    char byte = CANARY;

    must(exs_recv(socket, &byte, 1, MSG_WAITALL, box->queue, NULL, NULL));
    exs_event_t event = take_good(box, EXS_EVT_RECV, socket);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    same_bytes(&byte, 1, CANARY);
}

/* Data that was sent before arrives, then the end of the stream. The other direction continues to work. */
START_TEST(half_close)
{
    struct pair pair;
    size_t length = kinds[_i].type == SOCK_STREAM ? MIB : 100;
    char *out = new_buffer(length), *in = new_buffer(length);
    int mark;

    pair_open_kind(&pair, _i);
    pattern_fill(out, length, 7, 0);
    must(exs_send(pair.client, out, length, 0, pair.client_box->queue, NULL, NULL));
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, &mark));
    must_fail(exs_send(pair.client, out, 1, 0, pair.client_box->queue, NULL, NULL), EPIPE);
    must(exs_recv(pair.server, in, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    pattern_check(in, length, 7, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_ptr_eq(take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client).exs_evt_ahandle, &mark);
    at_the_end(pair.server_box, pair.server);
    at_the_end(pair.server_box, pair.server);
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, 3000, 8);
    must(exs_shutdown(pair.server, SHUT_WR, 0, pair.server_box->queue, NULL));
    take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    at_the_end(pair.client_box, pair.client);
    pair_close(&pair);
    free(out);
    free(in);
}
END_TEST

/* A pending receive ends with the bytes before the end of the stream. */
START_TEST(end_of_a_waiting_receive)
{
    struct pair pair;
    char in[100];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_recv(pair.server, in, sizeof in, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    must(exs_recv(pair.server, in, sizeof in, 0, pair.server_box->queue, NULL, NULL));
    must(exs_send(pair.client, "0123456789", 10, EXS_UNSIGNALED, NULL, NULL, NULL));
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 10);
    event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    ck_assert_mem_eq(in, "0123456789", 10);
    pair_close(&pair);
}
END_TEST

static void shut_down(struct inbox *box, int socket, int how)
{
    must(exs_shutdown(socket, how, 0, box->queue, NULL));
    take_good(box, EXS_EVT_SHUTDOWN, socket);
}

START_TEST(shut_for_reading)
{
    struct pair pair;
    char byte;

    pair_open_kind(&pair, _i);
    must(exs_recv(pair.server, &byte, 1, 0, pair.server_box->queue, &byte, NULL));
    shut_down(pair.server_box, pair.server, SHUT_RD);
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    at_the_end(pair.server_box, pair.server);
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, 100, 3); /* sending still works */
    pair_close(&pair);
}
END_TEST

START_TEST(shut_both_ways)
{
    struct pair pair;

    pair_open_kind(&pair, _i);
    shut_down(pair.client_box, pair.client, SHUT_RDWR);
    must_fail(exs_send(pair.client, "x", 1, 0, pair.client_box->queue, NULL, NULL), EPIPE);
    must_fail(exs_blocking_send(pair.client, "x", 1, 0, NULL), EPIPE);
    at_the_end(pair.client_box, pair.client);
    at_the_end(pair.server_box, pair.server);
    pair_close(&pair);
}
END_TEST

/* ---- Closing ------------------------------------------------------------------------- */

static void next_is(struct inbox *box, int type, void *ahandle, int error)
{
    while (box->count == 0)
        inbox_pump(box, WAIT_MS);
    ck_assert_str_eq(exs_strevent(box->kept[0].exs_evt_type), exs_strevent(type));
    exs_event_t event = take_failed(box, type, -1, error);
    ck_assert_ptr_eq(event.exs_evt_ahandle, ahandle);
}

/* Each pending operation ends with ECANCELED, those of one direction in order. The close's event is the last. */
START_TEST(close_cancels)
{
    struct pair pair;
    size_t length = 64 * MIB;
    char *out = new_buffer(length), in[4][100];

    pair_open_kind(&pair, _i);
    struct inbox *box = pair.client_box;
    for (int i = 0; i < 4; i++)
        must(exs_recv(pair.client, in[i], sizeof in[i], 0, box->queue, in[i], NULL));
    must(exs_send(pair.client, out, length, 0, box->queue, out, NULL));
    must(exs_send(pair.client, out, length / 2, 0, box->queue, out + 1, NULL));
    must(exs_close(pair.client, 0, box->queue, &pair));
    must_fail(exs_send(pair.client, out, 1, 0, box->queue, NULL, NULL), EBADF);
    exs_event_t events[7];
    int count = 0;
    while (count < 7) {
        while (box->count == 0)
            inbox_pump(box, WAIT_MS);
        events[count++] = inbox_take(box, box->kept[0].exs_evt_type, -1);
    }
    int received = 0, sent = 0;
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(events[i].exs_evt_errno, ECANCELED);
        if (events[i].exs_evt_type == EXS_EVT_RECV)
            ck_assert_ptr_eq(events[i].exs_evt_ahandle, in[received++]);
        else
            ck_assert_ptr_eq(events[i].exs_evt_ahandle, out + sent++);
    }
    ck_assert_int_eq(received, 4);
    ck_assert_int_eq(events[6].exs_evt_type, EXS_EVT_CLOSE);
    ck_assert_int_eq(events[6].exs_evt_errno, 0);
    free(out);
    inbox_quiet(box, QUIET_MS);
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
}
END_TEST

START_TEST(close_cancels_accept)
{
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted[2] = {{.exs_ahandle = "0"}, {.exs_ahandle = "1"}};
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);

    inbox_open(&box, 4);
    must(exs_accept(listener, wanted, 2, 0, box.queue));
    must(exs_close(listener, 0, box.queue, NULL));
    for (int i = 0; i < 2; i++) {
        while (box.count == 0)
            inbox_pump(&box, WAIT_MS);
        ck_assert_int_eq(box.kept[0].exs_evt_union.exs_evt_accept.exs_evt_newsocket, -1);
        next_is(&box, EXS_EVT_ACCEPT, wanted[i].exs_ahandle, ECANCELED);
    }
    next_is(&box, EXS_EVT_CLOSE, NULL, 0);
    inbox_close(&box);
}
END_TEST

START_TEST(close_cancels_connect)
{
    struct inbox box;
    int keep, client = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct address deaf = deaf_address(&keep);

    inbox_open(&box, 4);
    must(exs_connect(client, SA(&deaf), deaf.length, 0, NULL, box.queue, &keep));
    inbox_quiet(&box, QUIET_MS);
    must(exs_close(client, 0, box.queue, &client));
    next_is(&box, EXS_EVT_CONNECT, &keep, ECANCELED);
    next_is(&box, EXS_EVT_CLOSE, &client, 0);
    inbox_close(&box);
    close(keep);
}
END_TEST

/* Data of a completed send reaches the peer even if the sender closes. */
START_TEST(close_after_send)
{
    struct pair pair;
    char in[1000], out[1000];

    memset(out, CANARY, sizeof out);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_send(pair.client, out, sizeof out, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    close_socket(pair.client_box, pair.client);
    must(exs_recv(pair.server, in, sizeof in, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, sizeof in);
    same_bytes(in, sizeof in, CANARY);
    at_the_end(pair.server_box, pair.server);
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
}
END_TEST

struct call { /* a blocking receive in another thread, and its result */
    int socket;
    ssize_t result;
    int error;
};

static void *blocking_receive(void *arg)
{
    struct call *c = arg;
    char byte;

    c->result = exs_blocking_recv(c->socket, &byte, 1, 0, NULL);
    c->error = errno;
    return NULL;
}

/* Waits until the call probably sleeps. If it does not, it finds the socket closed. */
static void let_it_wait(void)
{
    poll(NULL, 0, 20);
}

START_TEST(close_ends_a_blocking_call)
{
    struct pair pair;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    struct call call = {.socket = pair.server};
    pthread_t thread = thread_start(blocking_receive, &call);
    let_it_wait();
    must(exs_blocking_close(pair.server));
    thread_join(thread);
    ck_assert_int_eq(call.result, -1);
    ck_assert_msg(call.error == ECANCELED || call.error == EBADF, "errno is %s", strerrorname_np(call.error));
    must(exs_blocking_close(pair.client));
    must(exs_blocking_close(pair.listener));
}
END_TEST

START_TEST(shutdown_ends_a_blocking_call)
{
    struct pair pair;

    pair_open_blocking(&pair, AF_INET, kinds[_i].type);
    struct call call = {.socket = pair.server};
    pthread_t thread = thread_start(blocking_receive, &call);
    let_it_wait();
    must(exs_shutdown(pair.server, SHUT_RD, EXS_BLOCK, NULL, NULL));
    thread_join(thread);
    ck_assert_int_eq(call.result, 0);
    pair_close_blocking(&pair);
}
END_TEST

START_TEST(close_without_an_event)
{
    struct pair pair;

    pair_open_kind(&pair, _i);
    ck_assert_int_eq(exs_close(pair.client, 0, NULL, NULL), 0);
    at_the_end(pair.server_box, pair.server);
    inbox_quiet(pair.client_box, QUIET_MS);
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
}
END_TEST

/* A socket without a peer is closed at once, without blocking and without an additional descriptor. */
START_TEST(close_without_a_peer)
{
    int before = count_fds(), fresh = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(fresh);
    must(exs_close(fresh, 0, NULL, NULL));
    ck_assert_int_eq(count_fds(), before);
    must_fail(exs_close(fresh, 0, NULL, NULL), EBADF);
}
END_TEST

/* Connecting and closing leaves no open descriptor. */
START_TEST(nothing_is_left)
{
    struct pair pair;
    int before = 0;

    for (int round = 0; round < 20; round++) {
        pair_open_kind(&pair, round % 4);
        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100, 1);
        pair_close(&pair);
        if (round == 3)
            before = count_fds();
    }
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* ---- Descriptors, queues, names ------------------------------------------------------ */

START_TEST(number_is_a_descriptor)
{
    struct stat status;
    int socket = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(socket);
    must(fcntl(socket, F_GETFD));
    must(fstat(socket, &status));
    int other = open("/dev/null", O_RDONLY);
    ck_assert_int_ne(other, socket);
    close(other);
    must(exs_blocking_close(socket));
    must_fail(fcntl(socket, F_GETFD), EBADF);
}
END_TEST

START_TEST(descriptor_flags)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    int flags = exs_fcntl(pair.client, F_GETFL);
    must(flags);
    must(exs_fcntl(pair.client, F_SETFL, flags | O_NONBLOCK));
    ck_assert_int_eq(exs_fcntl(pair.client, F_GETFL), flags | O_NONBLOCK);
    must(exs_fcntl(pair.client, F_SETFL, flags & ~O_NONBLOCK));
    ck_assert_int_eq(exs_fcntl(pair.client, F_GETFL) & O_NONBLOCK, 0);
    for (int on = 0; on < 2; on++) {
        must(exs_fcntl(pair.client, F_SETFD, on ? FD_CLOEXEC : 0));
        ck_assert_int_eq(exs_fcntl(pair.client, F_GETFD), on ? FD_CLOEXEC : 0);
        ck_assert_int_eq(fcntl(pair.client, F_GETFD), on ? FD_CLOEXEC : 0);
    }
    must_fail(exs_fcntl(pair.client, F_GETLK), EINVAL);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 100, 1);
    pair_close(&pair);
}
END_TEST

START_TEST(queue_that_is_busy)
{
    struct inbox box;
    struct pair pair;
    exs_acceptaddr_t wanted = {0};
    char byte;

    inbox_open(&box, 1);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_accept(pair.listener, &wanted, 1, 0, box.queue));
    must_fail(exs_qdelete(box.queue), EBUSY);
    must(exs_recv(pair.client, &byte, 1, 0, box.queue, NULL, NULL));
    must_fail(exs_qdelete(box.queue), EBUSY);
    must_fail(exs_qdelete(pair.client_box->queue), EBUSY);
    must_fail(exs_qdelete(pair.server_box->queue), EBUSY);
    pair_close(&pair);
    take_failed(&box, EXS_EVT_ACCEPT, pair.listener, ECANCELED);
    take_failed(&box, EXS_EVT_RECV, pair.client, ECANCELED);
    inbox_close(&box);
}
END_TEST

START_TEST(event_names)
{
    ck_assert_str_eq(exs_strevent(EXS_EVT_CONNECT), "EXS_EVT_CONNECT");
    ck_assert_str_eq(exs_strevent(EXS_EVT_ACCEPT), "EXS_EVT_ACCEPT");
    ck_assert_str_eq(exs_strevent(EXS_EVT_SEND), "EXS_EVT_SEND");
    ck_assert_str_eq(exs_strevent(EXS_EVT_RECV), "EXS_EVT_RECV");
    ck_assert_str_eq(exs_strevent(EXS_EVT_SENDFILE), "EXS_EVT_SENDFILE");
    ck_assert_str_eq(exs_strevent(EXS_EVT_SHUTDOWN), "EXS_EVT_SHUTDOWN");
    ck_assert_str_eq(exs_strevent(EXS_EVT_CLOSE), "EXS_EVT_CLOSE");
    ck_assert_ptr_nonnull(exs_strevent(0));
    ck_assert_ptr_nonnull(exs_strevent(-1));
    ck_assert_ptr_nonnull(exs_strevent(9999));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("close");
    TCase *shut = add_case(suite, "shut down", 20), *end = add_case(suite, "close", 20),
          *rest = add_case(suite, "descriptors, queues, names", 20);

    tcase_add_loop_test(shut, half_close, 0, COUNT(kinds));
    tcase_add_test(shut, end_of_a_waiting_receive);
    tcase_add_loop_test(shut, shut_for_reading, 0, COUNT(kinds));
    tcase_add_loop_test(shut, shut_both_ways, 0, COUNT(kinds));
    tcase_add_loop_test(end, close_cancels, 0, COUNT(kinds));
    tcase_add_test(end, close_cancels_accept);
    tcase_add_test(end, close_cancels_connect);
    tcase_add_test(end, close_after_send);
    tcase_add_test(end, close_ends_a_blocking_call);
    tcase_add_loop_test(end, shutdown_ends_a_blocking_call, 0, 2);
    tcase_add_loop_test(end, close_without_an_event, 0, COUNT(kinds));
    tcase_add_test(end, close_without_a_peer);
    tcase_add_test(end, nothing_is_left);
    tcase_add_test(rest, number_is_a_descriptor);
    tcase_add_test(rest, descriptor_flags);
    tcase_add_test(rest, queue_that_is_busy);
    tcase_add_test(rest, event_names);
    return run_suite(suite);
}
