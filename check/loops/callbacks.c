/* SPDX-License-Identifier: BSD-2-Clause */
/* callbacks.c - what a callback may do to its watcher, its queue and its sockets; the same for each adapter. */
#include "adapters.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

/* ---- What a callback may do -------------------------------------------------------------- */

struct tally { /* the data of one watcher */
    int callbacks, events;
    bool stopped;
    struct watch *fellow; /* the first callback drops this watcher and its queue */
};

static void tally_cb(struct watch *w, exs_event_t *events, int count)
{
    struct tally *t = w->data;

    (void)events;
    ck_assert_msg(!t->stopped, "a callback of a watcher that was stopped");
    t->callbacks++;
    t->events += count;
}

static void stopping_cb(struct watch *w, exs_event_t *events, int count)
{
    tally_cb(w, events, count);
    ((struct tally *)w->data)->stopped = true;
    w->kind->stop(w);
}

/* A callback stops its watcher while events are left: no callback follows, the loop sleeps although the queue
 * has events, and no event is lost. */
START_TEST(stops_in_the_middle)
{
    enum { EVENTS = 200, BATCH = 64 };
    void *loop = kinds_here[_i]->open();
    struct tally tally = {.stopped = true};
    struct timer timer;
    struct watch w;
    struct inbox box;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, EVENTS);
    owe_events(&pair, box.queue, EVENTS);
    timer_open(&timer, _i, loop);
    watch_open(&w, _i, loop, box.queue, stopping_cb, &tally);
    for (int callbacks = 1; tally.events < EVENTS; callbacks++) {
        tally.stopped = false;
        w.kind->start(&w);
        while (!tally.stopped)
            w.kind->turn(loop);
        ck_assert_int_eq(tally.callbacks, callbacks);
        int turns = turns_for(&timer, _i, loop, QUIET_MS);
        ck_assert_msg(turns <= 5, "%d turns in %d ms with a watcher that is stopped", turns, QUIET_MS);
    }
    ck_assert_int_eq(tally.events, EVENTS);
    ck_assert_int_ge(tally.callbacks, EVENTS / BATCH);
    w.kind->drop(&w);
    w.kind->close(loop);
    inbox_close(&box);
    pair_close(&pair);
}
END_TEST

/* A watcher is stopped and started outside of callbacks, with an iteration of the loop in between or without:
 * repeated calls have no further effect, and a dropped watcher gets no callback. */
START_TEST(stopped_and_started_again)
{
    void *loop = kinds_here[_i]->open();
    struct tally tally = {.callbacks = 0};
    struct timer timer;
    struct watch w;
    struct inbox box;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, 8);
    timer_open(&timer, _i, loop);
    watch_open(&w, _i, loop, box.queue, tally_cb, &tally);
    for (int i = 1; i <= 6; i++) {
        w.kind->stop(&w);
        w.kind->stop(&w);
        if (i % 2 == 0)
            turns_for(&timer, _i, loop, 1);
        w.kind->start(&w);
        w.kind->start(&w);
        owe_events(&pair, box.queue, 1);
        while (tally.events < i)
            w.kind->turn(loop);
        ck_assert_int_eq(tally.callbacks, i);
    }
    w.kind->drop(&w);
    turns_for(&timer, _i, loop, 1);
    owe_events(&pair, box.queue, 1);
    turns_for(&timer, _i, loop, QUIET_MS);
    ck_assert_int_eq(tally.events, 6);
    take_good(&box, EXS_EVT_RECV, pair.server);
    w.kind->close(loop);
    inbox_close(&box);
    pair_close(&pair);
}
END_TEST

/* What a callback does to its watcher, which is started. */
enum { START, START_STOP, START_DROP, STOP_START, CALLBACK_ORDERS };

struct restart {
    int order, callbacks;
};

static void restarting_cb(struct watch *w, exs_event_t *events, int count)
{
    struct restart *r = w->data;
    int order = r->callbacks++ == 0 ? r->order : START;

    (void)events;
    ck_assert_int_eq(count, 1);
    if (order == STOP_START)
        w->kind->stop(w);
    w->kind->start(w);
    if (order == START_STOP)
        w->kind->stop(w);
    if (order == START_DROP)
        w->kind->drop(w);
}

/* A start of a started watcher has no effect, and a stop after it takes effect: no callback follows, and the
 * adapter does not access memory that the callback has freed. */
