/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_shortage.c - a process without free descriptors: calls that need one fail with EMFILE and have no other
 * effect, and every socket and queue can still be closed. Also a process in which libev gets no memory, and one
 * that may not pin memory.
 */
#include "check/support/processes.h"
#include "check/support/support.h"

#include <ev.h>
#include <poll.h>
#include <sys/resource.h>

#define LIMIT 256

static int taken[LIMIT], count; /* all free descriptors */

static void exhaust(void)
{
    for (count = 0; count < LIMIT && (taken[count] = dup(0)) >= 0; count++)
        ;
    ck_assert_int_eq(errno, EMFILE);
}

static void release(void)
{
    while (count > 0)
        close(taken[--count]);
}

static void limited(void)
{
    struct rlimit limit = {.rlim_cur = LIMIT, .rlim_max = LIMIT};

    init_library();
    must(setrlimit(RLIMIT_NOFILE, &limit));
}

static int bound(void)
{
    struct address any = loopback(AF_INET, 0);
    int socket;

    must(socket = exs_socket(PF_INET, SOCK_SEQPACKET, 0));
    must(exs_bind(socket, SA(&any), any.length));
    return socket;
}

/* The ways to close a socket. */
static void close_by(int way, int socket, struct inbox *box)
{
    switch (way) {
    case 0:
        must(exs_close(socket, EXS_BLOCK, NULL, NULL));
        break;
    case 1:
        must(exs_blocking_close(socket));
        break;
    case 2:
        must(exs_close(socket, 0, NULL, NULL));
        break;
    default:
        must(exs_close(socket, 0, box->queue, NULL));
        take_good(box, EXS_EVT_CLOSE, socket);
    }
}
#define WAYS 4

START_TEST(sockets_without_a_peer)
{
    struct inbox box;
    int fresh, before = count_fds();

    inbox_open(&box, 8);
    must(fresh = exs_socket(PF_INET, SOCK_STREAM, 0));
    int named = bound(), listener = bound();
    must(exs_listen(listener, 4));
    exhaust();
    close_by(_i, fresh, &box);
    release(); /* the socket's own descriptor is free now: take it, too */
    exhaust();
    close_by(_i, named, &box);
    release();
    exhaust();
    close_by(_i, listener, &box);
    release();
    inbox_close(&box);
    ck_assert_int_le(count_fds(), before + 8); /* the service thread and the device keep some open */
}
END_TEST

/* A connection of asynchronous calls is closed without another descriptor. */
START_TEST(connections)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exhaust();
    pair_close(&pair);
    release();
}
END_TEST

START_TEST(connections_closed_by_blocking_calls)
{
    struct pair pair;
    char byte;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_recv(pair.client, &byte, 1, 0, pair.client_box->queue, NULL, NULL));
    exhaust();
    /* this thread has not waited yet; it would need a descriptor to be woken */
    must(exs_blocking_close(pair.client));
    must(exs_blocking_close(pair.server)); /* its queue holds events that were not dequeued */
    take_failed(pair.client_box, EXS_EVT_RECV, pair.client, ECANCELED);
    pair_close_rest(&pair);
    release();
}
END_TEST

START_TEST(connections_of_blocking_calls)
{
    struct pair pair;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    exhaust();
    pair_close_blocking(&pair);
    release();
}
END_TEST

/* A loop's queue closes sockets that blocking calls have connected. No descriptor is left to attach their queue
 * to it. */
START_TEST(connections_of_blocking_calls_closed_by_a_loop)
{
    struct pair pair;
    struct inbox box;

    inbox_open(&box, 8);
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    exhaust();
    must(exs_close(pair.client, 0, box.queue, NULL));
    must(exs_close(pair.server, 0, box.queue, NULL));
    for (int i = 0; i < 2; i++) {
        exs_event_t event = inbox_take(&box, EXS_EVT_CLOSE, -1);

        ck_assert_int_eq(event.exs_evt_errno, 0);
    }
    release();
    must(exs_blocking_close(pair.listener));
    inbox_close(&box);
}
END_TEST

/* An operation on such a queue waits. Without a descriptor the loop wakes on a timer, ten times a second; with
 * one it is woken immediately. */
