/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_crowd_pairs.c - pairs of concurrent actions that may interfere: connections and data with an edge-triggered
 * watcher, callbacks that stop each other's watchers and delete their queues, a close while threads wait on the socket,
 * and both ends in one thread.
 */
#include "check/support/asleep.h"
#include "check/support/support.h"

#include <exs_ev.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>

/* ---- Connections and data with an edge-triggered watcher ----------------------------- */

#define ROUNDS 100
#define RECEIVES 5

struct caller { /* the other end: a thread that connects and sends at the same time, round by round */
    struct inbox box;
    struct address address;
    int first, sockets[ROUNDS];
    int wakefd; /* the server writes one byte for each round */
};

static void *call_and_send(void *arg)
{
    struct caller *c = arg;
    char bid, bytes[RECEIVES] = "edges";

    for (int i = 0; i < ROUNDS; i++) {
        hear(c->wakefd, &bid, 1);
        int *s = &c->sockets[i];
        must(*s = exs_socket(PF_INET, SOCK_STREAM, 0));
        if (i % 2)
            must(exs_send(c->first, bytes, RECEIVES, EXS_UNSIGNALED, c->box.queue, NULL, NULL));
        must(exs_connect(*s, SA(&c->address), c->address.length, 0, NULL, c->box.queue, NULL));
        if (i % 2 == 0)
            must(exs_send(c->first, bytes, RECEIVES, EXS_UNSIGNALED, c->box.queue, NULL, NULL));
        take_good(&c->box, EXS_EVT_CONNECT, *s);
    }
    return NULL;
}

struct edges { /* the watcher, which dequeues one event at a time */
    int epoll;
    exs_qhandle_t queue;
    int accepts, receives, taken[ROUNDS];
};

static void take_by_edge(struct edges *e)
{
    struct epoll_event ready;
    exs_event_t event;
    struct pollfd level = {.fd = exs_qfd(e->queue), .events = POLLIN};
    int count = epoll_wait(e->epoll, &ready, 1, 300);

    /* The descriptor is readable and has an event, but no edge was reported: an edge was lost, even if a later one
     * hides that. */
    bool lost = count == 0 && poll(&level, 1, 0) == 1 && epoll_wait(e->epoll, &ready, 1, 0) == 0;
    while ((count = exs_qdequeue(e->queue, &event, 1, &(struct timeval){0})) == 1) {
        ck_assert_msg(!lost, "no edge told of a %s that is there", exs_strevent(event.exs_evt_type));
        ck_assert_msg(event.exs_evt_errno == 0, "%s: %s", exs_strevent(event.exs_evt_type),
                      strerror(event.exs_evt_errno));
        e->receives += event.exs_evt_type == EXS_EVT_RECV;
        if (event.exs_evt_type == EXS_EVT_ACCEPT)
            e->taken[e->accepts++] = event.exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    }
    must(count);
}

START_TEST(accepts_and_data_by_edges)
{
    struct edges e = {.epoll = epoll_create1(EPOLL_CLOEXEC)};
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLET};
    struct caller caller;
    struct inbox box;
    struct pair pair;
    exs_acceptaddr_t elements[ROUNDS];
    int wakefd[2];
    char in[RECEIVES];

    inbox_open(&box, 4);
    inbox_open(&caller.box, 4);
    pair_open_on(&pair, AF_INET, SOCK_STREAM, &caller.box, &box);
    box.beside = caller.box.beside = NULL; /* each thread polls only its own queue */
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wakefd));
    caller.first = pair.client;
    caller.wakefd = wakefd[1];
    caller.address = pair.address;
    e.queue = box.queue;
    must(epoll_ctl(e.epoll, EPOLL_CTL_ADD, exs_qfd(box.queue), &wanted));
    pthread_t thread = thread_start(call_and_send, &caller);
    for (int i = 0; i < ROUNDS; i++) {
        elements[i] = (exs_acceptaddr_t){0};
        must(exs_accept(pair.listener, &elements[i], 1, 0, box.queue));
        for (int k = 0; k < RECEIVES; k++)
            must(exs_recv(pair.server, in + k, 1, 0, box.queue, NULL, NULL));
        tell(wakefd[0], "x", 1);
        double until = seconds_now() + WAIT_MS / 3e3;
        while (e.accepts <= i || e.receives < RECEIVES * (i + 1)) {
            take_by_edge(&e);
            ck_assert_msg(seconds_now() < until, "round %d: %d accepts and %d receives", i, e.accepts,
                          e.receives);
        }
    }
    thread_join(thread);
    box.beside = &caller.box;
    caller.box.beside = &box;
    for (int i = 0; i < ROUNDS; i++) {
        close_socket(&caller.box, caller.sockets[i]);
        close_socket(&box, e.taken[i]);
    }
    pair_close(&pair);
    box.beside = caller.box.beside = NULL;
    inbox_close(&box);
    inbox_close(&caller.box);
    close(e.epoll);
    close(wakefd[0]);
    close(wakefd[1]);
}
END_TEST