START_TEST(starts_in_its_callback)
{
    const struct loop_kind *kind = kinds_here[_i / CALLBACK_ORDERS];
    struct restart restart = {.order = _i % CALLBACK_ORDERS};
    bool goes_on = restart.order == START || restart.order == STOP_START;
    struct timer timer;
    struct watch w;
    struct inbox box;
    struct pair pair;

    if (restart.order == STOP_START && !kind->restarts_in_callback)
        return;
    void *loop = kind->open();
    pair_open(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, 8);
    timer_open(&timer, _i / CALLBACK_ORDERS, loop);
    watch_open(&w, _i / CALLBACK_ORDERS, loop, box.queue, restarting_cb, &restart);
    for (int sent = 0; sent < 3; sent++) {
        owe_events(&pair, box.queue, 1);
        int turns = turns_for(&timer, _i / CALLBACK_ORDERS, loop, QUIET_MS);
        ck_assert_msg(turns <= 8, "%d turns in %d ms for one event", turns, QUIET_MS);
        ck_assert_int_eq(restart.callbacks, goes_on ? sent + 1 : 1);
    }
    for (int kept = goes_on ? 0 : 2; kept > 0; kept--)
        take_good(&box, EXS_EVT_RECV, pair.server);
    if (restart.order != START_DROP)
        kind->drop(&w);
    kind->close(loop);
    inbox_close(&box);
    pair_close(&pair);
}
END_TEST

static void count_bytes(struct beside *b)
{
    char byte;

    ck_assert_int_eq(read(b->fd, &byte, 1), 1);
    ++*(int *)b->data;
}

/* Adds the reading end of a pipe to the loop, with this descriptor number, which was free. Counts the bytes
 * that arrive. */
static void pipe_beside(int kind, void *loop, struct beside *b, int number, int *to, int *heard)
{
    int ends[2];

    must(pipe(ends));
    *to = fcntl(ends[1], F_DUPFD_CLOEXEC, number + 1);
    must(*to);
    must(close(ends[1]));
    if (ends[0] != number) {
        must(dup2(ends[0], number));
        must(close(ends[0]));
    }
    *b = (struct beside){number, count_bytes, heard};
    kinds_here[kind]->beside(loop, b);
}

/* The order in which the queue is deleted and its watcher stopped or dropped. Then its descriptor's number is
 * used by another descriptor in the same loop. */
enum { STOPPED_BEFORE, DROPPED_BEFORE, STOPPED_BEHIND, DROPPED_BEHIND, DELETE_ORDERS };

/* The loop watches the other descriptor, before the watcher is dropped and afterwards. */
START_TEST(number_is_used_again)
{
    int kind = _i / DELETE_ORDERS, order = _i % DELETE_ORDERS, heard = 0, to;
    struct tally tally = {.callbacks = 0};
    struct beside other;
    struct timer timer;
    struct watch w;

    if (order >= STOPPED_BEHIND && !kinds_here[kind]->stops_behind_delete)
        return;
    void *loop = kinds_here[kind]->open();
    exs_qhandle_t queue = exs_qcreate(4);
    int number = exs_qfd(queue);

    timer_open(&timer, kind, loop);
    watch_open(&w, kind, loop, queue, tally_cb, &tally);
    turns_for(&timer, kind, loop, 1);
    if (order == STOPPED_BEFORE)
        w.kind->stop(&w);
    if (order == DROPPED_BEFORE)
        w.kind->drop(&w);
    must(exs_qdelete(queue));
    pipe_beside(kind, loop, &other, number, &to, &heard);
    for (int sent = 1; sent <= 3; sent++) {
        if (sent == 2 && order == STOPPED_BEHIND)
            w.kind->stop(&w);
        if (sent == 2 && order == DROPPED_BEHIND)
            w.kind->drop(&w);
        if (sent == 3 && (order == STOPPED_BEFORE || order == STOPPED_BEHIND))
            w.kind->drop(&w);
        turns_for(&timer, kind, loop, 1);
        ck_assert_int_eq(write(to, "x", 1), 1);
        turns_for(&timer, kind, loop, QUIET_MS);
        ck_assert_msg(heard == sent, "the other descriptor was heard %d of %d times", heard, sent);
    }
    ck_assert_int_eq(tally.callbacks, 0);
    kinds_here[kind]->close(loop);
    must(close(number));
    must(close(to));
}
END_TEST

struct ending {
    struct pair *pair;
    int events;
};

/* Closes the sockets. After the last event it deletes the queue and frees the watcher. */
static void end_it_all(struct watch *w, exs_event_t *events, int count)
{
    struct ending *ending = w->data;

    for (int i = 0; i < count; i++, ending->events++) {
        if (events[i].exs_evt_type != EXS_EVT_RECV)
            continue;
        must(exs_close(ending->pair->client, 0, w->queue, NULL));
        must(exs_close(ending->pair->server, 0, w->queue, NULL));
        must(exs_close(ending->pair->listener, 0, w->queue, NULL));
    }
    if (ending->events < 4)
        return;
    w->kind->drop(w);
    must(exs_qdelete(w->queue));
}