START_TEST(connections_of_blocking_calls_used_by_a_loop)
{
    struct pair pair;
    struct inbox box;
    int wakes = 0;
    char byte;

    inbox_open(&box, 8);
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    exhaust();
    must(exs_recv(pair.server, &byte, 1, 0, box.queue, &byte, NULL));
    struct pollfd wait = {.fd = exs_qfd(box.queue), .events = POLLIN};
    double start = seconds_now();

    while (seconds_now() < start + 0.35) {
        exs_event_t event;

        if (poll(&wait, 1, 50) > 0)
            wakes++;
        ck_assert_int_eq(exs_qdequeue(box.queue, &event, 1, &(struct timeval){0, 0}), 0);
    }
    ck_assert_int_le(wakes, (int)((seconds_now() - start) * 10) + 1);
    ck_assert_int_eq(exs_write(pair.client, "x", 1), 1);
    take_good(&box, EXS_EVT_RECV, pair.server);
    must(exs_recv(pair.server, &byte, 1, 0, box.queue, &byte, NULL));
    release();
    inbox_quiet(&box, 200);
    ck_assert_int_eq(exs_write(pair.client, "y", 1), 1);
    take_good(&box, EXS_EVT_RECV, pair.server);
    ck_assert_int_eq(byte, 'y');
    pair_close_blocking(&pair);
    inbox_close(&box);
}
END_TEST

START_TEST(what_needs_one_fails)
{
    struct address any = loopback(AF_INET, 0);
    int fresh;

    must(fresh = exs_socket(PF_INET, SOCK_STREAM, 0));
    exhaust();
    must_fail(exs_socket(PF_INET, SOCK_STREAM, 0), EMFILE);
    must_fail(exs_bind(fresh, SA(&any), any.length), EMFILE);
    ck_assert_ptr_eq(exs_qcreate(1), EXS_QHANDLE_INVALID);
    ck_assert_int_eq(errno, EAGAIN);
    must(exs_blocking_close(fresh));
    release();
    int again = bound();
    must(exs_blocking_close(again));
}
END_TEST

/* A bind that fails with EMFILE changes nothing and can be repeated. */
START_TEST(bound_afterwards)
{
    struct address any = loopback(AF_INET, 0);
    int fresh;

    must(fresh = exs_socket(PF_INET, SOCK_STREAM, 0));
    for (int i = 0; i < 2; i++) {
        exhaust();
        must_fail(exs_bind(fresh, SA(&any), any.length), EMFILE);
        release();
    }
    must(exs_bind(fresh, SA(&any), any.length));
    must(exs_listen(fresh, 1));
    must(exs_blocking_close(fresh));
}
END_TEST

static void *accept_and_close(void *listener)
{
    int socket = exs_blocking_accept(*(int *)listener, NULL, NULL);

    must(socket);
    must(exs_blocking_close(socket));
    return NULL;
}

/* The descriptors that a failed blocking call has opened are closed when it returns. The socket can be used
 * again. */
START_TEST(failed_connects_keep_nothing)
{
    struct pair pair;
    int keep, socket, listener;
    struct address nobody = refusing_address(&keep), there;
    char byte;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    pair_close_blocking(&pair);
    int before = count_fds(); /* including those that the service thread and the device keep open */

    must(socket = exs_socket(PF_INET, SOCK_STREAM, 0));
    for (int i = 0; i < 3; i++) {
        must_fail(exs_blocking_connect(socket, SA(&nobody), nobody.length), ECONNREFUSED);
        ck_assert_int_eq(count_fds(), before + 1);
        must_fail(exs_blocking_connect(socket, SA(&nobody), nobody.length - 1), EINVAL);
    }
    listener = open_listener(AF_INET, SOCK_STREAM, 1, &there);
    pthread_t thread = thread_start(accept_and_close, &listener);
    must(exs_blocking_connect(socket, SA(&there), there.length));
    ck_assert_int_eq(exs_read(socket, &byte, 1), 0);
    thread_join(thread);
    must(exs_blocking_close(listener));
    must(exs_blocking_close(socket));
    ck_assert_int_eq(count_fds(), before);
    close(keep);
}
END_TEST

/* ---- No descriptor for a connection ---------------------------------------------------------------- */

static void connect_twice(int fd, void *arg)
{
    struct address address;
    int socket;

    (void)arg;
    init_library();
    hear(fd, &address, sizeof address);
    must(socket = exs_socket(PF_INET, SOCK_STREAM, 0));
    must_fail(exs_blocking_connect(socket, SA(&address), address.length), ECONNREFUSED);
    tell(fd, "", 1);
    must(exs_blocking_connect(socket, SA(&address), address.length));
    must(exs_blocking_close(socket));
}

