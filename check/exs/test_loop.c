/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_loop.c - event queues in libev loops: no wake-up is lost with any of libev's back-ends, an idle loop
 * sleeps, and a callback may do what exs_ev.h says is safe.
 */
#include "check/support/player.h"

#include <exs_ev.h>
#include <poll.h>

static const unsigned backends[] = {EVBACKEND_EPOLL, EVBACKEND_POLL, EVBACKEND_SELECT};

static struct ev_loop *new_loop(unsigned backend)
{
    struct ev_loop *loop = ev_loop_new(backend | EVFLAG_NOENV);

    ck_assert_msg(loop != NULL, "libev has no back-end %u", backend);
    ck_assert_uint_eq(ev_backend(loop), backend);
    return loop;
}

static void too_late(EV_P_ ev_timer *w, int revents)
{
    (void)revents;
    ev_timer_stop(EV_A_ w);
    ck_abort_msg("a wake-up was lost: the loop sleeps, and nothing is over");
}

/* Runs the loop until a callback breaks it or no other watcher is left; fails after WAIT_MS. */
static void run_loop(EV_P)
{
    ev_timer limit;

    ev_timer_init(&limit, too_late, WAIT_MS / 1e3, 0);
    ev_now_update(EV_A);
    ev_timer_start(EV_A_ & limit);
    ev_unref(EV_A);
    ev_run(EV_A_ 0);
    ev_ref(EV_A);
    ev_timer_stop(EV_A_ & limit);
}

/* ---- Wake-ups ------------------------------------------------------------------------ */

struct game { /* the data of the watchers of one loop; owned by the loop's thread */
    struct player players[2];
    int callbacks;
};

static void game_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct game *game = w->data;

    ck_assert(count >= 1 && count <= EXS_EV_BATCH);
    game->callbacks++;
    for (int i = 0; i < count; i++)
        player_event(events[i].exs_evt_ahandle, &events[i]);
    if (player_is_over(&game->players[0]) && player_is_over(&game->players[1]))
        ev_break(EV_A_ EVBREAK_ALL);
}

static void play_in_loop(EV_P_ struct pair *pair, exs_qhandle_t client_queue, exs_qhandle_t server_queue,
                         uint64_t seed, int rounds)
{
    struct game game = {.callbacks = 0};
    exs_ev watchers[2];
    exs_qhandle_t queues[2] = {client_queue, server_queue};
    int count = client_queue == server_queue ? 1 : 2;

    for (int i = 0; i < count; i++) {
        watchers[i].data = &game;
        exs_ev_init(&watchers[i], game_cb, queues[i]);
        ck_assert_ptr_eq(watchers[i].data, &game);
        ck_assert(!exs_ev_is_active(&watchers[i]));
        exs_ev_start(EV_A_ & watchers[i]);
        ck_assert(exs_ev_is_active(&watchers[i]));
    }
    player_open(&game.players[0], pair->server, server_queue, true, rounds, 20000, seed);
    player_open(&game.players[1], pair->client, client_queue, false, rounds, 20000, seed);
    run_loop(EV_A);
    ck_assert_msg(ev_iteration(EV_A) <= 30U * (unsigned)rounds + 100, "%u iterations for %d rounds",
                  ev_iteration(EV_A), rounds);
    for (int i = 0; i < count; i++)
        exs_ev_stop(EV_A_ & watchers[i]);
    player_close(&game.players[0]);
    player_close(&game.players[1]);
}

START_TEST(two_queues)
{
    EV_P = new_loop(backends[_i]);
    struct chance chance = chance_new();
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    play_in_loop(EV_A_ & pair, pair.client_box->queue, pair.server_box->queue, chance_next(&chance), 2000);
    pair_close(&pair);
    ev_loop_destroy(EV_A);
}
END_TEST

START_TEST(one_queue)
{
    EV_P = new_loop(backends[_i]);
    struct chance chance = chance_new();
    struct inbox box;
    struct pair pair;

    inbox_open(&box, 4);
    pair_open_on(&pair, AF_INET6, SOCK_SEQPACKET, &box, &box);
    play_in_loop(EV_A_ & pair, box.queue, box.queue, chance_next(&chance), 2000);
    pair_close(&pair);
    inbox_close(&box);
    ev_loop_destroy(EV_A);
}
END_TEST