START_TEST(closes_and_deletes)
{
    void *loop = kinds_here[_i]->open();
    struct timer timer;
    struct inbox box;
    struct pair pair;
    struct watch w;
    char byte;

    inbox_open(&box, 4);
    pair_open_on(&pair, AF_INET, SOCK_STREAM, &box, &box);
    struct ending ending = {.pair = &pair};
    timer_open(&timer, _i, loop);
    watch_open(&w, _i, loop, box.queue, end_it_all, &ending);
    must(exs_recv(pair.server, &byte, 1, 0, box.queue, NULL, NULL));
    must(exs_send(pair.client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    while (ending.events < 4)
        w.kind->turn(loop);
    int turns = turns_for(&timer, _i, loop, QUIET_MS);
    ck_assert_msg(turns <= 5, "%d turns in %d ms with a queue that is gone", turns, QUIET_MS);
    must_fail(exs_qdelete(w.queue), EINVAL);
    w.kind->close(loop);
    free(box.kept);
}
END_TEST

static void drop_fellow(struct watch *w, exs_event_t *events, int count)
{
    struct tally *t = w->data;

    tally_cb(w, events, count);
    t->fellow->kind->drop(t->fellow);
    must(exs_qdelete(t->fellow->queue));
    ((struct tally *)t->fellow->data)->stopped = true;
}

/* Two watchers are ready in one iteration. The first one's callback drops the other one and deletes its queue. */
START_TEST(drops_another_that_is_due)
{
    void *loop = kinds_here[_i]->open();
    struct watch watches[2];
    struct tally tallies[2] = {{.fellow = &watches[1]}, {.fellow = &watches[0]}};
    struct timer timer;
    struct inbox boxes[2];
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    timer_open(&timer, _i, loop);
    for (int i = 0; i < 2; i++) {
        inbox_open(&boxes[i], 4);
        owe_events(&pair, boxes[i].queue, 1);
        struct pollfd ready = {.fd = exs_qfd(boxes[i].queue), .events = POLLIN};
        ck_assert_int_eq(poll(&ready, 1, WAIT_MS), 1);
        watch_open(&watches[i], _i, loop, boxes[i].queue, drop_fellow, &tallies[i]);
    }
    turns_for(&timer, _i, loop, QUIET_MS);
    ck_assert_int_eq(tallies[0].callbacks + tallies[1].callbacks, 1);
    int first = tallies[0].callbacks ? 0 : 1;
    kinds_here[_i]->drop(&watches[first]);
    kinds_here[_i]->close(loop);
    inbox_close(&boxes[first]);
    free(boxes[!first].kept);
    pair_close(&pair);
}
END_TEST

enum { HELD = 3 }; /* sends of a callback: the first is posted at once, the others are held */

static void send_and_drop(struct watch *w, exs_event_t *events, int count)
{
    struct pair *pair = w->data;

    (void)events;
    ck_assert_int_gt(count, HELD);
    for (int i = 0; i < HELD; i++)
        must(exs_send(pair->client, "x", 1, 0, w->queue, NULL, NULL));
    w->kind->drop(w);
    w->data = NULL;
}

static void *receive_held(void *arg)
{
    struct pair *pair = arg;
    char in[HELD];

    ck_assert_int_eq(exs_blocking_recv(pair->server, in, sizeof(in), MSG_WAITALL, NULL), HELD);
    return NULL;
}

/* What a callback has sent before it drops its watcher leaves, though the thread makes no further call. */
START_TEST(drops_after_sends)
{
    void *loop = kinds_here[_i]->open();
    struct pair pair;
    struct watch w;
    pthread_t thread;
    char in[HELD + 1] = "";

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (size_t i = 0; i < sizeof(in); i++)
        must(exs_recv(pair.client, &in[i], 1, 0, pair.client_box->queue, NULL, NULL));
    must(exs_send(pair.server, in, sizeof(in), 0, pair.server_box->queue, NULL, NULL));
    watch_open(&w, _i, loop, pair.client_box->queue, send_and_drop, &pair);
    while (w.data != NULL)
        w.kind->turn(loop);
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_held, &pair), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    take_good(pair.server_box, EXS_EVT_SEND, pair.server);
    for (int i = 0; i < HELD; i++)
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    kinds_here[_i]->close(loop);
    pair_close(&pair);
}
END_TEST

void add_callback_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, drops_after_sends, 0, kinds_count);
    tcase_add_loop_test(tcase, stops_in_the_middle, 0, kinds_count);
    tcase_add_loop_test(tcase, stopped_and_started_again, 0, kinds_count);
    tcase_add_loop_test(tcase, starts_in_its_callback, 0, kinds_count * CALLBACK_ORDERS);
    tcase_add_loop_test(tcase, number_is_used_again, 0, kinds_count * DELETE_ORDERS);
    tcase_add_loop_test(tcase, closes_and_deletes, 0, kinds_count);
    tcase_add_loop_test(tcase, drops_another_that_is_due, 0, kinds_count);
}
