/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unfilled.c - the end of a burst, which fills no datagram, waits only for a loop that looks on: it comes without
 * its sender where he has none, and when the loop rests.
 */
#include "check/support/support.h"

#include <exs_ev.h>
#include "inside.h"

/* Two datagrams of 15 packets, and one packet more: so much may be under way from the start. */
enum { PACKET = 4096, TRAIN = 15 * PACKET, ALL = 2 * TRAIN + PACKET, TURNS = 1000 };

static struct pair pair;
static char *from, *to;
static exs_mhandle_t region;         /* of `to` */
static struct service_member *still; /* the sender's */

/* The peer has room for all of it, of which the sender knows. */
static void begin(const char *spin)
{
    char word;

    must(setenv("EXS_LINK", "udp", 1));
    must(setenv("EXS_SPIN", spin, 1));
    must(unsetenv("EXS_ICRC"));
    init_library();
    pair_open(&pair, AF_INET, SOCK_STREAM);
    from = new_buffer(ALL);
    to = new_buffer(ALL);
    region = exs_mregister(to, ALL, 0);
    ck_assert_ptr_ne(region, NULL);
    must(exs_recv(pair.server, to, ALL, MSG_WAITALL, pair.server_box->queue, NULL, region));
    must(exs_recv(pair.client, &word, 1, 0, pair.client_box->queue, NULL, NULL));
    must(exs_send(pair.server, "!", 1, 0, pair.server_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_RECV, pair.client);
    take_good(pair.server_box, EXS_EVT_SEND, pair.server);
    still = service_of(pair.client);
    service_suspend(still);
}

static void send_burst(void)
{
    for (size_t at = 0; at < ALL; at += TRAIN)
        must(exs_send(pair.client, from + at, at < 2 * TRAIN ? TRAIN : PACKET, 0, pair.client_box->queue, NULL,
                      NULL));
}

/* Nobody looks at the sender's device meanwhile. */
static void expect_all(void)
{
    pair.server_box->beside = NULL;
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);

    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, ALL);
    ck_assert_mem_eq(to, from, ALL);
    service_resume(still);
    for (size_t at = 0; at < ALL; at += TRAIN)
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    pair.server_box->beside = pair.client_box;
    pair_close(&pair);
    must(exs_mderegister(region, 0));
    free(from);
    free(to);
}

START_TEST(without_a_loop)
{
    begin(_i ? "1000" : "0");
    send_burst();
    expect_all();
}
END_TEST

struct turns {
    exs_ev watcher; /* first */
    bool sent;
};

static void burst_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct turns *turns = (struct turns *)w;

    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(events->exs_evt_type, EXS_EVT_RECV);
    turns->sent = true;
    send_burst();
    if (w->data != NULL)
        exs_ev_stop(EV_A_ w);
}

/* It looks for as long as it may, and rests; or its callback stops it. */
START_TEST(when_the_loop_rests)
{
    struct turns turns = {.sent = false};
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    char word;

    begin("1000");
    must(exs_recv(pair.client, &word, 1, 0, pair.client_box->queue, NULL, NULL));
    exs_ev_init(&turns.watcher, burst_cb, pair.client_box->queue);
    turns.watcher.data = _i ? &turns : NULL;
    exs_ev_start(loop, &turns.watcher);
    must(exs_send(pair.server, "?", 1, EXS_UNSIGNALED, pair.server_box->queue, NULL, NULL));
    while (!turns.sent)
        ev_run(loop, EVRUN_ONCE);
    for (int i = 0; i < TURNS; i++) /* more than it takes */
        ev_run(loop, EVRUN_NOWAIT);
    expect_all();
    exs_ev_stop(loop, &turns.watcher);
    ev_loop_destroy(loop);
}
END_TEST

/* What another watcher of the loop sends is none of a look that is over. */
START_TEST(after_the_loop_has_rested)
{
    struct turns turns = {.sent = false};
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);

    begin("1000");
    exs_ev_init(&turns.watcher, burst_cb, pair.client_box->queue);
    exs_ev_start(loop, &turns.watcher);
    for (int i = 0; i < TURNS; i++)
        ev_run(loop, EVRUN_NOWAIT);
    ck_assert(!turns.sent);
    send_burst();
    expect_all();
    exs_ev_stop(loop, &turns.watcher);
    ev_loop_destroy(loop);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unfilled");
    TCase *tcase = add_bare_case(suite, "burst", 20);

    tcase_add_loop_test(tcase, without_a_loop, 0, 2);
    tcase_add_loop_test(tcase, when_the_loop_rests, 0, 2);
    tcase_add_test(tcase, after_the_loop_has_rested);
    return run_suite(suite);
}