/* The loop watches only the queues that the operations name, not those that own the sockets. */
START_TEST(other_queues)
{
    EV_P = new_loop(backends[_i]);
    struct chance chance = chance_new();
    struct inbox others[2];
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&others[0], 4);
    inbox_open(&others[1], 4);
    play_in_loop(EV_A_ & pair, others[0].queue, others[1].queue, chance_next(&chance), 2000);
    pair_close(&pair);
    inbox_close(&others[0]);
    inbox_close(&others[1]);
    ev_loop_destroy(EV_A);
}
END_TEST

static void *loop_of_a_thread(void *arg)
{
    EV_P = new_loop(*(unsigned *)arg);
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    play_in_loop(EV_A_ & pair, pair.client_box->queue, pair.server_box->queue, *(unsigned *)arg, 1500);
    pair_close(&pair);
    ev_loop_destroy(EV_A);
    return NULL;
}

START_TEST(loops_in_two_threads)
{
    unsigned chosen[2] = {backends[_i], EVBACKEND_EPOLL};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        threads[i] = thread_start(loop_of_a_thread, &chosen[i]);
    for (int i = 0; i < 2; i++)
        thread_join(threads[i]);
}
END_TEST

/* ---- Sleep --------------------------------------------------------------------------- */

static void no_event(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)loop;
    (void)w;
    ck_abort_msg("nobody asked for a %s, the first of %d events", exs_strevent(events[0].exs_evt_type), count);
}

static void break_loop(EV_P_ ev_timer *w, int revents)
{
    (void)w;
    (void)revents;
    ev_break(EV_A_ EVBREAK_ALL);
}

static void run_for(EV_P_ double seconds)
{
    ev_timer timer;

    ev_timer_init(&timer, break_loop, seconds, 0);
    ev_now_update(EV_A);
    ev_timer_start(EV_A_ & timer);
    ev_run(EV_A_ 0);
    ev_timer_stop(EV_A_ & timer);
}

START_TEST(idle_loop_sleeps)
{
    EV_P = new_loop(backends[_i]);
    struct pair pair;
    exs_ev watchers[2];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (uint64_t i = 0; i < 20; i++)
        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1 + i * 3000, i);
    for (int i = 0; i < 2; i++) {
        exs_ev_init(&watchers[i], no_event, i ? pair.client_box->queue : pair.server_box->queue);
        exs_ev_start(EV_A_ & watchers[i]);
    }
    run_for(EV_A_ 0.05);
    unsigned before = ev_iteration(EV_A);
    double cpu = seconds_of_cpu();
    run_for(EV_A_ 0.2);
    cpu = seconds_of_cpu() - cpu;
    unsigned turns = ev_iteration(EV_A) - before;
    ck_assert_msg(turns <= 5 && cpu < 0.02, "%u turns and %.3f s of CPU in 0.2 s of nothing", turns, cpu);
    for (int i = 0; i < 2; i++)
        exs_ev_stop(EV_A_ & watchers[i]);
    pair_close(&pair);
    ev_loop_destroy(EV_A);
}
END_TEST

/* ---- What a callback may do ---------------------------------------------------------- */

struct tally { /* the data of one watcher */
    struct pair *pair;
    exs_qhandle_t queue;
    int callbacks, events;
    int stop_at; /* the callback stops the watcher after this number of events */
};

static void tally_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct tally *t = w->data;

    (void)events;
    ck_assert(count >= 1 && count <= EXS_EV_BATCH);
    ck_assert_int_lt(t->events, t->stop_at); /* the watcher calls nothing after it was stopped */
    t->callbacks++;
    t->events += count;
    if (t->events >= t->stop_at)
        exs_ev_stop(EV_A_ w);
}

/* Every event arrives, although the callback stops the watcher after each batch and the test starts it again. */
START_TEST(stop_and_start)
{
    EV_P = new_loop(backends[_i]);
    struct pair pair;
    struct inbox box;
    enum { EVENTS = 200 };
    struct tally tally = {.stop_at = 1};
    exs_ev watcher = {.data = &tally};

    pair_open(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, EVENTS);
    owe_events(&pair, box.queue, EVENTS);
    exs_ev_init(&watcher, tally_cb, box.queue);
    while (tally.events < EVENTS) {
        exs_ev_start(EV_A_ & watcher);
        run_loop(EV_A); /* ends when the callback stops the watcher */
        tally.stop_at = tally.events + 1;
    }
    ck_assert_int_eq(tally.events, EVENTS);
    ck_assert_int_ge(tally.callbacks, EVENTS / EXS_EV_BATCH);
    ck_assert(!exs_ev_is_active(&watcher));
    pair_close(&pair);
    inbox_close(&box);
    ev_loop_destroy(EV_A);
}
END_TEST

