/* SPDX-License-Identifier: BSD-2-Clause */
/* test_many.c - many queues that accept on one listener: the number of queues that watch it stays constant. */
#include "check/support/support.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include "core/base/clock.h"
#include "core/conn/conn.h"
#include "core/api/core.h"
#include "core/queue/queue.h"
#include "core/sock/sock.h"

enum {
    QUEUES = 1000,
    WATCHERS = 8, /* most queues that watch a listener; a connection wakes one more, whose accept completed */
    IN_LINE = 4,  /* queues on the listener's standby list */
    SERVED = 100, /* connections that are accepted from these queues */
    THREADS = 40,
    EACH = 4,
};

static struct address address;
static int listener;

static void begin(void)
{
    struct rlimit limit, more = {8 * QUEUES, 8 * QUEUES}; /* only root may raise the hard limit */

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_max >= more.rlim_max || setrlimit(RLIMIT_NOFILE, &more) != 0)
        setrlimit(RLIMIT_NOFILE, &limit);
    init_library();
    listener = open_listener(AF_INET, SOCK_STREAM, 64, &address);
}

static void *connect_one(void *arg)
{
    int *sock = arg;

    must(*sock = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_blocking_connect(*sock, SA(&address), address.length));
    return NULL;
}

static struct queue *home_of(int number)
{
    struct sock *sock = xs_sock_get(number);
    struct queue *home = atomic_load(&sock->home);

    xs_sock_put(sock);
    return home;
}

/* An event loop, as the kernel sees it: an epoll instance that watches a queue. */
struct loop {
    exs_qhandle_t queue;
    int epoll;
    exs_acceptaddr_t wanted;
};

static void loop_accept(struct loop *loop, int flags)
{
    loop->wanted = (exs_acceptaddr_t){.exs_ahandle = loop};
    must(exs_accept(listener, &loop->wanted, 1, flags, loop->queue));
}

static void loop_open(struct loop *loop, int flags)
{
    struct epoll_event event = {.events = EPOLLIN};

    loop->queue = exs_qcreate(1);
    ck_assert_ptr_ne(loop->queue, EXS_QHANDLE_INVALID);
    must(loop->epoll = epoll_create1(EPOLL_CLOEXEC));
    must(epoll_ctl(loop->epoll, EPOLL_CTL_ADD, exs_qfd(loop->queue), &event));
    loop_accept(loop, flags);
}

static void loop_close(struct loop *loop)
{
    close(loop->epoll);
    must(exs_qdelete(loop->queue));
}

/* Waits for the next accept's event. Returns the new socket, or -1 with the event's error in *error; fails
 * after WAIT_MS. */
static int loop_wait(struct loop *loop, int *error)
{
    struct epoll_event ready;
    exs_event_t event;

    for (double end = seconds_now() + WAIT_MS / 1e3; seconds_now() < end;) {
        if (epoll_wait(loop->epoll, &ready, 1, 1000) < 1 ||
            exs_qdequeue(loop->queue, &event, 1, &(struct timeval){0, 0}) < 1)
            continue;
        ck_assert_int_eq(event.exs_evt_type, EXS_EVT_ACCEPT);
        *error = event.exs_evt_errno;
        return event.exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    }
    ck_abort_msg("no event");
}

static void loop_close_socket(struct loop *loop, int sock)
{
    exs_event_t event;

    must(exs_close(sock, 0, loop->queue, NULL));
    ck_assert_int_eq(exs_qdequeue(loop->queue, &event, 1, NULL), 1);
    ck_assert_int_eq(event.exs_evt_type, EXS_EVT_CLOSE);
}

/* Returns whether the loop's standby timer has expired: then the timer has woken the loop, not a connection. */
static bool is_to_look(const struct loop *loop)
{
    struct queue *queue = xs_queue_get(loop->queue);

    mutex_lock(&queue->events.lock);
    bool is_due = queue->attached.poll_timer.at <= now_ns();

    mutex_unlock(&queue->events.lock);
    xs_queue_put(queue);
    return is_due;
}

/* Waits for the loop that gets the event. A connection wakes only a few other loops. */
static struct loop *next_loop(struct loop *loops, exs_event_t *event)
{
    static struct pollfd wait[QUEUES];

