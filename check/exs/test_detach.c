/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_detach.c - an operation that names another queue attaches the socket's home queue to it, for as long as the
 * operation lasts and a little longer. Afterwards the socket's traffic no longer wakes that queue, and its descriptors
 * and its share of kernel limits are released.
 */
#include "check/support/support.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include "core/queue/queue.h"
#include "core/sock/sock.h"

enum {
    PACKETS = 50,
    KEPT_MS = 10, /* time for which a home queue stays attached after the last operation */
    ROUNDS = 100,
    MANY = 300,    /* queues, one after the other: more than the kernel lets watch one descriptor */
    LOOPS_MAX = 60 /* queues at the same time, each watched by an epoll set: more than the kernel allows */
};

static const struct timeval at_once = {0, 0};

static bool is_readable(exs_qhandle_t queue, int ms)
{
    struct pollfd wait = {.fd = exs_qfd(queue), .events = POLLIN};

    return poll(&wait, 1, ms) > 0;
}

/* What a loop does when it is woken. */
static void turn(exs_qhandle_t queue)
{
    exs_event_t event;

    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, &at_once), 0);
}

/* Runs the queue once after the time for which a home queue stays attached. */
static void let_go(exs_qhandle_t queue)
{
    const struct timeval kept = {.tv_usec = 2000 * KEPT_MS};
    exs_event_t event;

    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, &kept), 0);
}

/* Returns how often traffic of the pair wakes the queue, which has no operation on the pair. */
static int count_wakes(struct pair *pair, exs_qhandle_t queue)
{
    int wakes = 0;
    char byte;

    for (int i = 0; i < PACKETS; i++) {
        must(exs_recv(pair->server, &byte, 1, 0, pair->server_box->queue, NULL, NULL));
        must(exs_send(pair->client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
        if (is_readable(queue, 2)) {
            wakes++;
            turn(queue);
        }
        take_good(pair->server_box, EXS_EVT_RECV, pair->server);
    }
    return wakes;
}

static void receive_by(struct pair *pair, exs_qhandle_t queue)
{
    exs_event_t event;
    char byte;

    must(exs_recv(pair->server, &byte, 1, 0, queue, NULL, NULL));
    must(exs_send(pair->client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, NULL), 1);
    ck_assert_int_eq(event.exs_evt_errno, 0);
    ck_assert_int_eq(event.exs_evt_type, EXS_EVT_RECV);
    inbox_pump(pair->client_box, 0); /* receives credits, so that the client can send again */
}

static void poll_by(struct pair *pair, exs_qhandle_t queue)
{
    exs_pollfd_t fd = {.exs_fd = pair->server, .exs_events = EXS_POLLIN};
    exs_event_t event;
    char byte;

    must(exs_poll(&fd, 1, 0, NULL, queue, NULL));
    must(exs_send(pair->client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, NULL), 1);
    ck_assert_int_eq(event.exs_evt_type, EXS_EVT_POLL);
    must(exs_recv(pair->server, &byte, 1, 0, pair->server_box->queue, NULL, NULL));
    take_good(pair->server_box, EXS_EVT_RECV, pair->server);
}

static void cancel_by(struct pair *pair, exs_qhandle_t queue)
{
    exs_event_t event;
    char byte;

    must(exs_recv(pair->server, &byte, 1, 0, queue, &byte, NULL));
    ck_assert_int_eq(exs_cancel(pair->server, &byte, 0), 1);
    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, NULL), 1);
    ck_assert_int_eq(event.exs_evt_errno, ECANCELED);
}

static void (*const uses[])(struct pair *, exs_qhandle_t) = {receive_by, poll_by, cancel_by};

START_TEST(after_its_last_use)
{
    exs_qhandle_t queue = exs_qcreate(4);
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    ck_assert_int_eq(count_wakes(&pair, queue), 0);
    uses[_i](&pair, queue);
    let_go(queue);
    ck_assert_int_eq(count_wakes(&pair, queue), 0);
    must(exs_qdelete(queue));
    pair_close(&pair);
}
END_TEST

static const struct attachment *guest_at(exs_qhandle_t handle, int number)
{
    struct queue *queue = xs_queue_get(handle);
    struct sock *sock = xs_sock_get_locked(number);

    ck_assert_ptr_nonnull(queue);
    ck_assert_ptr_nonnull(sock);
    const struct attachment *guest = xs_queue_attachment(queue, atomic_load(&sock->home));

    xs_sock_put_locked(sock);
    xs_queue_put(queue);
    return guest;
}

/* Consecutive operations that name a second queue: the home queue is not detached and attached again for each one. */
START_TEST(kept_between_operations)
{
    exs_qhandle_t queue = exs_qcreate(4);
    struct pair pair;
    int changes = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    double start = seconds_now();
    const struct attachment *before = NULL;

    for (int i = 0; i < ROUNDS; i++) {
        receive_by(&pair, queue);
        const struct attachment *guest = guest_at(queue, pair.server);

        changes += guest != before;
        before = guest;
    }
    int most = 1 + (int)((seconds_now() - start) * 1000 / KEPT_MS);

    ck_assert_msg(changes <= most, "put on %d times in %d rounds", changes, ROUNDS);
    must(exs_qdelete(queue));
    pair_close(&pair);
}
END_TEST

/* ---- Descriptors and kernel limits ----------------------------------------------------------------- */

static void expect_byte(struct pair *pair)
{
    char byte;

    ck_assert_int_eq(exs_write(pair->client, "x", 1), 1);
    ck_assert_int_eq(exs_read(pair->server, &byte, 1), 1);
}

