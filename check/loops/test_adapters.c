/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_adapters.c - event queues in other libraries' loops, through the adapters. Each case is written once and
 * runs on each loop (loops.h): each loop exchanges messages with each other one, other descriptors of a loop do
 * not starve, an idle loop sleeps, and a busy one polls. callbacks.c tests what callbacks may do, and orders.c
 * the orders in which a watcher and its queue may end. If configure did not find a loop's library the program
 * prints its name and exits with 77.
 */
#include "check/support/player.h"
#include "check/exs/inside.h"
#include "core/queue/nic.h"
#include "adapters.h"

#include <poll.h>
#include <sys/eventfd.h>
#ifdef WITH_GLIB
#include <exs_glib.h>
#endif

/* ---- Each loop with each ---------------------------------------------------------------- */

enum { ROUNDS = 300 };

struct side { /* a player in its own loop; owned by the side's thread */
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
    int between; /* callbacks of queues since the other descriptor's last one */
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

/* The other descriptor is always ready, and both ends are in this loop. */
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

/* ---- An idle loop ---------------------------------------------------------------------- */

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
    turns_for(&timer, _i, loop, 50); /* complete pending work */
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

/* ---- Between two events ---------------------------------------------------------------------- */

struct chain { /* each callback but the last makes the peer send another message */
    struct pair *pair;
    char byte;
    int left, callbacks;
    int turn; /* number of the loop's current iteration */
    int of_first;
    int in_first; /* number of callbacks in the iteration of the first one */
};

static void bring_next(struct chain *chain)
{
    exs_qhandle_t queue = chain->pair->client_box->queue;
    struct pollfd ready = {.fd = exs_qfd(queue), .events = POLLIN};

    chain->left--;
    must(exs_recv(chain->pair->client, &chain->byte, 1, 0, queue, NULL, NULL));
    must(exs_send(chain->pair->server, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    ck_assert_int_eq(poll(&ready, 1, WAIT_MS), 1);
}

static void chain_cb(struct watch *w, exs_event_t *events, int count)
{
    struct chain *chain = w->data;

    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(events->exs_evt_type, EXS_EVT_RECV);
    if (chain->callbacks++ == 0)
        chain->of_first = chain->turn;
    chain->in_first += chain->turn == chain->of_first;
    if (chain->left > 0)
        bring_next(chain);
}

/* The adapter busy-polls after a callback, and calls back again without returning to the loop. With busy
 * polling disabled it polls once. */
START_TEST(polls_after_a_callback)
{
    enum { MESSAGES_HERE = 5 };
    bool spins = _i % 2 == 1;
    int kind = _i / 2;
    void *loop = kinds_here[kind]->open();
    exs_qattr_t mode = {.exs_wait = spins ? EXS_WAIT_ADAPTIVE : EXS_WAIT_NOTIFY,
                        .exs_wait_us = spins ? EXS_WAIT_US_MAX : 0};
    struct pair pair;
    struct watch w;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct chain chain = {.pair = &pair, .left = MESSAGES_HERE};

    inbox_quiet(pair.client_box, QUIET_MS);
    must(exs_qmodify(pair.client_box->queue, EXS_QATTR_WAIT, &mode));
    bring_next(&chain);
    watch_open(&w, kind, loop, pair.client_box->queue, chain_cb, &chain);
    for (; chain.callbacks < MESSAGES_HERE; chain.turn++)
        w.kind->turn(loop);
    ck_assert_int_eq(chain.in_first, spins ? MESSAGES_HERE : 2);
    w.kind->drop(&w);
    w.kind->close(loop);
    pair_close(&pair);
}
END_TEST

/* The device has delayed an acknowledgement, to send it along with an answer. The adapter makes it send this
 * before the loop sleeps. */
START_TEST(sends_before_it_sleeps)
{
    void *loop = kinds_here[_i]->open();
    struct pair pair;
    struct watch w;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct chain chain = {.pair = &pair, .left = 1};
    const struct nic *nic = conn_of(pair.client)->nic;

    service_suspend(service_of(pair.client)); /* the service thread would send it later */
    bring_next(&chain);
    watch_open(&w, _i, loop, pair.client_box->queue, chain_cb, &chain);
    while (chain.callbacks == 0) {
        w.kind->turn(loop);
        ck_assert(!xs_nic_waits(nic));
    }
    w.kind->drop(&w);
    w.kind->close(loop);
    pair_close(&pair);
}
END_TEST

#ifdef WITH_GLIB
/* A source without a callback leaves the events in the queue. */
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

int main(void)
{
    int missing = find_kinds();
    Suite *suite = suite_create("adapters");
    TCase *each = add_case(suite, "each against each", 30), *others = add_case(suite, "others", 30),
          *sleep = add_case(suite, "sleep", 10), *callback = add_case(suite, "callbacks", 20),
          *orders = add_case(suite, "orders", 60);

    tcase_add_loop_test(each, each_against_each, 0, kinds_count * kinds_count);
    tcase_add_loop_test(others, others_keep_their_turns, 0, kinds_count);
    tcase_add_loop_test(sleep, idle_loop_sleeps, 0, kinds_count);
    tcase_add_loop_test(sleep, polls_after_a_callback, 0, kinds_count * 2);
    tcase_add_loop_test(sleep, sends_before_it_sleeps, 0, kinds_count);
    add_callback_tests(callback);
    add_order_tests(orders);
#ifdef WITH_GLIB
    tcase_add_test(callback, glib_without_callback);
#endif
    int failed = run_suite(suite);
    const char *strict = getenv("EXS_NO_SKIP");

    return failed || (missing && strict && *strict) ? 1 : missing ? 77 : 0;
}