/* ---- Callbacks that stop each other's watchers --------------------------------------- */

#define WATCHERS 8
static const unsigned backends[] = {EVBACKEND_EPOLL, EVBACKEND_POLL, EVBACKEND_SELECT};

struct circle { /* watchers, each with a queue and a socket; the first callback ends them all */
    exs_ev *watchers[WATCHERS];
    struct pair pairs[WATCHERS];
    struct inbox boxes[WATCHERS];
    int calls;
    bool itself; /* including its own watcher */
};

static void end_watcher(EV_P_ struct circle *c, int i)
{
    exs_ev *w = c->watchers[i];

    must(exs_blocking_close(c->pairs[i].server));
    exs_ev_stop(EV_A_ w);
    must(exs_qdelete(w->queue));
    free(w);
    c->watchers[i] = NULL;
}

static void end_all_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct circle *c = w->data;

    ck_assert_int_eq(c->calls++, 0);
    ck_assert_int_ge(count, 1);
    ck_assert_int_eq(events[0].exs_evt_errno, 0);
    for (int i = 0; i < WATCHERS; i++)
        if (c->watchers[i] != w || c->itself)
            end_watcher(EV_A_ c, i);
    for (int i = 0; i < count; i++) /* the events stay valid during the callback */
        ck_assert_int_eq(events[i].exs_evt_type, EXS_EVT_RECV);
    ev_break(EV_A_ EVBREAK_ALL);
}

static void circle_open(EV_P_ struct circle *c, int i, char *in)
{
    inbox_open(&c->boxes[i], 4);
    pair_open(&c->pairs[i], AF_INET, i % 2 ? SOCK_STREAM : SOCK_SEQPACKET);
    /* The server's operations name this circle's queue: the inbox's queue was only used to accept the socket. */
    for (int k = 0; k < 3; k++)
        must(exs_recv(c->pairs[i].server, in + k, 1, 0, c->boxes[i].queue, NULL, NULL));
    for (int k = 0; k < 3; k++) {
        must(exs_send(c->pairs[i].client, "x", 1, 0, c->pairs[i].client_box->queue, NULL, NULL));
        take_good(c->pairs[i].client_box, EXS_EVT_SEND, c->pairs[i].client);
    }
    c->watchers[i] = new_buffer(sizeof *c->watchers[i]);
    c->watchers[i]->data = c;
    exs_ev_init(c->watchers[i], end_all_cb, c->boxes[i].queue);
    exs_ev_start(EV_A_ c->watchers[i]);
}

static void circle_close(EV_P_ struct circle *c, int i)
{
    if (c->watchers[i])
        end_watcher(EV_A_ c, i);
    close_socket(c->pairs[i].client_box, c->pairs[i].client);
    pair_close_rest(&c->pairs[i]);
    free(c->boxes[i].kept);
}

/* All watchers have events in the same iteration of the loop. */
START_TEST(callbacks_end_each_other)
{
    EV_P = ev_loop_new(backends[_i % COUNT(backends)] | EVFLAG_NOENV);
    struct circle c = {.itself = _i >= COUNT(backends)};
    static char in[WATCHERS][3];

    for (int i = 0; i < WATCHERS; i++)
        circle_open(EV_A_ & c, i, in[i]);
    ev_run(EV_A_ 0);
    ev_run(EV_A_ EVRUN_NOWAIT);
    ck_assert_int_eq(c.calls, 1);
    for (int i = 0; i < WATCHERS; i++)
        circle_close(EV_A_ & c, i);
    ev_loop_destroy(EV_A);
}
END_TEST

