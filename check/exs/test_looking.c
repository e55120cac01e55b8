/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_looking.c - busy polling on the software device's shared memory, by blocking calls or in a libev loop:
 * the loop needs no iteration for each event, and nothing that arrives after polling has stopped is lost.
 *
 * The test replaces the clock. Where `own_clock` is set, the time of a thread advances only when that thread
 * reads it, so that a busy machine does not look like CPU contention to the library. The service thread uses
 * the system's clock.
 */
#include "check/support/support.h"

#include <exs_ev.h>
#include "own_clock.h"

enum { ROUNDS = 400, FEW = ROUNDS / 8 };
#define LONG "1000000" /* us */

static void init_looking(void)
{
    must(setenv("EXS_SPIN", LONG, 1));
    must(setenv("EXS_LINK", "shm", 1));
    init_library();
}

/* ---- Blocking calls ------------------------------------------------------------------- */

static void round_trip(int from_and_to, char byte)
{
    char answer;

    ck_assert_int_eq(exs_blocking_send(from_and_to, &byte, 1, 0, NULL), 1);
    ck_assert_int_eq(exs_blocking_recv(from_and_to, &answer, 1, 0, NULL), 1);
    ck_assert_int_eq(answer, byte);
}

static void *echo(void *argument)
{
    const struct pair *pair = argument;
    char byte;

    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(exs_blocking_recv(pair->server, &byte, 1, 0, NULL), 1);
        ck_assert_int_eq(exs_blocking_send(pair->server, &byte, 1, 0, NULL), 1);
    }
    return NULL;
}

static void *echo_in_own_time(void *pair)
{
    own_clock = true;
    return echo(pair);
}

START_TEST(who_calls_looks)
{
    struct pair pair;

    init_looking();
    pair_open_blocking(&pair, PF_INET, SOCK_STREAM);
    pthread_t thread = thread_start(echo_in_own_time, &pair);

    own_clock = true;
    for (int i = 0; i < ROUNDS; i++)
        round_trip(pair.client, (char)i);
    own_clock = false;
    thread_join(thread);
    pair_close_blocking(&pair);
}
END_TEST

/* The client stops polling. Its device receives the data all the same and wakes it. */
START_TEST(whoever_stops_is_rung_for)
{
    struct pair pair;
    char byte = 5;

    init_looking();
    pair_open_blocking(&pair, PF_INET, SOCK_STREAM);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(exs_blocking_send(pair.server, &byte, 1, 0, NULL), 1);
        ck_assert_int_eq(exs_blocking_recv(pair.client, &byte, 1, 0, NULL), 1);
        /* The client does not poll now: its service thread sends the acknowledgements of these. */
        for (int more = 0; more < 4; more++)
            ck_assert_int_eq(exs_blocking_send(pair.server, &byte, 1, 0, NULL), 1);
        for (int more = 0; more < 4; more++)
            ck_assert_int_eq(exs_blocking_recv(pair.client, &byte, 1, 0, NULL), 1);
    }
    pair_close_blocking(&pair);
}
END_TEST

/* ---- A libev loop --------------------------------------------------------------------- */

struct game {
    struct pair pair;
    int rounds;
    char byte;
    bool stops; /* the callback stops the watcher every 16 rounds */
};

static void ask(struct game *game)
{
    exs_qhandle_t queue = game->pair.client_box->queue;

    must(exs_recv(game->pair.client, &game->byte, 1, 0, queue, NULL, NULL));
    must(exs_send(game->pair.client, "?", 1, EXS_UNSIGNALED, queue, NULL, NULL));
}

static void answered(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct game *game = w->data;

    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(events->exs_evt_type, EXS_EVT_RECV);
    ck_assert_int_eq(events->exs_evt_errno, 0);
    if (++game->rounds < ROUNDS)
        ask(game);
    /* Stop polling, also after the last round: on the test's clock, polling for a second means a million polls,
     * each of which yields the CPU. */
    if (game->rounds == ROUNDS || (game->stops && game->rounds % 16 == 0)) {
        exs_ev_stop(EV_A_ w);
        ev_break(EV_A_ EVBREAK_ALL);
    }
}

/* Attaches a listener's queue to the queue, as every server does. */
static int listen_on(exs_qhandle_t queue)
{
    static exs_acceptaddr_t accepted;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(exs_bind(listener, (struct sockaddr *)&any, sizeof any));
    must(exs_listen(listener, 1));
    must(exs_accept(listener, &accepted, 1, 0, queue));
    return listener;
}

/* Resets what the library has measured while connecting, when the CPU may have been contended. */
static void forget(exs_qhandle_t queue)
{
    const exs_qattr_t looks = {.exs_wait = EXS_WAIT_ADAPTIVE, .exs_wait_us = EXS_WAIT_US_MAX};

    must(exs_qmodify(queue, EXS_QATTR_WAIT, &looks));
}

static void play(struct game *game, struct ev_loop *loop)
{
    exs_ev watcher = {.data = game};

    exs_ev_init(&watcher, answered, game->pair.client_box->queue);
    exs_ev_start(loop, &watcher);
    ask(game);
    ev_run(loop, 0);
    while (game->rounds < ROUNDS) {
        ck_assert(game->stops && !exs_ev_is_active(&watcher));
        exs_ev_start(loop, &watcher);
        ev_run(loop, 0);
    }
}

START_TEST(a_loop_is_not_gone_through)
{
    struct game game = {.rounds = 0};
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);

    init_looking();
    pair_open(&game.pair, PF_INET, SOCK_STREAM);
    int listener = listen_on(game.pair.client_box->queue);

    own_clock = true;
    forget(game.pair.client_box->queue);
    pthread_t thread = thread_start(echo_in_own_time, &game.pair);

    play(&game, loop);
    own_clock = false;
    ck_assert_int_eq(game.rounds, ROUNDS);
    ck_assert_uint_le(ev_iteration(loop), FEW);
    thread_join(thread);
    exs_event_t event;

    must(exs_blocking_close(listener));
    ck_assert_int_eq(exs_qdequeue(game.pair.client_box->queue, &event, 1, NULL), 1);
    ck_assert_int_eq(event.exs_evt_errno, ECANCELED);
    pair_close(&game.pair);
    ev_loop_destroy(loop);
}
END_TEST

/* A watcher that is started again misses no event of the time when it was stopped. */
START_TEST(a_stopped_watcher_looks_no_more)
{
    struct game game = {.stops = true};
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);

    init_looking();
    pair_open(&game.pair, PF_INET, SOCK_STREAM);
    pthread_t thread = thread_start(echo, &game.pair);

    play(&game, loop);
    ck_assert_int_eq(game.rounds, ROUNDS);
    thread_join(thread);
    inbox_quiet(game.pair.client_box, QUIET_MS);
    pair_close(&game.pair);
    ev_loop_destroy(loop);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("looking");
    TCase *calls = new_case(suite, "by calls");
    TCase *loops = new_case(suite, "in a loop");

    tcase_set_timeout(calls, 60);
    tcase_set_timeout(loops, 60);
    tcase_add_test(calls, who_calls_looks);
    tcase_add_test(calls, whoever_stops_is_rung_for);
    tcase_add_test(loops, a_loop_is_not_gone_through);
    tcase_add_test(loops, a_stopped_watcher_looks_no_more);
    return run_suite(suite);
}