/* Closes the sockets. After the last event it deletes the queue and frees the watcher. */
static void end_it_all(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct tally *t = w->data;

    for (int i = 0; i < count; i++, t->events++) {
        if (events[i].exs_evt_type != EXS_EVT_RECV)
            continue;
        must(exs_close(t->pair->client, 0, t->queue, NULL));
        must(exs_close(t->pair->server, 0, t->queue, NULL));
        must(exs_close(t->pair->listener, 0, t->queue, NULL));
    }
    if (t->events < 4)
        return;
    exs_ev_stop(EV_A_ w);
    must(exs_qdelete(t->queue));
    free(w);
}

START_TEST(close_and_delete)
{
    EV_P = new_loop(backends[_i]);
    struct pair pair;
    struct inbox box;
    char byte;

    inbox_open(&box, 4);
    pair_open_on(&pair, AF_INET, SOCK_STREAM, &box, &box);
    struct tally tally = {.pair = &pair, .queue = box.queue};
    exs_ev *watcher = new_buffer(sizeof *watcher);
    watcher->data = &tally;
    exs_ev_init(watcher, end_it_all, box.queue);
    exs_ev_start(EV_A_ watcher);
    must(exs_recv(pair.server, &byte, 1, 0, box.queue, NULL, NULL));
    must(exs_send(pair.client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    run_loop(EV_A);
    ck_assert_int_eq(tally.events, 4);
    must_fail(exs_qdelete(tally.queue), EINVAL);
    free(box.kept);
    ev_loop_destroy(EV_A);
}
END_TEST

START_TEST(another_queue)
{
    EV_P = new_loop(EVBACKEND_EPOLL);
    struct pair pair;
    struct inbox boxes[2];
    struct tally tally = {.stop_at = 3};
    exs_ev watcher = {.data = &tally};

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_ev_init(&watcher, tally_cb, pair.server_box->queue);
    for (int i = 0; i < 2; i++) {
        inbox_open(&boxes[i], 4);
        owe_events(&pair, boxes[i].queue, 3);
        exs_ev_set(&watcher, boxes[i].queue);
        exs_ev_start(EV_A_ & watcher);
        run_loop(EV_A);
        ck_assert_int_eq(tally.events, 3 * (i + 1));
        tally.stop_at = 6;
    }
    pair_close(&pair);
    inbox_close(&boxes[0]);
    inbox_close(&boxes[1]);
    ev_loop_destroy(EV_A);
}
END_TEST

/* ---- libev's own rules --------------------------------------------------------------- */

START_TEST(unref_lets_the_loop_end)
{
    EV_P = ev_default_loop(EVFLAG_NOENV);
    struct pair pair;
    exs_ev watcher;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    exs_ev_init(&watcher, no_event, pair.client_box->queue);
    exs_ev_start(EV_A_ & watcher);
    ev_unref(EV_A);
    double start = seconds_now();
    ev_run(EV_A_ 0);
    ck_assert(seconds_now() - start < LATE_S);
    ck_assert(exs_ev_is_active(&watcher));
    ev_ref(EV_A);
    exs_ev_stop(EV_A_ & watcher);
    pair_close(&pair);
}
END_TEST

static int order[4], order_count;

static void order_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)events;
    ck_assert_int_eq(count, 1);
    order[order_count++] = exs_ev_priority(w);
    exs_ev_stop(EV_A_ w);
}

START_TEST(priorities)
{
    static const int priorities[] = {0, -2, 2};
    EV_P = new_loop(backends[_i]);
    struct pair pair;
    struct inbox boxes[3];
    exs_ev watchers[3];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < 3; i++) {
        inbox_open(&boxes[i], 1);
        exs_ev_init(&watchers[i], order_cb, boxes[i].queue);
        exs_ev_set_priority(&watchers[i], priorities[i]);
        owe_events(&pair, boxes[i].queue, 1);
        struct pollfd wait = {.fd = exs_qfd(boxes[i].queue), .events = POLLIN};
        ck_assert_int_eq(poll(&wait, 1, WAIT_MS), 1);
        exs_ev_start(EV_A_ & watchers[i]);
    }
    run_loop(EV_A);
    ck_assert_int_eq(order_count, 3);
    ck_assert(order[0] == 2 && order[1] == 0 && order[2] == -2);
    pair_close(&pair);
    for (int i = 0; i < 3; i++)
        inbox_close(&boxes[i]);
    ev_loop_destroy(EV_A);
}
END_TEST

/* ---- Blocking calls ------------------------------------------------------------------ */

static bool inside; /* a blocking call is running in the loop's thread */

