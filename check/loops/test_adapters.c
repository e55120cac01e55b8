/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_adapters.c - event queues in the loops of others, by the adapters: each plays against each, a watcher
 * goes when its callback says so, nothing else in the loop has to wait, and an idle loop sleeps. A loop whose
 * library was not there at configure is named, and then the whole ends with 77.
 */
#include "check/support/player.h"
#include "loops.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#ifdef WITH_GLIB
#include <exs_glib.h>
#endif

static const struct loop_kind *kinds_here[5];
static int kinds_count;

static void watch_open(struct watch *w, int kind, void *loop, exs_qhandle_t queue,
                       void (*cb)(struct watch *, exs_event_t *, int), void *data)
{
    *w = (struct watch){.queue = queue, .cb = cb, .data = data, .kind = kinds_here[kind]};
    w->kind->make(loop, w);
    w->kind->start(w);
}

/* ---- A timer, as the loop's other descriptor ------------------------------------------- */

struct timer {
    struct beside beside;
    bool over;
};

static void timer_cb(struct beside *b)
{
    struct timer *timer = b->data;
    uint64_t times;

    timer->over = read(b->fd, &times, sizeof(times)) == sizeof(times);
}

static void timer_open(struct timer *timer, int kind, void *loop)
{
    timer->beside = (struct beside){timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), timer_cb, timer};
    must(timer->beside.fd);
    kinds_here[kind]->beside(loop, &timer->beside);
}

/* The turns that the loop takes in so many milliseconds. */
static int turns_for(struct timer *timer, int kind, void *loop, int ms)
{
    struct itimerspec when = {.it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}};
    int turns = 0;

    timer->over = false;
    must(timerfd_settime(timer->beside.fd, 0, &when, NULL));
    for (; !timer->over; turns++)
        kinds_here[kind]->turn(loop);
    return turns;
}

/* ---- Each against each ------------------------------------------------------------------ */

enum { ROUNDS = 300 };

struct side { /* a player in a loop of its own; owned by the side's thread */
    int kind;
    exs_qhandle_t queue;
    int socket;
    bool serves;
    uint64_t seed;
};

static void play_cb(struct watch *w, exs_event_t *events, int count)
{
    for (int i = 0; i < count; i++)
        player_event(events[i].exs_evt_ahandle, &events[i]);
    (void)w;
}

static void *play(void *arg)
{
    struct side *side = arg;
    void *loop = kinds_here[side->kind]->open();
    struct player player;
    struct watch w;
    int turns = 0;

    watch_open(&w, side->kind, loop, side->queue, play_cb, NULL);
    player_open(&player, side->socket, side->queue, side->serves, ROUNDS, 20000, side->seed);
    for (; !player_is_over(&player); turns++)
        w.kind->turn(loop);
    ck_assert_msg(turns <= 30 * ROUNDS + 100, "%d turns for %d rounds", turns, ROUNDS);
    w.kind->drop(&w);
    player_close(&player);
    w.kind->close(loop);
    return NULL;
}

START_TEST(each_against_each)
{
    for (int type = 0; type < 2; type++) {
        struct pair pair;
        pthread_t threads[2];

        pair_open(&pair, AF_INET, type ? SOCK_SEQPACKET : SOCK_STREAM);
        struct side sides[2] = {{_i / kinds_count, pair.server_box->queue, pair.server, true, 7},
                                {_i % kinds_count, pair.client_box->queue, pair.client, false, 7}};
        for (int i = 0; i < 2; i++)
            threads[i] = thread_start(play, &sides[i]);
        for (int i = 0; i < 2; i++)
            thread_join(threads[i]);
        pair_close(&pair);
    }
}
END_TEST

/* ---- Many messages, and another descriptor ---------------------------------------------- */

enum { MESSAGES = 10000, MOST_BETWEEN = 8 };

struct game {
    struct player players[2];
    int between; /* callbacks of queues since the other descriptor had its turn */
    int others;
};