/* ---- A close while threads wait ------------------------------------------------------ */

#define WAITERS 6
enum waits { RECEIVES_ONE, SENDS_MUCH, ACCEPTS_ONE, WAITS };

struct waiter {
    enum waits waits;
    int socket;
    _Atomic pid_t tid;
    long result;
    int error;
};

static void *wait_in_call(void *arg)
{
    struct waiter *w = arg;
    static char much[4 << 20];
    char byte;

    w->tid = gettid();
    if (w->waits == RECEIVES_ONE)
        w->result = exs_blocking_recv(w->socket, &byte, 1, 0, NULL);
    else if (w->waits == SENDS_MUCH)
        w->result = exs_blocking_send(w->socket, much, sizeof much, 0, NULL);
    else
        w->result = exs_blocking_accept(w->socket, NULL, NULL);
    w->error = errno;
    return NULL;
}

/* Several threads wait on one socket. When it is closed, all calls return and the peer is notified. */
START_TEST(close_beside_many)
{
    struct waiter waiters[WAITERS] = {0};
    pthread_t threads[WAITERS];
    struct pair pair;
    char byte;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i].waits = _i < WAITS ? (enum waits)_i : (enum waits)(i % ACCEPTS_ONE);
        waiters[i].socket = _i == ACCEPTS_ONE ? pair.listener : pair.server;
        threads[i] = thread_start(wait_in_call, &waiters[i]);
    }
    for (int i = 0; i < WAITERS; i++)
        await_sleep(&waiters[i].tid);
    must(exs_blocking_close(waiters[0].socket));
    must_fail(exs_blocking_close(waiters[0].socket), EBADF);
    for (int i = 0; i < WAITERS; i++) {
        thread_join(threads[i]);
        ck_assert_int_eq(waiters[i].result, -1);
        ck_assert_msg(waiters[i].error == ECANCELED || waiters[i].error == EBADF, "thread %d: %s", i,
                      strerrorname_np(waiters[i].error));
    }
    if (_i == RECEIVES_ONE)
        ck_assert_int_eq(exs_blocking_recv(pair.client, &byte, 1, 0, NULL), 0);
    if (_i == ACCEPTS_ONE)
        must(exs_blocking_close(pair.server));
    else
        must(exs_blocking_close(pair.listener));
    must(exs_blocking_close(pair.client));
}
END_TEST

/* A call that starts while another thread closes the socket ends with ECANCELED or EBADF. */
START_TEST(close_meets_a_call)
{
    for (int i = 0; i < 200; i++) {
        struct waiter waiter = {.waits = RECEIVES_ONE};
        struct pair pair;

        pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
        waiter.socket = pair.server;
        pthread_t thread = thread_start(wait_in_call, &waiter);
        while (waiter.tid == 0)
            ;
        for (volatile int spin = 0; spin < i * 20; spin++)
            ;
        must(exs_blocking_close(pair.server));
        thread_join(thread);
        must(exs_blocking_close(pair.client));
        must(exs_blocking_close(pair.listener));
        ck_assert_int_eq(waiter.result, -1);
        ck_assert_msg(waiter.error == ECANCELED || waiter.error == EBADF, "%s", strerrorname_np(waiter.error));
    }
}
END_TEST

/* ---- Both ends in one thread --------------------------------------------------------- */

/* The thread first starts an operation at one end and then makes a blocking call at the other. As with TCP, the first
 * operation makes progress during the call. */