START_TEST(descriptors_of_a_blocking_poll)
{
    const struct timeval moment = {.tv_usec = 1000};
    exs_pollfd_t fd;
    struct pair pair;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    expect_byte(&pair);
    int before = count_fds();

    fd = (exs_pollfd_t){.exs_fd = pair.server, .exs_events = EXS_POLLIN};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(exs_poll(&fd, 1, EXS_BLOCK, &moment, NULL, NULL), 0);
        ck_assert_int_eq(count_fds(), before);
        expect_byte(&pair);
    }
    pair_close_blocking(&pair);
}
END_TEST

static bool has_sleeper(int number)
{
    struct sock *sock = xs_sock_get_locked(number);

    ck_assert_ptr_nonnull(sock);
    struct queue *home = atomic_load(&sock->home);

    mutex_lock(&home->events.lock);
    bool has = !LIST_EMPTY(&home->events.sleepers);

    mutex_unlock(&home->events.lock);
    xs_sock_put_locked(sock);
    return has;
}

static void *write_late(void *arg)
{
    struct pair *pair = arg;
    double end = seconds_now() + WAIT_MS / 1e3;

    while (!has_sleeper(pair->server)) {
        ck_assert(seconds_now() < end);
        sched_yield();
    }
    ck_assert_int_eq(exs_write(pair->client, "x", 1), 1);
    return NULL;
}

/* A thread sleeps on the same home queue while the other queue detaches from it. */
START_TEST(descriptors_below_a_sleeper)
{
    exs_qhandle_t queue = exs_qcreate(4);
    struct pair pair;
    char byte;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    expect_byte(&pair);
    int before = count_fds();
    exs_pollfd_t fd = {.exs_fd = pair.server, .exs_events = EXS_POLLIN};

    must(exs_poll(&fd, 1, 0, NULL, queue, &fd));
    ck_assert_int_gt(count_fds(), before);
    pthread_t thread = thread_start(write_late, &pair);

    ck_assert_int_eq(exs_read(pair.server, &byte, 1), 1);
    thread_join(thread);
    exs_event_t event;
    int taken = exs_qdequeue(queue, &event, 1, &at_once);

    if (taken == 0)
        ck_assert_int_eq(exs_cancel(pair.server, &fd, 0), 1);
    if (taken == 0)
        ck_assert_int_eq(exs_qdequeue(queue, &event, 1, NULL), 1);
    let_go(queue);
    ck_assert_int_le(count_fds(), before + 1); /* the eventfd that wakes this thread */
    expect_byte(&pair);
    must(exs_qdelete(queue));
    pair_close_blocking(&pair);
}
END_TEST

static void let_many_open(void)
{
    struct rlimit limit;

    must(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &limit));
}

static exs_qhandle_t open_loop(int *epoll)
{
    struct epoll_event event = {.events = EPOLLIN};
    exs_qhandle_t queue = exs_qcreate(1);

    ck_assert_ptr_ne(queue, EXS_QHANDLE_INVALID);
    must(*epoll = epoll_create1(EPOLL_CLOEXEC));
    must(epoll_ctl(*epoll, EPOLL_CTL_ADD, exs_qfd(queue), &event));
    return queue;
}

/* Each loop has used the connection once and never runs again: the home queue is detached from it to make room for
 * the next loop. */
START_TEST(many_loops_in_turn)
{
    static exs_qhandle_t queues[MANY];
    static int epolls[MANY];
    struct pair pair;

    let_many_open();
    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < MANY; i++) {
        queues[i] = open_loop(&epolls[i]);
        receive_by(&pair, queues[i]);
    }
    for (int i = 0; i < MANY; i++) {
        close(epolls[i]);
        must(exs_qdelete(queues[i]));
    }
    pair_close(&pair);
}
END_TEST

/* As many loops at the same time as the kernel allows. An operation that names one more queue fails, and has no effect
 * on others. */
START_TEST(too_many_loops_at_once)
{
    exs_qhandle_t queues[LOOPS_MAX];
    int epolls[LOOPS_MAX], client, server, count = 0;
    char bytes[LOOPS_MAX];
    struct pair pair;

    let_many_open();
    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (; count < LOOPS_MAX; count++) {
        queues[count] = open_loop(&epolls[count]);
        if (exs_recv(pair.server, &bytes[count], 1, 0, queues[count], NULL, NULL) < 0)
            break;
    }
    ck_assert_int_eq(errno, ENOSPC);
    ck_assert_int_ge(count, 40);
    ck_assert_int_lt(count, LOOPS_MAX);
    connect_ends(pair.listener, SOCK_STREAM, &pair.address, pair.client_box, pair.server_box, &client, &server);
    pass_bytes(pair.client_box, client, pair.server_box, server, 1000, 1);
    close_socket(pair.client_box, client);
    close_socket(pair.server_box, server);
    for (int i = 0; i <= count; i++) {
        exs_event_t event;

        if (i < count) {
            must(exs_send(pair.client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
            ck_assert_int_eq(exs_qdequeue(queues[i], &event, 1, NULL), 1);
            ck_assert_int_eq(event.exs_evt_errno, 0);
        }
        close(epolls[i]);
        must(exs_qdelete(queues[i]));
    }
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("detach");
    TCase *wakes = add_case(suite, "wake-ups", 20), *took = add_case(suite, "what it took", 20),
          *many = add_bare_case(suite, "many", 30);

    tcase_add_loop_test(wakes, after_its_last_use, 0, COUNT(uses));
    tcase_add_test(wakes, kept_between_operations);
    tcase_add_test(took, descriptors_of_a_blocking_poll);
    tcase_add_test(took, descriptors_below_a_sleeper);
    tcase_add_checked_fixture(many, init_library, NULL);
    tcase_add_test(many, many_loops_in_turn);
    tcase_add_test(many, too_many_loops_at_once);
    return run_suite(suite);
}