static void game_cb(struct watch *w, exs_event_t *events, int count)
{
    struct game *game = w->data;

    play_cb(w, events, count);
    ck_assert_msg(++game->between <= MOST_BETWEEN, "another descriptor waits while a queue calls back");
}

static void other_cb(struct beside *b)
{
    struct game *game = b->data;

    game->between = 0;
    game->others++;
}

/* The other one is always ready, and both ends are in this loop. */
START_TEST(others_keep_their_turns)
{
    void *loop = kinds_here[_i]->open();
    struct game game = {.between = 0};
    struct beside other = {eventfd(1, 0), other_cb, &game};
    struct watch watches[2];
    struct pair pair;
    int turns = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    kinds_here[_i]->beside(loop, &other);
    watch_open(&watches[0], _i, loop, pair.server_box->queue, game_cb, &game);
    watch_open(&watches[1], _i, loop, pair.client_box->queue, game_cb, &game);
    player_open(&game.players[0], pair.server, pair.server_box->queue, true, MESSAGES, 100, 3);
    player_open(&game.players[1], pair.client, pair.client_box->queue, false, MESSAGES, 100, 3);
    for (; !player_is_over(&game.players[0]) || !player_is_over(&game.players[1]); turns++)
        kinds_here[_i]->turn(loop);
    ck_assert_msg(game.others >= turns / 2, "another descriptor had %d of %d turns", game.others, turns);
    for (int i = 0; i < 2; i++) {
        kinds_here[_i]->drop(&watches[i]);
        player_close(&game.players[i]);
    }
    kinds_here[_i]->close(loop);
    must(close(other.fd));
    pair_close(&pair);
}
END_TEST

/* ---- Nothing to do --------------------------------------------------------------------- */

static void no_event(struct watch *w, exs_event_t *events, int count)
{
    (void)w;
    ck_abort_msg("nobody asked for a %s, the first of %d events", exs_strevent(events[0].exs_evt_type), count);
}

START_TEST(idle_loop_sleeps)
{
    void *loop = kinds_here[_i]->open();
    struct timer timer;
    struct watch watches[2];
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (uint64_t i = 0; i < 20; i++)
        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1 + i * 3000, i);
    watch_open(&watches[0], _i, loop, pair.server_box->queue, no_event, NULL);
    watch_open(&watches[1], _i, loop, pair.client_box->queue, no_event, NULL);
    timer_open(&timer, _i, loop);
    turns_for(&timer, _i, loop, 50); /* what was left to be done */
    double cpu = seconds_of_cpu();
    int turns = turns_for(&timer, _i, loop, 200);
    cpu = seconds_of_cpu() - cpu;
    ck_assert_msg(turns <= 5 && cpu < 0.05, "%d turns and %.3f s of CPU in 0.2 s of nothing", turns, cpu);
    kinds_here[_i]->drop(&watches[0]);
    kinds_here[_i]->drop(&watches[1]);
    kinds_here[_i]->close(loop);
    pair_close(&pair);
}
END_TEST

/* ---- What a callback may do -------------------------------------------------------------- */

struct tally { /* of one watcher */
    int callbacks, events;
    bool stopped;
    struct watch *fellow; /* to be dropped with its queue by the first that is called back */
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

/* In the middle of its events: no more come, the loop sleeps although there are some, and none is lost. */
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

/* Outside of callbacks, the loop taking a turn in between or not: it is started once, and gone when it is
 * dropped. */
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

/* In a callback: what it does with its watcher, which is started. */
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

/* A start changes nothing where the watcher is started, and a stop behind it is obeyed: no callback follows, nor
 * anything else that touches memory which the callback has freed. */
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

/* A pipe whose reading end has this number, which was free: what comes through it is counted. */
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

/* When the queue is deleted, and its descriptor's number becomes another's in the same loop. */
enum { STOPPED_BEFORE, DROPPED_BEFORE, STOPPED_BEHIND, DROPPED_BEHIND, DELETE_ORDERS };

/* The loop hears the other descriptor then, before the watcher is dropped and after it. */
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

#ifdef WITH_GLIB
/* A source whose callback was not set, or not yet, leaves the events in the queue. */
START_TEST(glib_without_callback)
{
    GMainContext *context = g_main_context_new();
    struct inbox box;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, 4);
    GSource *source = exs_glib_source_new(box.queue);

