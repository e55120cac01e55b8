/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_incoming.c - connections on their way in: whoever asks for one and then falls silent delays nobody,
 * holds little, and makes room when there are many of it; what is established before an accept asks for it
 * waits, with all that it has sent.
 *
 * Strangers talk to the TCP port of the embedded device. The kernel's connection manager answers for its own.
 */
#include "check/support/silent.h"

#include <poll.h>
#include <sys/resource.h>

enum {
    STRANGERS = 1000,
    HALF_OPEN = 256,      /* of one listener, at most; */
    HALF_OPEN_ALONE = 32, /* those that a blocking accept would get */
    CLIENTS = 100,
};

static struct inbox box;
static struct address address;
static int listener;
static exs_acceptaddr_t wanted[4];

static void begin(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    init_library();
    inbox_open(&box, 16);
    listener = open_listener(AF_INET, SOCK_STREAM, 1024, &address);
    memset(wanted, 0, sizeof(wanted));
}

static void end(void)
{
    close_socket(&box, listener);
    inbox_close(&box);
}

/* ---- Strangers ----------------------------------------------------------------------------------------- */

/* So many, one after the other: the next comes when the listener has dealt with the last. */
static void let_strangers_in(int *fd, int count)
{
    for (int i = 0; i < count; i++) {
        double late = seconds_now() + WAIT_MS / 1e3;
        bool there = false;

        fd[i] = silent_ask(&address);
        while (!silent_is_answered(fd[i], &there)) {
            ck_assert_msg(seconds_now() < late, "stranger %d is not answered", i);
            inbox_pump(&box, 1);
        }
        ck_assert_msg(there, "stranger %d was refused", i);
    }
}

static void send_away(const int *fd, int count)
{
    for (int i = 0; i < count; i++)
        close(fd[i]);
}

/* The last `kept` are there, and none before. */
static void expect_kept(const int *fd, int count, int kept)
{
    for (int i = 0; i < count; i++)
        ck_assert_msg(silent_is_there(fd[i]) == (i >= count - kept), "of %d strangers number %d is %s", count,
                      i, silent_is_there(fd[i]) ? "kept" : "gone");
}

/* ---- Clients ------------------------------------------------------------------------------------------- */

static void *connect_one(void *arg)
{
    int *sock = arg;

    must(*sock = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_blocking_connect(*sock, SA(&address), address.length));
    return NULL;
}

static int accepted(struct inbox *inbox)
{
    exs_event_t event = take_good(inbox, EXS_EVT_ACCEPT, listener);

    return event.exs_evt_union.exs_evt_accept.exs_evt_newsocket;
}

static void *accept_one(void *arg)
{
    must(*(int *)arg = exs_blocking_accept(listener, NULL, NULL));
    return NULL;
}

static void expect_soon(double start)
{
    ck_assert_msg(seconds_now() - start < LATE_S, "a good client was accepted after %.2f s",
                  seconds_now() - start);
}