static void not_inside(EV_P_ ev_timer *w, int revents)
{
    (void)revents;
    ck_assert_msg(!inside, "a blocking call ran the user's timer");
    ++*(int *)w->data;
    (void)loop;
}

static void not_inside_either(EV_P_ ev_prepare *w, int revents)
{
    (void)loop;
    (void)w;
    (void)revents;
    ck_assert_msg(!inside, "a blocking call ran the user's prepare watcher");
}

#define ECHOES 20

static void *blocking_client(void *arg)
{
    struct pair *pair = arg;
    char line[16];

    for (int i = 0; i < ECHOES; i++) {
        ck_assert_int_eq(exs_write(pair->client, "hello", 5), 5);
        poll(NULL, 0, 5); /* long enough that the timer expires during the server's call */
        ck_assert_int_eq(exs_write(pair->client, "world", 5), 5);
        ck_assert_int_eq(exs_blocking_recv(pair->client, line, 10, MSG_WAITALL, NULL), 10);
        ck_assert_mem_eq(line, "helloworld", 10);
    }
    return NULL;
}

/* The callback makes a blocking receive of the second half, and a blocking send while the next asynchronous
 * receive is pending. */
static void echo_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    static char first[5];
    struct tally *t = w->data;
    char both[10];

    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(events->exs_evt_type, EXS_EVT_RECV);
    ck_assert_int_eq(events->exs_evt_errno, 0);
    memcpy(both, events->exs_evt_union.exs_evt_xfer.exs_evt_buffer, 5);
    inside = true;
    ck_assert_int_eq(exs_blocking_recv(t->pair->server, both + 5, 5, MSG_WAITALL, NULL), 5);
    if (++t->events < ECHOES)
        must(exs_recv(t->pair->server, first, 5, MSG_WAITALL, t->queue, NULL, NULL));
    ck_assert_int_eq(exs_blocking_send(t->pair->server, both, 10, 0, NULL), 10);
    inside = false;
    if (t->events == ECHOES)
        ev_break(EV_A_ EVBREAK_ALL);
}

START_TEST(blocking_in_a_callback)
{
    EV_P = new_loop(backends[_i]);
    struct pair pair;
    char first[5];
    int ticks = 0;
    ev_timer timer;
    ev_prepare prepare;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct tally tally = {.pair = &pair, .queue = pair.server_box->queue};
    exs_ev watcher = {.data = &tally};
    exs_ev_init(&watcher, echo_cb, tally.queue);
    exs_ev_start(EV_A_ & watcher);
    ev_timer_init(&timer, not_inside, 0.001, 0.001);
    timer.data = &ticks;
    ev_timer_start(EV_A_ & timer);
    ev_prepare_init(&prepare, not_inside_either);
    ev_prepare_start(EV_A_ & prepare);
    must(exs_recv(pair.server, first, 5, MSG_WAITALL, tally.queue, NULL, NULL));
    pthread_t thread = thread_start(blocking_client, &pair);
    run_loop(EV_A);
    thread_join(thread);
    ck_assert_int_eq(tally.events, ECHOES);
    ck_assert_int_gt(ticks, 0);
    exs_ev_stop(EV_A_ & watcher);
    ev_timer_stop(EV_A_ & timer);
    ev_prepare_stop(EV_A_ & prepare);
    pair_close(&pair);
    ev_loop_destroy(EV_A);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loop");
    TCase *wake = add_case(suite, "wake-ups", 30), *threads = add_case(suite, "threads", 30),
          *sleep = add_case(suite, "sleep", 10), *callback = add_case(suite, "callbacks", 20),
          *rules = add_case(suite, "libev's rules", 20);

    tcase_add_loop_test(wake, two_queues, 0, COUNT(backends));
    tcase_add_loop_test(wake, one_queue, 0, COUNT(backends));
    tcase_add_loop_test(wake, other_queues, 0, COUNT(backends));
    tcase_add_loop_test(threads, loops_in_two_threads, 0, COUNT(backends));
    tcase_add_loop_test(sleep, idle_loop_sleeps, 0, COUNT(backends));
    tcase_add_loop_test(callback, stop_and_start, 0, COUNT(backends));
    tcase_add_loop_test(callback, close_and_delete, 0, COUNT(backends));
    tcase_add_test(callback, another_queue);
    tcase_add_loop_test(callback, blocking_in_a_callback, 0, COUNT(backends));
    tcase_add_test(rules, unref_lets_the_loop_end);
    tcase_add_loop_test(rules, priorities, 0, COUNT(backends));
    return run_suite(suite);
}