    for (double end = seconds_now() + WAIT_MS / 1e3; seconds_now() < end;) {
        for (int i = 0; i < QUEUES; i++)
            wait[i] = (struct pollfd){.fd = loops[i].epoll, .events = POLLIN};
        int ready = poll(wait, QUEUES, 1000);

        for (int i = 0; i < QUEUES; i++)
            ready -= wait[i].revents != 0 && is_to_look(&loops[i]);
        ck_assert_msg(ready <= WATCHERS + 1, "a connection wakes %d loops", ready);
        for (int i = 0; i < QUEUES; i++)
            if (wait[i].revents != 0 && exs_qdequeue(loops[i].queue, event, 1, &(struct timeval){0, 0}) == 1)
                return &loops[i];
    }
    ck_abort_msg("no loop gets the connection");
}

static void expect_cancelled(struct loop *loop)
{
    exs_event_t event;

    ck_assert_int_eq(exs_qdequeue(loop->queue, &event, 1, &(struct timeval){0, 0}), 1);
    ck_assert_int_eq(event.exs_evt_type, EXS_EVT_ACCEPT);
    ck_assert_int_eq(event.exs_evt_errno, ECANCELED);
}

/* Each queue accepts one connection, in the order of the accepts. Queues are deleted, and new ones accept, in
 * between. */
START_TEST(thousand_queues)
{
    static struct loop loops[QUEUES];

    begin();
    for (int i = 0; i < QUEUES; i++)
        loop_open(&loops[i], 0);
    for (int i = 0; i < SERVED; i++) {
        exs_event_t event;
        int client;
        pthread_t thread = thread_start(connect_one, &client);
        struct loop *loop = next_loop(loops, &event);

        thread_join(thread);
        ck_assert_int_eq(event.exs_evt_type, EXS_EVT_ACCEPT);
        ck_assert_int_eq(event.exs_evt_errno, 0);
        ck_assert_ptr_eq(loop, event.exs_evt_ahandle);
        ck_assert_msg(loop == &loops[i], "connection %d is loop %d's", i, (int)(loop - loops));
        loop_close_socket(loop, event.exs_evt_union.exs_evt_accept.exs_evt_newsocket);
        must(exs_blocking_close(client));
        if (i % 2 == 0) {
            loop_close(loop);
            loop_open(loop, 0);
        } else {
            loop_accept(loop, 0);
        }
    }
    must(exs_blocking_close(listener));
    for (int i = 0; i < QUEUES; i++) {
        expect_cancelled(&loops[i]);
        loop_close(&loops[i]);
    }
}
END_TEST

static void *serve(void *arg)
{
    struct loop *loop = arg;
    int error, sock;

    loop_open(loop, 0);
    for (int i = 0; i < EACH; i++) {
        sock = loop_wait(loop, &error);
        if (error != 0) {
            ck_assert_int_eq(error, ECANCELED);
            break;
        }
        loop_close_socket(loop, sock);
        if (i % 2 == 0)
            loop_accept(loop, 0);
        else if (i < EACH - 1) {
            loop_close(loop);
            loop_open(loop, 0);
        }
    }
    loop_close(loop);
    return NULL;
}

static void *connect_some(void *arg)
{
    (void)arg;
    for (int i = 0; i < THREADS * EACH / 4; i++) {
        int client;

        connect_one(&client);
        must(exs_blocking_close(client));
    }
    return NULL;
}

/* As many connections as all accepts of the threads together: each thread gets its connections, also the last
 * one. */
START_TEST(loops_of_threads)
{
    static struct loop loops[THREADS];
    pthread_t threads[THREADS], clients[4];

    begin();
    for (int i = 0; i < THREADS; i++)
        threads[i] = thread_start(serve, &loops[i]);
    for (int i = 0; i < COUNT(clients); i++)
        clients[i] = thread_start(connect_some, NULL);
    for (int i = 0; i < COUNT(clients); i++)
        thread_join(clients[i]);
    for (int i = 0; i < THREADS; i++)
        thread_join(threads[i]);
    must(exs_blocking_close(listener));
}
END_TEST