/* Two clients that are both established, and one accept, which is spent on one of them. */
struct two {
    struct inbox box; /* the clients' */
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

/* Both ask before there is an accept, and most likely both are answered before the first is established. */
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
    while (!try_two(two)) { /* one is not answered before there is another accept */
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

/* The clients, both queues beside the test's own, and the listener. */
static void end_two(struct two *two, struct inbox *other)
{
    for (int i = 0; i < 2; i++)
        close_socket(&two->box, two->client[i]);
    inbox_close(&two->box);
    inbox_close(other);
    must(exs_blocking_close(listener));
}

/* The byte that was sent tells whose other end it is. */
static int whose(struct inbox *inbox, int server)
{
    char byte = 0;

    must(exs_recv(server, &byte, 1, 0, inbox->queue, NULL, NULL));
    take_good(inbox, EXS_EVT_RECV, server);
    ck_assert_msg(byte == '0' || byte == '1', "what was sent before the accept is lost");
    return byte - '0';
}

/* ---- Half-open ----------------------------------------------------------------------------------------- */

/* Nobody finds a socket by its number, by chance or by mistake, before an accept has told it. */
START_TEST(no_number_before_the_accept)
{
    int fd, client, server, last = count_fds() + 20;
    struct address name;

    if (on_rdma())
        return;
    begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(&fd, 1);
    for (int number = 0; number < last; number++) {
        name.length = sizeof(name.storage);
        if (number == listener)
            must(exs_getsockname(number, SA(&name), &name.length));
        else
            must_fail(exs_getsockname(number, SA(&name), &name.length), EBADF);
    }
    pthread_t thread = thread_start(connect_one, &client);

    server = accepted(&box);
    thread_join(thread);
    name.length = sizeof(name.storage);
    must(exs_getpeername(server, SA(&name), &name.length));
    close_socket(&box, server);
    must(exs_blocking_close(client));
    close(fd);
    end();
}
END_TEST

/* An accept is spent on who is established, not on who asks. */
START_TEST(silence_delays_nobody)
{
    static int fd[STRANGERS];
    int client, server;

    if (on_rdma())
        return;
    begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(fd, STRANGERS);
    double start = seconds_now();
    pthread_t thread = thread_start(connect_one, &client);
    server = accepted(&box);
    expect_soon(start);
    thread_join(thread);
    close_socket(&box, server);
    must(exs_blocking_close(client));
    expect_kept(fd, STRANGERS, HALF_OPEN - 1); /* the last to go made room for the client */
    send_away(fd, STRANGERS);
    end();
}
END_TEST

START_TEST(silence_delays_no_blocking_accept)
{
    static int fd[STRANGERS];
    int client, server;

    if (on_rdma())
        return;
    begin();
    pthread_t acceptor = thread_start(accept_one, &server);
    let_strangers_in(fd, STRANGERS);
    double start = seconds_now();
    pthread_t thread = thread_start(connect_one, &client);
    thread_join(acceptor);
    expect_soon(start);
    thread_join(thread);
    must(exs_blocking_close(server));
    must(exs_blocking_close(client));
    expect_kept(fd, STRANGERS, HALF_OPEN_ALONE - 1);
    send_away(fd, STRANGERS);
    end();
}
END_TEST

/* More than may be half-open, honest, and all at once: none makes room for another. */
static void *accept_all(void *arg)
{
    int *server = arg;

    for (int i = 0; i < CLIENTS; i++)
        accept_one(&server[i]);
    return NULL;
}

START_TEST(many_at_once)
{
    static int client[CLIENTS], server[CLIENTS];
    char byte;

    begin();
    for (int i = 0; i < CLIENTS; i++) {
        must(client[i] = exs_socket(PF_INET, SOCK_STREAM, 0));
        must(exs_connect(client[i], SA(&address), address.length, 0, NULL, box.queue, NULL));
    }
    pthread_t thread = thread_start(accept_all, server);
    for (int i = 0; i < CLIENTS; i++)
        take_good(&box, EXS_EVT_CONNECT, client[i]);
    thread_join(thread);
    for (int i = 0; i < CLIENTS; i++) /* which of them is whose is not said: they come in any order */
        must(exs_blocking_send(server[i], "x", 1, 0, NULL));
    for (int i = 0; i < CLIENTS; i++) {
        must(exs_recv(client[i], &byte, 1, 0, box.queue, NULL, NULL));
        take_good(&box, EXS_EVT_RECV, client[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        close_socket(&box, client[i]);
        must(exs_blocking_close(server[i]));
    }
    end();
}
END_TEST

/* Two descriptors each: its connection, and the number of the socket that is to be. */
START_TEST(bound_of_descriptors)
{
    static int fd[2 * HALF_OPEN];

    if (on_rdma())
        return;
    begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(fd, 4);
    int before = count_fds();

    let_strangers_in(fd + 4, COUNT(fd) - 4);
    ck_assert_int_le(count_fds() - before - (COUNT(fd) - 4), 2 * (HALF_OPEN - 4) + MORE_SOCKETS);
    send_away(fd, COUNT(fd));
    must(exs_close(listener, 0, box.queue, NULL));
    take_failed(&box, EXS_EVT_ACCEPT, listener, ECANCELED);
    take_good(&box, EXS_EVT_CLOSE, listener);
    inbox_close(&box);
}
END_TEST

/* Without a descriptor left the oldest makes room, too. */
START_TEST(no_descriptor_left)
{
    static int fd[100], filler[1 << 16];
    int client, count = 0;

    if (on_rdma())
        return;
    begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(fd, COUNT(fd));
    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there;

    must(connect(late, SA(&address), address.length));
    inbox_pump(&box, QUIET_MS); /* its connection is taken in, and has the last descriptor but ours */
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){1024, 1024});
    while (count < COUNT(filler) && (filler[count] = dup(late)) >= 0)
        count++;
    ck_assert_int_eq(errno, EMFILE);
    silent_say(late);
    for (double end_ = seconds_now() + WAIT_MS / 1e3; !silent_is_answered(late, &there);) {
        ck_assert(seconds_now() < end_);
        inbox_pump(&box, 1);
    }
    ck_assert_msg(there, "refused, though half-open connections could have made room");
    ck_assert(!silent_is_there(fd[0]) && silent_is_there(fd[COUNT(fd) - 1]));
    send_away(filler, count);
    close(late);
    send_away(fd, COUNT(fd));
    pthread_t thread = thread_start(connect_one, &client);
    close_socket(&box, accepted(&box));
    thread_join(thread);
    must(exs_blocking_close(client));
    end();
}
END_TEST

/* They hold neither the listener nor the queue that they would have lived on. */
START_TEST(end_of_the_listener_or_queue)
{
    int fd[4], client, server;

    if (on_rdma())
        return;
    begin();
    must(exs_accept(listener, wanted, 1, 0, box.queue));
    let_strangers_in(fd, COUNT(fd));
    must_fail(exs_qdelete(box.queue), EBUSY);
    if (_i == 0) {
        must(exs_close(listener, 0, box.queue, NULL));
        take_failed(&box, EXS_EVT_ACCEPT, listener, ECANCELED);
        take_good(&box, EXS_EVT_CLOSE, listener);
        inbox_close(&box);
    } else {
        pthread_t thread = thread_start(connect_one, &client);

        server = accepted(&box);
        thread_join(thread);
        must(exs_blocking_close(client));
        must_fail(exs_qdelete(box.queue), EBUSY);
        expect_kept(fd, COUNT(fd), COUNT(fd));
        close_socket(&box, server);
        inbox_close(&box);
        must(exs_blocking_close(listener));
    }
    expect_kept(fd, COUNT(fd), 0);
    send_away(fd, COUNT(fd));
}
END_TEST

/* ---- Arrived ------------------------------------------------------------------------------------------- */

START_TEST(sent_before_the_accept)
{
    struct two two;
    int first;

    begin();
    connect_two(&two);
    first = whose(&box, two.server);
    must(exs_accept(listener, wanted + 1, 1, 0, box.queue));
    int second = accepted(&box);

    ck_assert_int_eq(whose(&box, second), !first);
    close_socket(&box, second);
    close_two(&two);
    end();
}
END_TEST

/* It has gone again, and what it said is there, with its end. */
START_TEST(gone_before_the_accept)
{
    struct two two;
    char byte;

    begin();
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
    end();
}
END_TEST

/* It lives where the first accept was. When none comes there another queue gets it, and drives it. */
START_TEST(accepted_on_another_queue)
{
    struct two two;
    struct inbox other;

    begin();
    inbox_open(&other, 4);
    connect_two(&two);
    int first = whose(&box, two.server);

    must(exs_accept(listener, wanted + 1, 1, 0, other.queue));
    int second = accepted(&other);

    ck_assert_int_eq(whose(&other, second), !first);
    close_socket(&other, second);
    close_two(&two);
    inbox_close(&other);
    end();
}
END_TEST

/* The queue that it lives on goes, since nothing that the user has was given to that, and it goes on. */
START_TEST(home_is_deleted)
{
    struct two two;
    struct inbox other;
    int second;

    begin();
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

/* The queue that it lives on goes before anybody asked for it: whoever asks then gets it, and what it sent. */
START_TEST(home_is_deleted_before)
{
    struct two two;
    struct inbox other;
    char byte;
    int second;

    begin();
    inbox_open(&other, 4);
    connect_two(&two);
    int first = whose(&box, two.server);

    if (_i > 1) { /* its client has gone again, in order */
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

/* Nobody ever asked for it: its client sees the end. */
START_TEST(never_accepted)
{
    struct two two;
    char byte;

    begin();
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
    Suite *suite = suite_create("incoming");
    TCase *half_open = add_bare_case(suite, "half-open", 40), *arrived = add_bare_case(suite, "arrived", 20);

    tcase_add_test(half_open, no_number_before_the_accept);
    tcase_add_test(half_open, silence_delays_nobody);
    tcase_add_test(half_open, silence_delays_no_blocking_accept);
    tcase_add_test(half_open, many_at_once);
    tcase_add_test(half_open, bound_of_descriptors);
    tcase_add_test(half_open, no_descriptor_left);
    tcase_add_loop_test(half_open, end_of_the_listener_or_queue, 0, 2);
    tcase_add_test(arrived, sent_before_the_accept);
    tcase_add_test(arrived, gone_before_the_accept);
    tcase_add_test(arrived, accepted_on_another_queue);
    tcase_add_loop_test(arrived, home_is_deleted, 0, 2);
    tcase_add_loop_test(arrived, home_is_deleted_before, 0, 4);
    tcase_add_loop_test(arrived, never_accepted, 0, 2);
    return run_suite(suite);
}