/* The connection is refused, with a log line. The accept stays pending and returns the next connection. */
START_TEST(a_connection_is_refused)
{
    static exs_acceptaddr_t wanted;
    struct inbox box;
    struct child child;
    struct address address;
    FILE *said = tmpfile();
    char line[512] = "", done;

    ck_assert_ptr_nonnull(said);
    child_start(&child, connect_twice, NULL);
    must(setenv("EXS_DEBUG", "1", 1));
    limited();
    inbox_open(&box, 4);
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    exs_pollfd_t here = {.exs_fd = listener, .exs_events = EXS_POLLIN};

    tell(child.fd, &address, sizeof address);
    /* the request has arrived and waits */
    ck_assert_int_eq(exs_poll(&here, 1, EXS_BLOCK, NULL, NULL, NULL), 1);
    exhaust();
    must(dup2(fileno(said), STDERR_FILENO));
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    inbox_quiet(&box, 0);
    hear(child.fd, &done, 1);
    rewind(said);
    if (!on_rdma()) { /* there the queue needs no other descriptor */
        ck_assert_ptr_nonnull(fgets(line, sizeof line, said));
        ck_assert_str_eq(
            line, "exs: no descriptor is left for a queue to watch a connection: it polls the connection "
                  "10 times a second\n");
    }
    ck_assert_ptr_nonnull(fgets(line, sizeof line, said));
    ck_assert_str_eq(line, "exs: refused a connection: Too many open files\n");
    ck_assert_ptr_null(fgets(line, sizeof line, said));
    release();
    exs_event_t event = take_good(&box, EXS_EVT_ACCEPT, listener);
    must(exs_blocking_close(event.exs_evt_union.exs_evt_accept.exs_evt_newsocket));
    close_socket(&box, listener);
    inbox_close(&box);
    child_join(&child);
}
END_TEST

/* ---- Memory ---------------------------------------------------------------------------------------- */

static void *no_memory(void *pointer, long size)
{
    ck_assert_msg(size == 0, "libev is asked for %ld bytes", size);
    free(pointer);
    return NULL;
}

/* libev ends the process if it gets no memory. Blocking calls must therefore not use libev. */
START_TEST(blocking_calls_need_no_libev)
{
    const struct timeval moment = {.tv_usec = 1};
    struct pair pair;
    struct inbox box;
    exs_event_t event;

    ev_set_allocator(no_memory);
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    pair_close_blocking(&pair);
    inbox_open(&box, 1);
    ck_assert_int_eq(exs_qdequeue(box.queue, &event, 1, &moment), 0);
    inbox_close(&box);
}
END_TEST

#define LARGE (64 * KIB) /* bytes; registered, not copied */

/* The error for RLIMIT_MEMLOCK is ENOMEM, also if the limit is 0, where the kernel says EPERM. */
START_TEST(memory_that_may_not_be_pinned)
{
    const rlim_t limits[] = {0, 4096};
    struct rlimit before;
    struct pair pair;
    char *bytes = new_buffer(LARGE);

    memlock_count();
    must(getrlimit(RLIMIT_MEMLOCK, &before));
    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < COUNT(limits) && on_rdma(); i++) { /* the software device pins no memory */
        struct rlimit less = {.rlim_cur = limits[i], .rlim_max = before.rlim_max};

        must(setrlimit(RLIMIT_MEMLOCK, &less));
        must_fail(exs_send(pair.client, bytes, LARGE, 0, pair.client_box->queue, NULL, NULL), ENOMEM);
        must(setrlimit(RLIMIT_MEMLOCK, &before));
    }
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, LARGE, 1);
    pair_close(&pair);
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shortage");
    TCase *descriptors = add_bare_case(suite, "descriptors", 30);

    tcase_add_checked_fixture(descriptors, limited, NULL);
    tcase_add_loop_test(descriptors, sockets_without_a_peer, 0, WAYS);
    tcase_add_test(descriptors, connections);
    tcase_add_test(descriptors, connections_closed_by_blocking_calls);
    tcase_add_test(descriptors, connections_of_blocking_calls);
    tcase_add_test(descriptors, connections_of_blocking_calls_closed_by_a_loop);
    tcase_add_test(descriptors, connections_of_blocking_calls_used_by_a_loop);
    tcase_add_test(descriptors, what_needs_one_fails);
    tcase_add_test(descriptors, bound_afterwards);
    tcase_add_test(add_case(suite, "keeping", 30), failed_connects_keep_nothing);
    tcase_add_test(add_bare_case(suite, "refusing", 30), a_connection_is_refused);
    tcase_add_test(add_case(suite, "memory", 30), blocking_calls_need_no_libev);
    tcase_add_test(add_case(suite, "memlock", 30), memory_that_may_not_be_pinned);
    return run_suite(suite);
}