/* Returns the number of queues that are attached to the listener's owner. */
static int watchers(void)
{
    struct queue *home = home_of(listener);
    const struct attachment *guest;
    int count = 0;

    mutex_lock(&home->lock);
    LIST_FOREACH (guest, &home->hosts.list, of_home)
        count++;
    mutex_unlock(&home->lock);
    return count;
}

static bool stands_in_line(const struct loop *loop)
{
    struct queue *host = xs_queue_get(loop->queue), *home = home_of(listener);

    mutex_lock(&home->lock);
    const struct attachment *guest = xs_queue_attachment(host, home);
    bool on_standby = guest != NULL && guest->on_standby;

    mutex_unlock(&home->lock);
    xs_queue_put(host);
    return on_standby;
}

#define LINE_LOOK_S 0.1 /* the shortest interval of a standby queue's timer */

/* The loop wakes up without an event at most once in LINE_LOOK_S. */
static void expect_few_wakes(struct loop *loop)
{
    struct epoll_event ready;
    exs_event_t event;
    double start = seconds_now();
    int count = 0;

    while (seconds_now() < start + 3.5 * LINE_LOOK_S) {
        if (epoll_wait(loop->epoll, &ready, 1, QUIET_MS) < 1)
            continue;
        ck_assert_int_eq(exs_qdequeue(loop->queue, &event, 1, &(struct timeval){0, 0}), 0);
        count++;
    }
    double took = seconds_now() - start;

    ck_assert_msg(count <= (int)(took / LINE_LOOK_S) + 1, "it woke up %d times in %g s", count, took);
}

/* The queues that watch the listener are not polled. The standby queues do their work. */
START_TEST(busy_watchers)
{
    struct loop loops[WATCHERS + IN_LINE];
    int clients[COUNT(loops)], error, sock, on_standby = 0;
    pthread_t threads[COUNT(loops)];

    begin();
    for (int i = 0; i < COUNT(loops); i++)
        loop_open(&loops[i], _i == 0 ? 0 : EXS_MULTISHOT);
    for (int i = 0; i < COUNT(loops); i++)
        ck_assert_int_eq(stands_in_line(&loops[i]), i >= WATCHERS);
    for (int i = 0; i < COUNT(loops); i++)
        threads[i] = thread_start(connect_one, &clients[i]);
    for (int i = COUNT(loops) - 1; i >= 0; i--) { /* the standby queues first */
        sock = loop_wait(&loops[i], &error);
        ck_assert_int_eq(error, 0);
        loop_close_socket(&loops[i], sock);
    }
    for (int i = 0; i < COUNT(loops); i++) {
        thread_join(threads[i]);
        must(exs_blocking_close(clients[i]));
    }
    ck_assert_int_le(watchers(), WATCHERS);
    for (int i = 0; i < COUNT(loops); i++)
        if (stands_in_line(&loops[i]) && on_standby++ == 0)
            expect_few_wakes(&loops[i]);
    ck_assert_int_eq(on_standby, _i == 0 ? 0 : IN_LINE);
    must(exs_blocking_close(listener));
    for (int i = 0; i < COUNT(loops); i++) {
        if (_i != 0)
            expect_cancelled(&loops[i]);
        loop_close(&loops[i]);
    }
}
END_TEST

/* Accepts of standby queues also end at SO_RCVTIMEO. */
START_TEST(time_in_line)
{
    const struct timeval limit = {.tv_usec = 150000};
    struct loop loops[WATCHERS + IN_LINE];
    int error;

    begin();
    must(exs_setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    for (int i = 0; i < COUNT(loops); i++)
        loop_open(&loops[i], 0);
    double start = seconds_now();

    for (int i = COUNT(loops) - 1; i >= 0; i--) {
        ck_assert_int_eq(loop_wait(&loops[i], &error), -1);
        ck_assert_int_eq(error, ETIMEDOUT);
        loop_close(&loops[i]);
    }
    ck_assert(seconds_now() - start < 0.5 + LATE_S);
    must(exs_blocking_close(listener));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("many");
    TCase *tcase = add_bare_case(suite, "queues", 40);

    tcase_add_test(tcase, thousand_queues);
    tcase_add_test(tcase, loops_of_threads);
    tcase_add_loop_test(tcase, busy_watchers, 0, 2); /* one accept of each queue, or one multishot accept */
    tcase_add_test(tcase, time_in_line);
    return run_suite(suite);
}
