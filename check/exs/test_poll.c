/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_poll.c - exs_poll with an event: sockets and ordinary descriptors together, on queues of every kind;
 * what ends a poll, and which calls fail. test_poll_blocking.c tests blocking polls, and test_poll_meanwhile.c
 * sockets that are closed at the same time.
 */
#include "check/exs/polled.h"
#include "check/support/asleep.h"

#include <stdatomic.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/resource.h>

/* ---- An epoll that fails --------------------------------------------------------------------- */

/* epoll_wait() on this epoll instance, one of the library's, always fails with EINTR; -1: on none */
static atomic_int failing_epoll = -1;

__attribute__((visibility("default"))) int epoll_wait(int epoll, struct epoll_event *events, int most,
                                                      int limit)
{
    int (*own)(int, struct epoll_event *, int, int);

    *(void **)&own = dlsym(RTLD_NEXT, "epoll_wait");
    if (epoll != failing_epoll)
        return own(epoll, events, most, limit);
    errno = EINTR;
    return -1;
}

/* ---- Helpers --------------------------------------------------------------------------------- */

static void begin_poll(struct inbox *box, exs_pollfd_t *fds, int count, const struct timeval *timeout)
{
    must(exs_poll(fds, count, 0, timeout, box->queue, fds));
}

static void take_poll(struct inbox *box, exs_pollfd_t *fds, int count, int ready)
{
    exs_event_t event = take_good(box, EXS_EVT_POLL, -1);

    ck_assert_ptr_eq(event.exs_evt_ahandle, fds);
    ck_assert_ptr_eq(event.exs_evt_union.exs_evt_poll.exs_evt_pollfds, fds);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_poll.exs_evt_pollfd_cnt, count);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_poll.exs_evt_ready, ready);
}

/* ---- With an event --------------------------------------------------------------------------- */