START_TEST(asked_first_then_blocking)
{
    struct address address;
    struct inbox box;
    exs_acceptaddr_t element = {0};
    char *in = new_buffer(MIB), *out = new_buffer(MIB);
    int type = _i ? SOCK_SEQPACKET : SOCK_STREAM, client;

    inbox_open(&box, 4);
    int listener = open_listener(AF_INET, type, 4, &address);
    must(client = exs_socket(PF_INET, type, 0));
    must(exs_accept(listener, &element, 1, 0, box.queue));
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_ACCEPT, listener);
    take_good(&box, EXS_EVT_CONNECT, client);
    for (size_t length = 1; length <= MIB; length *= 16) {
        pattern_fill(out, length, length, 0);
        must(exs_recv(element.exs_socket, in, length, MSG_WAITALL * !_i, box.queue, NULL, NULL));
        ck_assert_int_eq(exs_blocking_send(client, out, length, 0, NULL), length);
        take_good(&box, EXS_EVT_RECV, element.exs_socket);
        pattern_check(in, length, length, 0);
        must(exs_send(element.exs_socket, in, length, 0, box.queue, NULL, NULL));
        memset(out, CANARY, length);
        for (size_t got = 0; got < length;) {
            ssize_t more = exs_blocking_recv(client, out + got, length - got, 0, NULL);
            ck_assert_int_gt(more, 0);
            got += (size_t)more;
        }
        take_good(&box, EXS_EVT_SEND, element.exs_socket);
        pattern_check(out, length, length, 0);
    }
    must(exs_blocking_close(client));
    ck_assert_int_eq(exs_blocking_recv(element.exs_socket, in, 1, 0, NULL), 0);
    must(exs_blocking_close(element.exs_socket));
    must(exs_blocking_close(listener));
    inbox_close(&box);
    free(in);
    free(out);
}
END_TEST

#define SENDS 4

struct closing {          /* two ends that close at the same time */
    int ends[2], left[2]; /* left: operations that have had no event */
    int open;
};

static void take_one(struct closing *c, exs_qhandle_t queue)
{
    exs_event_t event;

    ck_assert_msg(exs_qdequeue(queue, &event, 1, &(struct timeval){.tv_sec = WAIT_MS / 3000}) == 1,
                  "no event comes; %d and %d operations have had none", c->left[0], c->left[1]);
    int e = (int)((int *)event.exs_evt_ahandle - c->ends), error = event.exs_evt_errno;
    ck_assert_int_eq(event.exs_evt_socket, c->ends[e]);
    if (event.exs_evt_type == EXS_EVT_CLOSE) {
        ck_assert_int_eq(error, 0);
        ck_assert_int_eq(c->left[e], 0);
        c->open--;
        return;
    }
    ck_assert_int_gt(c->left[e]--, 0);
    ck_assert_msg(error == 0 || error == ECANCELED || error == ECONNRESET, "%s: %s",
                  exs_strevent(event.exs_evt_type), strerrorname_np(error));
}

/* Both ends close while both are sending: each operation has exactly one event, and the close's is the last. */
START_TEST(both_close_at_once)
{
    struct inbox box;
    struct pair pair;
    char *out = new_buffer(MIB), in[2][SENDS];

    inbox_open(&box, 4);
    pair_open_on(&pair, AF_INET, _i % 2 ? SOCK_SEQPACKET : SOCK_STREAM, &box, &box);
    struct closing c = {.ends = {pair.client, pair.server}, .left = {2 * SENDS, 2 * SENDS}, .open = 2};
    for (int k = 0; k < SENDS; k++)
        for (int e = 0; e < 2; e++) {
            must(exs_recv(c.ends[e], &in[e][k], 1, 0, box.queue, &c.ends[e], NULL));
            must(exs_send(c.ends[e], out, MIB, 0, box.queue, &c.ends[e], NULL));
        }
    if (_i >= 2)
        take_one(&c, box.queue); /* transfers have started */
    for (int e = 0; e < 2; e++)
        must(exs_close(c.ends[e], 0, box.queue, &c.ends[e]));
    while (c.open)
        take_one(&c, box.queue);
    pair_close_rest(&pair);
    inbox_close(&box);
    free(out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crowd_pairs");
    TCase *tests = add_case(suite, "edges", 20);

    tcase_add_test(tests, accepts_and_data_by_edges);
    tests = add_case(suite, "callbacks", 10);
    tcase_add_loop_test(tests, callbacks_end_each_other, 0, 2 * COUNT(backends));
    tests = add_case(suite, "close", 10);
    tcase_add_loop_test(tests, close_beside_many, 0, WAITS + 1);
    tcase_add_test(tests, close_meets_a_call);
    tests = add_case(suite, "one_thread", 10);
    tcase_add_loop_test(tests, asked_first_then_blocking, 0, 2);
    tcase_add_loop_test(tests, both_close_at_once, 0, 4);
    return run_suite(suite);
}