    owe_events(&pair, box.queue, 1);
    g_source_attach(source, context);
    for (int turns = 0; turns < 100 && !g_source_is_destroyed(source); turns++)
        g_main_context_iteration(context, TRUE);
    ck_assert(g_source_is_destroyed(source));
    g_source_unref(source);
    g_main_context_unref(context);
    take_good(&box, EXS_EVT_RECV, pair.server);
    inbox_close(&box);
    pair_close(&pair);
}
END_TEST
#endif

struct ending {
    struct pair *pair;
    int events;
};

/* Close the sockets; and with the last event delete the queue and free the watcher. */
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

/* Both are due in one turn, and whose callback comes first drops the other one, with its queue. */
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

/* ---- Which there are --------------------------------------------------------------------- */

static const struct {
    const char *name, *package;
    const struct loop_kind *kind;
} wanted[] = {
    {"libev", "libev-dev", &loop_of_ev},
#ifdef WITH_UV
    {"libuv", "libuv1-dev", &loop_of_uv},
#else
    {"libuv", "libuv1-dev", NULL},
#endif
#ifdef WITH_GLIB
    {"GLib", "libglib2.0-dev", &loop_of_glib},
#else
    {"GLib", "libglib2.0-dev", NULL},
#endif
#ifdef WITH_LIBEVENT
    {"libevent", "libevent-dev", &loop_of_libevent},
#else
    {"libevent", "libevent-dev", NULL},
#endif
#ifdef WITH_URING
    {"io_uring", "liburing-dev", &loop_of_uring},
#else
    {"io_uring", "liburing-dev", NULL},
#endif
};

/* How many are missing, each with a line that says so. */
static int find_kinds(void)
{
    int missing = 0;

    for (int i = 0; i < COUNT(wanted); i++) {
        const struct loop_kind *kind = wanted[i].kind;

        if (kind && (!kind->allowed || kind->allowed())) {
            kinds_here[kinds_count++] = kind;
            continue;
        }
        missing++;
        if (kind)
            printf("skipped: %s: this kernel does not allow it\n", wanted[i].name);
        else
            printf("skipped: %s: install %s, and configure again\n", wanted[i].name, wanted[i].package);
    }
    fflush(stdout);
    return missing;
}

int main(void)
{
    int missing = find_kinds();
    Suite *suite = suite_create("adapters");
    TCase *each = add_case(suite, "each against each", 30), *others = add_case(suite, "others", 30),
          *sleep = add_case(suite, "sleep", 10), *callback = add_case(suite, "callbacks", 20);

    tcase_add_loop_test(each, each_against_each, 0, kinds_count * kinds_count);
    tcase_add_loop_test(others, others_keep_their_turns, 0, kinds_count);
    tcase_add_loop_test(sleep, idle_loop_sleeps, 0, kinds_count);
    tcase_add_loop_test(callback, stops_in_the_middle, 0, kinds_count);
    tcase_add_loop_test(callback, stopped_and_started_again, 0, kinds_count);
    tcase_add_loop_test(callback, starts_in_its_callback, 0, kinds_count * CALLBACK_ORDERS);
    tcase_add_loop_test(callback, number_is_used_again, 0, kinds_count * DELETE_ORDERS);
#ifdef WITH_GLIB
    tcase_add_test(callback, glib_without_callback);
#endif
    tcase_add_loop_test(callback, closes_and_deletes, 0, kinds_count);
    tcase_add_loop_test(callback, drops_another_that_is_due, 0, kinds_count);
    int failed = run_suite(suite);
    const char *strict = getenv("EXS_NO_SKIP");

    return failed || (missing && strict && *strict) ? 1 : missing ? 77 : 0;
}