/* Polls two sockets and a pipe on one queue. Each poll ends once, when the first of them is ready. */
START_TEST(event)
{
    struct inbox box;
    struct pair a, b;
    int ends[2];
    char in[10];

    inbox_open(&box, 16);
    pair_open_on(&a, AF_INET, SOCK_STREAM, &box, &box);
    pair_open_on(&b, AF_INET, SOCK_STREAM, &box, &box);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    exs_pollfd_t fds[] = {{.exs_fd = a.server, .exs_events = EXS_POLLIN},
                          {.exs_fd = b.server, .exs_events = EXS_POLLIN},
                          {.exs_fd = ends[0], .exs_events = EXS_POLLIN},
                          {.exs_fd = ends[0]}}; /* the same descriptor without requested events */

    for (int round = 0; round < 6; round++) {
        int which = round % 3;

        begin_poll(&box, fds, 4, NULL);
        inbox_quiet(&box, QUIET_MS);
        if (which == 2)
            ck_assert_int_eq(write(ends[1], "x", 1), 1);
        else
            must(exs_send((which ? &b : &a)->client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
        take_poll(&box, fds, 4, 1);
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(fds[i].exs_revents, i == which ? EXS_POLLIN : 0);
        begin_poll(&box, fds, 4, NULL); /* it is still ready */
        take_poll(&box, fds, 4, 1);
        if (which == 2)
            ck_assert_int_eq(read(ends[0], in, 1), 1);
        else
            ck_assert_int_eq(exs_blocking_recv(fds[which].exs_fd, in, 1, 0, NULL), 1);
        inbox_quiet(&box, 0);
    }
    close(ends[0]);
    close(ends[1]);
    pair_close(&a);
    pair_close(&b);
    inbox_close(&box);
}
END_TEST

/* The array may be longer than the limit on descriptors, and may name one descriptor as often. */
START_TEST(more_than_descriptors)
{
    const struct rlimit few = {.rlim_cur = 100, .rlim_max = 100};
    enum { MANY = 300, ASKING = MANY - 50 };
    exs_pollfd_t fds[MANY];
    struct inbox box;
    int ends[2];

    inbox_open(&box, 1);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int i = 0; i < MANY; i++)
        fds[i] = (exs_pollfd_t){.exs_fd = _i == 0 && i < ASKING ? -1 : ends[0]};
    fds[ASKING].exs_events = EXS_POLLIN;
    ck_assert_int_eq(exs_poll(fds, MANY, EXS_BLOCK, &shortly, NULL, NULL), 0);
    begin_poll(&box, fds, MANY, NULL);
    inbox_quiet(&box, QUIET_MS);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    take_poll(&box, fds, MANY, 1);
    ck_assert_int_eq(fds[ASKING].exs_revents, EXS_POLLIN);
    ck_assert_int_eq(exs_poll(fds, MANY, EXS_BLOCK, NULL, NULL, NULL), 1);
    close(ends[0]);
    close(ends[1]);
    inbox_close(&box);
}
END_TEST

/* A poll of a socket of another queue completes although the polling queue's epoll_wait() fails and cannot say
 * which queue is ready. */
START_TEST(failing)
{
    struct inbox box;
    struct pair pair;

    inbox_open(&box, 1);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_pollfd_t fd = {.exs_fd = pair.server, .exs_events = EXS_POLLIN};

    begin_poll(&box, &fd, 1, NULL);
    failing_epoll = exs_qfd(box.queue);
    must(exs_send(pair.client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    take_poll(&box, &fd, 1, 1);
    ck_assert_int_eq(fd.exs_revents, EXS_POLLIN);
    failing_epoll = -1;
    pair_close(&pair);
    inbox_close(&box);
}
END_TEST

/* A queue cannot poll its own descriptor; another queue can, like any descriptor. */
START_TEST(of_a_queue)
{
    struct inbox other;
    struct pair pair;

    inbox_open(&other, 1);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_pollfd_t fd = {.exs_fd = exs_qfd(pair.server_box->queue), .exs_events = EXS_POLLIN};

    must_fail(exs_poll(&fd, 1, 0, NULL, pair.server_box->queue, NULL), ELOOP);
    inbox_quiet(pair.server_box, 0);
    begin_poll(&other, &fd, 1, NULL);
    inbox_quiet(&other, QUIET_MS);
    must(exs_send(pair.client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    take_poll(&other, &fd, 1, 1);
    pair_close(&pair);
    inbox_close(&other);
}
END_TEST

/* A timeout ends a poll with an event that names nothing ready. Then the queue is idle and can be deleted. */
START_TEST(time_is_over)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_pollfd_t fds[] = {{.exs_fd = pair.server, .exs_events = EXS_POLLIN}};

    double start = seconds_now();
    begin_poll(pair.client_box, fds, 1, &shortly);
    must_fail(exs_qdelete(pair.client_box->queue), EBUSY);
    take_poll(pair.client_box, fds, 1, 0);
    ck_assert(seconds_now() - start >= SHORT_US / 1e6 && seconds_now() - start < SHORT_US / 1e6 + 5 * LATE_S);
    ck_assert_int_eq(fds[0].exs_revents, 0);
    begin_poll(pair.client_box, fds, 1, &at_once);
    take_poll(pair.client_box, fds, 1, 0);
    pair_close(&pair);
}
END_TEST

/* Several polls on another queue than the socket's. What happens after a poll has ended does not change its
 * array. */
START_TEST(elsewhere)
{
    struct inbox box;
    struct pair pair;

    inbox_open(&box, 1);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_pollfd_t in = {.exs_fd = pair.server, .exs_events = EXS_POLLIN}, out = in, both[2] = {in, in};

    out.exs_events = EXS_POLLIN | EXS_POLLOUT;
    both[1].exs_fd = pair.client;
    begin_poll(&box, &in, 1, NULL);
    begin_poll(&box, both, 2, NULL);
    begin_poll(&box, &out, 1, NULL);
    take_poll(&box, &out, 1, 1);
    ck_assert_int_eq(out.exs_revents, EXS_POLLOUT);
    inbox_quiet(&box, QUIET_MS);
    must(exs_send(pair.server, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    take_poll(&box, both, 2, 1);
    ck_assert_int_eq(both[1].exs_revents, EXS_POLLIN);
    memset(both, CANARY, sizeof both); /* the event has arrived: the array is the caller's again */
    must(exs_send(pair.client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    take_poll(&box, &in, 1, 1);
    inbox_quiet(&box, QUIET_MS);
    same_bytes(both, sizeof both, CANARY);
    pair_close(&pair);
    inbox_close(&box);
}
END_TEST

/* A poll reports a connection that is established, one that is refused, and one that ends. */
START_TEST(connections)
{
    int keep, server, client, other = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct address nobody = refusing_address(&keep), address;
    int listener = open_listener(AF_INET, SOCK_STREAM, 5, &address);
    struct inbox box;
    exs_acceptaddr_t element = {0};

    inbox_open(&box, 8);
    client = exs_socket(PF_INET, SOCK_STREAM, 0);
    exs_pollfd_t fds[] = {{.exs_fd = client, .exs_events = EXS_POLLOUT},
                          {.exs_fd = listener, .exs_events = EXS_POLLIN},
                          {.exs_fd = other, .exs_events = EXS_POLLOUT}};
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    ck_assert_int_eq(ready_now(client, EXS_POLLOUT), 0);
    begin_poll(&box, fds, 2, NULL);
    take_poll(&box, fds, 2, 1);
    ck_assert_int_eq(fds[1].exs_revents, EXS_POLLIN);
    begin_poll(&box, fds, 1, NULL);
    must(exs_accept(listener, &element, 1, 0, box.queue));
    server = take_good(&box, EXS_EVT_ACCEPT, listener).exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    take_good(&box, EXS_EVT_CONNECT, client);
    take_poll(&box, fds, 1, 1);
    ck_assert_int_eq(fds[0].exs_revents, EXS_POLLOUT);
    must(exs_connect(other, SA(&nobody), nobody.length, 0, NULL, box.queue, NULL));
    begin_poll(&box, &fds[2], 1, NULL);
    take_failed(&box, EXS_EVT_CONNECT, other, ECONNREFUSED);
    take_poll(&box, &fds[2], 1, 1);
    ck_assert_int_eq(fds[2].exs_revents, EXS_POLLOUT | EXS_POLLHUP);

    fds[0].exs_events = EXS_POLLIN;
    begin_poll(&box, fds, 1, NULL);
    must(exs_send(server, "x", 1, 0, box.queue, NULL, NULL));
    take_good(&box, EXS_EVT_SEND, server);
    take_poll(&box, fds, 1, 1);
    close_socket(&box, server);
    do { /* an orderly close is no error; then the peer is gone */
        ck_assert_int_eq(ready_now(client, EXS_POLLIN) & ~EXS_POLLHUP, EXS_POLLIN);
    } while (ready_now(client, EXS_POLLIN) != (EXS_POLLIN | EXS_POLLHUP));
    close_socket(&box, client);
    close_socket(&box, other);
    must(exs_blocking_close(listener));
    inbox_close(&box);
    close(keep);
}
END_TEST

/* As many queues accept as may watch a listener. The poll's queue is notified all the same. */
START_TEST(among_accepts)
{
    struct inbox box, others[8], client_box;
    exs_acceptaddr_t elements[COUNT(others)] = {0};
    struct address address;
    int client, listener = open_listener(AF_INET, SOCK_STREAM, 5, &address);
    exs_pollfd_t fd = {.exs_fd = listener, .exs_events = EXS_POLLIN};

    inbox_open(&box, 1);
    inbox_open(&client_box, 2);
    box.beside = &client_box;
    begin_poll(&box, &fd, 1, NULL);
    for (int i = 0; i < COUNT(others); i++) {
        inbox_open(&others[i], 1);
        must(exs_accept(listener, &elements[i], 1, 0, others[i].queue));
    }
    ck_assert_int_eq(exs_cancel(listener, NULL, 0), COUNT(others));
    for (int i = 0; i < COUNT(others); i++) {
        take_failed(&others[i], EXS_EVT_ACCEPT, listener, ECANCELED);
        inbox_close(&others[i]);
    }
    must(client = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_connect(client, SA(&address), address.length, 0, NULL, client_box.queue, NULL));
    take_poll(&box, &fd, 1, 1);
    ck_assert_int_eq(fd.exs_revents, EXS_POLLIN);
    must(exs_blocking_close(listener));
    box.beside = NULL;
    take_failed(&client_box, EXS_EVT_CONNECT, client, ECONNREFUSED);
    close_socket(&client_box, client);
    inbox_close(&client_box);
    inbox_close(&box);
}
END_TEST

/* A poll ends when the connection breaks, even if it requests no events. */
START_TEST(broken)
{
    uint8_t *out = new_buffer(LENGTH);
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_pollfd_t fd = {.exs_fd = pair.server};

    begin_poll(pair.server_box, &fd, 1, NULL);
    must(exs_send(pair.client, out, LENGTH, 0, pair.client_box->queue, NULL, NULL));
    inbox_quiet(pair.server_box, QUIET_MS);
    ck_assert_int_eq(ready_now(pair.client, EXS_POLLOUT), 0);
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    ck_assert_int_eq(ready_now(pair.client, EXS_POLLOUT), EXS_POLLOUT); /* a send fails with EPIPE */
    must(exs_close(pair.client, 0, pair.client_box->queue, NULL));      /* while the shutdown waits */
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
    take_failed(pair.client_box, EXS_EVT_SHUTDOWN, pair.client, ECANCELED);
    take_poll(pair.server_box, &fd, 1, 1);
    ck_assert_int_eq(fd.exs_revents, EXS_POLLERR | EXS_POLLHUP);
    while (exs_blocking_recv(pair.server, out, LENGTH, MSG_DONTWAIT, NULL) > 0)
        ;
    ck_assert_int_eq(ready_now(pair.server, EXS_POLLIN), EXS_POLLIN | EXS_POLLERR | EXS_POLLHUP);
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
    free(out);
}
END_TEST

/* Both directions are shut down by this end only. */
START_TEST(shut_down)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_shutdown(pair.server, SHUT_RD, 0, pair.server_box->queue, NULL));
    take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    ck_assert_int_eq(ready_now(pair.server, EXS_POLLIN), EXS_POLLIN);
    must(exs_shutdown(pair.server, SHUT_WR, 0, pair.server_box->queue, NULL));
    take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    ck_assert_int_eq(ready_now(pair.server, EXS_POLLIN), EXS_POLLIN | EXS_POLLHUP);
    close_socket(pair.server_box, pair.server);
    close_socket(pair.client_box, pair.client);
    pair_close_rest(&pair);
}
END_TEST

/* A poll can be cancelled through any of its sockets, and the close of one of them ends it. */
START_TEST(ended)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_pollfd_t fds[] = {{.exs_fd = pair.server, .exs_events = EXS_POLLIN},
                          {.exs_fd = pair.client, .exs_events = EXS_POLLIN},
                          {.exs_fd = pair.server, .exs_events = EXS_POLLIN}};

    begin_poll(pair.server_box, fds, 3, NULL);
    ck_assert_int_eq(exs_cancel(pair.server, &pair, 0), 0);
    ck_assert_int_eq(exs_cancel(pair.server, fds, 0), 1);
    take_failed(pair.server_box, EXS_EVT_POLL, -1, ECANCELED);
    begin_poll(pair.server_box, fds, 3, NULL);
    ck_assert_int_eq(exs_cancel(pair.client, NULL, EXS_CANCEL_ALL), 1);
    take_failed(pair.server_box, EXS_EVT_POLL, -1, ECANCELED);
    begin_poll(pair.server_box, fds, 3, NULL);
    must(exs_close(pair.client, 0, pair.client_box->queue, NULL));
    ck_assert_int_eq(ready_now(pair.client, EXS_POLLIN), EXS_POLLNVAL); /* also while the close is pending */
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    take_poll(pair.server_box, fds, 3, 1);
    ck_assert_int_eq(fds[1].exs_revents, EXS_POLLNVAL);
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
}
END_TEST

/* A cancelled blocking poll fails and does not report a timeout. */
static void *poll_to_be_cancelled(void *argument)
{
    struct sleeping *sleeping = argument;
    exs_pollfd_t fd = {.exs_fd = sleeping->end, .exs_events = EXS_POLLIN};

    sleeping->tid = gettid();
    must_fail(exs_poll(&fd, 1, EXS_BLOCK, NULL, NULL, NULL), ECANCELED);
    return NULL;
}

START_TEST(cancelled_call)
{
    struct sleeping sleeping = {0};
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    sleeping.end = pair.server;
    pthread_t thread = thread_start(poll_to_be_cancelled, &sleeping);
    await_sleep(&sleeping.tid);
    ck_assert_int_eq(exs_cancel(pair.server, NULL, EXS_CANCEL_ALL), 1);
    thread_join(thread);
    pair_close(&pair);
}
END_TEST

/* A poll that has ended is removed from all its sockets, also from those that were not ready. */
START_TEST(many_polls)
{
    struct pair pair;
    size_t before = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_pollfd_t fds[] = {{.exs_fd = pair.server, .exs_events = EXS_POLLIN},
                          {.exs_fd = pair.client, .exs_events = EXS_POLLIN}};

    for (int i = 0; i < 20000; i++) {
        if (i == 1000)
            before = mallinfo2().uordblks;
        begin_poll(pair.server_box, fds, 2, NULL);
        ck_assert_int_eq(exs_cancel(pair.client, fds, 0), 1);
        take_failed(pair.server_box, EXS_EVT_POLL, -1, ECANCELED);
    }
    /* Counts malloc's bytes, which a sanitizer's allocator does not report. The resident size is no measure,
     * because the kernel may replace small pages by a huge one. */
    ck_assert_int_lt((long long)(mallinfo2().uordblks - before), 100000);
    pair_close(&pair);
}
END_TEST

/* A message waits at its sender until a receive is posted. A SEQPACKET socket is therefore writable when the
 * peer has posted a receive, and readable only at the end of stream. */
START_TEST(messages)
{
    struct pair pair;
    char in[10];

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    ck_assert_int_eq(ready_now(pair.client, EXS_POLLIN | EXS_POLLOUT), 0);
    must(exs_recv(pair.server, in, sizeof in, 0, pair.server_box->queue, NULL, NULL));
    becomes_ready(pair.client, EXS_POLLOUT, EXS_POLLOUT);
    ck_assert_int_eq(exs_blocking_send(pair.client, "abc", 3, MSG_DONTWAIT, NULL), 3);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    must(exs_shutdown(pair.client, SHUT_WR, EXS_BLOCK, NULL, NULL));
    becomes_ready(pair.server, EXS_POLLIN, EXS_POLLIN);
    pair_close(&pair);
}
END_TEST

/* Several threads poll one socket and receive without blocking. Each of them sees the end of stream. */
static void *take_some(void *argument)
{
    int socket = *(const int *)argument;
    long taken = 0, got = -1;
    char in[3];

    while (got != 0) {
        becomes_ready(socket, EXS_POLLIN, EXS_POLLIN);
        got = exs_blocking_recv(socket, in, sizeof in, MSG_DONTWAIT, NULL);
        if (got < 0)
            ck_assert_int_eq(errno, EAGAIN); /* another thread got the data first */
        else
            taken += got;
    }
    return (void *)taken;
}

START_TEST(threads)
{
    enum { THREADS = 4, BYTES = 300 };
    pthread_t thread[THREADS];
    struct pair pair;
    long taken = 0;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < THREADS; i++)
        thread[i] = thread_start(take_some, &pair.server);
    for (int i = 0; i < BYTES; i++)
        ck_assert_int_eq(exs_blocking_send(pair.client, "x", 1, 0, NULL), 1);
    must(exs_shutdown(pair.client, SHUT_WR, EXS_BLOCK, NULL, NULL));
    for (int i = 0; i < THREADS; i++) {
        void *result;

        ck_assert_int_eq(pthread_join(thread[i], &result), 0);
        taken += (long)result;
    }
    ck_assert_int_eq(taken, BYTES);
    pair_close_blocking(&pair);
}
END_TEST

/* ---- Calls that fail ------------------------------------------------------------------------- */

START_TEST(refused)
{
    const struct timeval bad = {.tv_usec = 1000000};
    exs_pollfd_t fd = {.exs_fd = -1};
    struct inbox box;

    inbox_open(&box, 1);
    must_fail(exs_poll(NULL, 1, EXS_BLOCK, &at_once, NULL, NULL), EINVAL);
    must_fail(exs_poll(&fd, 0, EXS_BLOCK, &at_once, NULL, NULL), EINVAL);
    must_fail(exs_poll(&fd, EXS_POLLFD_MAX + 1, EXS_BLOCK, &at_once, NULL, NULL), EINVAL);
    must_fail(exs_poll(&fd, 1, EXS_BLOCK | 2, &at_once, NULL, NULL), EINVAL);
    must_fail(exs_poll(&fd, 1, EXS_BLOCK, &bad, NULL, NULL), EINVAL);
    must_fail(exs_poll(&fd, 1, 0, &at_once, NULL, NULL), EINVAL);
    must_fail(exs_poll(&fd, 1, 0, &at_once, EXS_QHANDLE_INVALID, NULL), EINVAL);
    must_fail(exs_poll(&fd, 1, EXS_BLOCK, &at_once, EXS_QHANDLE_INVALID, NULL), EINVAL);
    fd.exs_fd = exs_qfd(box.queue);
    ck_assert_int_eq(exs_poll(&fd, 1, EXS_BLOCK, &at_once, box.queue, NULL), 0);
    inbox_close(&box);
}
END_TEST

/* Polls of ordinary descriptors without a timeout are cancelled by one of these, by their ahandle or all at
 * once. Other polls stay. */
START_TEST(cancelled_by_a_pipe)
{
    struct inbox boxes[2];
    int ends[2], null = open("/dev/zero", O_RDONLY | O_CLOEXEC);

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    exs_pollfd_t fds[3][2] = {{{.exs_fd = -1}, {.exs_fd = ends[0], .exs_events = EXS_POLLIN}},
                              {{.exs_fd = null}, {.exs_fd = ends[0], .exs_events = EXS_POLLIN}},
                              {{.exs_fd = null}, {.exs_fd = -1}}};

    for (int i = 0; i < 2; i++)
        inbox_open(&boxes[i], 4);
    for (int i = 0; i < 3; i++)
        must(exs_poll(fds[i], 2, 0, NULL, boxes[i % 2].queue, fds[i]));
    must_fail(exs_cancel(ends[0], boxes, 0), EBADF);
    must_fail(exs_cancel(-1, NULL, EXS_CANCEL_ALL), EBADF);
    ck_assert_int_eq(exs_cancel(ends[0], fds[1], 0), 1);
    take_failed(&boxes[1], EXS_EVT_POLL, -1, ECANCELED);
    ck_assert_int_eq(exs_cancel(ends[0], NULL, EXS_CANCEL_ALL), 1);
    take_failed(&boxes[0], EXS_EVT_POLL, -1, ECANCELED);
    inbox_quiet(&boxes[0], QUIET_MS);
    ck_assert_int_eq(exs_cancel(null, fds[2], 0), 1);
    take_failed(&boxes[0], EXS_EVT_POLL, -1, ECANCELED);
    must_fail(exs_cancel(null, NULL, EXS_CANCEL_ALL), EBADF);
    for (int i = 0; i < 2; i++) {
        inbox_close(&boxes[i]);
        close(ends[i]);
    }
    close(null);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("poll");
    TCase *tcase = add_case(suite, "poll", 20);

    tcase_add_test(tcase, event);
    tcase_add_loop_test(tcase, more_than_descriptors, 0, 2);
    tcase_add_test(tcase, failing);
    tcase_add_test(tcase, of_a_queue);
    tcase_add_test(tcase, time_is_over);
    tcase_add_test(tcase, elsewhere);
    tcase_add_test(tcase, connections);
    tcase_add_test(tcase, among_accepts);
    tcase_add_test(tcase, broken);
    tcase_add_test(tcase, shut_down);
    tcase_add_test(tcase, ended);
    tcase_add_test(tcase, cancelled_call);
    tcase_add_test(tcase, cancelled_by_a_pipe);
    tcase_add_test(tcase, many_polls);
    tcase_add_test(tcase, messages);
    tcase_add_test(tcase, threads);
    tcase_add_test(tcase, refused);
    return run_suite(suite);
}
