/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_glance.c - a libev loop whose queue does not busy-poll (EXS_WAIT_NOTIFY) still polls the queue once after a
 * callback, before epoll_wait(). It finds messages that arrived during the callback. It polls at most once per
 * iteration, only if no other watcher is pending, and with exponential backoff after empty polls.
 */
#include <poll.h>
#include <exs_ev.h>
#include "check/support/support.h"

#define MESSAGES 64

struct game {
    struct pair pair;
    struct ev_loop *loop;
    exs_ev watcher;
    char bytes[MESSAGES];
    int brought, seen;
    int during;               /* while fewer messages than this were seen, each callback brings another one */
    unsigned turns[MESSAGES]; /* the loop's iteration in which each message was seen */
};

static bool is_readable(const struct game *game, int within_ms)
{
    struct pollfd watch = {.fd = exs_qfd(game->pair.client_box->queue), .events = POLLIN};

    return poll(&watch, 1, within_ms) == 1;
}

/* Sends a message, and waits until it has arrived. */
static void bring(struct game *game)
{
    exs_event_t none;

    ck_assert_int_lt(game->brought, MESSAGES);
    must(exs_recv(game->pair.client, &game->bytes[game->brought], 1, 0, game->pair.client_box->queue, NULL,
                  NULL));
    must(exs_send(game->pair.server, "!", 1, EXS_UNSIGNALED, game->pair.server_box->queue, NULL, NULL));
    ck_assert_int_eq(exs_qdequeue(game->pair.server_box->queue, &none, 1, &(struct timeval){0}), 0);
    ck_assert_msg(is_readable(game, WAIT_MS), "message %d did not come", game->brought);
    game->brought++;
}

static void seen_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct game *game = w->data;

    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(events->exs_evt_type, EXS_EVT_RECV);
    ck_assert_int_eq(events->exs_evt_errno, 0);
    ck_assert_int_eq(game->bytes[game->seen], '!');
    game->turns[game->seen++] = ev_iteration(EV_A);
    if (game->seen < game->during)
        bring(game);
}

static void open_game(struct game *game)
{
    memset(game, 0, sizeof(*game));
    pair_open(&game->pair, AF_INET, SOCK_STREAM);
    must(
        exs_qmodify(game->pair.client_box->queue, EXS_QATTR_WAIT, &(exs_qattr_t){.exs_wait = EXS_WAIT_NOTIFY}));
    inbox_quiet(game->pair.client_box, QUIET_MS);
    inbox_quiet(game->pair.server_box, QUIET_MS);
    game->loop = ev_loop_new(EVFLAG_AUTO);
    ck_assert_ptr_nonnull(game->loop);
    game->watcher.data = game;
    exs_ev_init(&game->watcher, seen_cb, game->pair.client_box->queue);
    exs_ev_start(game->loop, &game->watcher);
}

/* Also checks that nothing is left that would wake the loop without an event. */
static void close_game(struct game *game)
{
    exs_ev_stop(game->loop, &game->watcher);
    inbox_quiet(game->pair.client_box, QUIET_MS);
    ck_assert(!is_readable(game, 0));
    ev_loop_destroy(game->loop);
    pair_close(&game->pair);
}

static void run_until_seen(struct game *game, int messages)
{
    while (game->seen < messages)
        ev_run(game->loop, EVRUN_ONCE);
    ck_assert_int_eq(game->seen, messages);
}

START_TEST(once_in_a_turn)
{
    struct game game;

    open_game(&game);
    game.during = 4;
    bring(&game);
    run_until_seen(&game, 4);
    ck_assert_uint_eq(game.turns[1], game.turns[0]);
    ck_assert_uint_gt(game.turns[2], game.turns[1]);
    ck_assert_uint_eq(game.turns[3], game.turns[2]);
    ck_assert(!is_readable(&game, 0));
    close_game(&game);
}
END_TEST

static void other_cb(EV_P_ ev_io *w, int revents)
{
    struct game *game = w->data;

    (void)revents;
    ck_assert_int_eq(game->seen, 1);
    ev_io_stop(EV_A_ w);
}

/* Another watcher is pending, with a lower priority: its callback runs before the second message's. */
START_TEST(others_are_due)
{
    struct game game;
    ev_io other;
    int ends[2];

    open_game(&game);
    must(pipe(ends));
    ck_assert_int_eq(write(ends[1], "", 1), 1);
    ev_io_init(&other, other_cb, ends[0], EV_READ);
    ev_set_priority(&other, EV_MINPRI);
    other.data = &game;
    ev_io_start(game.loop, &other);
    game.during = 2;
    bring(&game);
    run_until_seen(&game, 2);
    ck_assert_uint_gt(game.turns[1], game.turns[0]);
    ck_assert(!ev_is_active(&other));
    must(close(ends[0]) | close(ends[1]));
    close_game(&game);
}
END_TEST

/* After an empty poll the next one is skipped, then three, then seven. A successful poll resets this. */
START_TEST(is_empty)
{
    struct game game;
    bool is_tried = _i == 0 || _i == 2 || _i == 6 || _i == 14;

    open_game(&game);
    for (int i = 0; i < _i; i++) {
        bring(&game);
        run_until_seen(&game, i + 1);
    }
    for (int i = 0; i < 2; i++) {
        int before = game.seen;

        game.during = before + 2;
        bring(&game);
        run_until_seen(&game, before + 2);
        ck_assert_int_eq(game.turns[before] == game.turns[before + 1], is_tried);
        if (!is_tried)
            break;
    }
    close_game(&game);
}
END_TEST

static void stopping_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct game *game = w->data;

    seen_cb(EV_A_ w, events, count);
    bring(game);
    exs_ev_stop(EV_A_ w);
}

/* A callback that stops its watcher is not called again. */
START_TEST(stopped)
{
    struct game game;

    open_game(&game);
    game.watcher.cb = stopping_cb;
    bring(&game);
    ev_run(game.loop, 0); /* returns because the loop has no watcher */
    ck_assert_int_eq(game.seen, 1);
    game.watcher.cb = seen_cb;
    exs_ev_start(game.loop, &game.watcher);
    run_until_seen(&game, 2);
    close_game(&game);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("glance");
    TCase *tcase = add_case(suite, "between the turns of a loop", 60);

    tcase_add_test(tcase, once_in_a_turn);
    tcase_add_test(tcase, others_are_due);
    tcase_add_loop_test(tcase, is_empty, 0, 15);
    tcase_add_test(tcase, stopped);
    return run_suite(suite);
}
