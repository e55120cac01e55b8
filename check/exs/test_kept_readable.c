/* SPDX-License-Identifier: BSD-2-Clause */
/* test_kept_readable.c - a busy-polling watcher keeps its descriptor readable. This must not make the loop spin after
 * busy polling was switched off, nor a callback that dequeues from the queue. */
#include "check/support/support.h"

#include <exs_ev.h>
#include <time.h>

#define LONG "1000000" /* microseconds; equal to EXS_WAIT_US_MAX */
#define LOOP "100000"
#define SHORT_US 50

enum { FEW = 50 }; /* maximum number of iterations of a sleeping loop in a tenth of a second */

static void init_with(const char *spin)
{
    must(setenv("EXS_SPIN", spin, 1));
    init_library();
}

static void set_mode(exs_qhandle_t queue, int mode, int us)
{
    must(exs_qmodify(queue, EXS_QATTR_WAIT, &(exs_qattr_t){.exs_wait = mode, .exs_wait_us = us}));
}

static void is_received(const exs_event_t *events, int count)
{
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(events->exs_evt_type, EXS_EVT_RECV);
    ck_assert_int_eq(events->exs_evt_errno, 0);
}

static void pass_one(const struct pair *pair, char *byte)
{
    must(exs_recv(pair->client, byte, 1, 0, pair->client_box->queue, NULL, NULL));
    must(exs_send(pair->server, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
}

static void received(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)loop;
    (void)w;
    is_received(events, count);
}

static void look_no_more(EV_P_ ev_timer *w, int revents)
{
    (void)revents;
    set_mode(w->data, EXS_WAIT_NOTIFY, 0);
    ev_break(EV_A_ EVBREAK_ALL);
}

static void break_loop(EV_P_ ev_timer *w, int revents)
{
    (void)w;
    (void)revents;
    ev_break(EV_A_ EVBREAK_ALL);
}

static unsigned turns_in(EV_P_ double seconds)
{
    unsigned before = ev_iteration(EV_A);
    ev_timer timer;

    ev_timer_init(&timer, break_loop, seconds, 0);
    ev_now_update(EV_A);
    ev_timer_start(EV_A_ & timer);
    ev_run(EV_A_ 0);
    return ev_iteration(EV_A) - before;
}

/* Busy polling is switched off between two iterations, while the watcher keeps its descriptor readable because the
 * polling time has not expired. */
START_TEST(a_loop_that_looks_no_more_sleeps)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    exs_ev watcher = {.data = NULL};
    ev_timer change;
    struct pair pair;
    char byte = 0;

    init_with(LOOP);
    pair_open(&pair, PF_INET, SOCK_STREAM);
    exs_ev_init(&watcher, received, pair.client_box->queue);
    exs_ev_start(loop, &watcher);
    pass_one(&pair, &byte);
    ev_timer_init(&change, look_no_more, 0.02, 0);
    ev_set_priority(&change, EV_MAXPRI); /* the first of the pending callbacks */
    change.data = pair.client_box->queue;
    ev_now_update(loop);
    ev_timer_start(loop, &change);
    ev_run(loop, 0);
    ck_assert_int_eq(byte, 'x');
    ck_assert_uint_le(turns_in(loop, 0.1), FEW);
    exs_ev_stop(loop, &watcher);
    pair_close(&pair);
    ev_loop_destroy(loop);
}
END_TEST

struct nap { /* a callback that sleeps in exs_qdequeue */
    struct pair pair;
    int rounds;
    unsigned turn;
    char byte;
    double cpu;        /* CPU seconds that it used */
    uint64_t dequeues; /* polls of the queue in this time */
};

static double cpu_of_thread(void)
{
    struct timespec used;

    must(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used));
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static uint64_t looks_at(exs_qhandle_t queue)
{
    exs_stats_t stats;

    must(exs_getstats(-1, queue, &stats));
    return stats.exs_turns;
}

static void dequeue_in_vain(struct nap *nap, exs_qhandle_t queue)
{
    struct timeval limit = {.tv_usec = 100000};
    double before = cpu_of_thread();
    exs_event_t event;

    nap->dequeues = looks_at(queue);
    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, &limit), 0);
    nap->dequeues = looks_at(queue) - nap->dequeues;
    nap->cpu = cpu_of_thread() - before;
}

/* The second call is in the same iteration, because the watcher busy-polls and finds the message that the first call
 * sent. */
static void take_a_nap(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct nap *nap = w->data;

    is_received(events, count);
    if (++nap->rounds == 1) {
        nap->turn = ev_iteration(EV_A);
        pass_one(&nap->pair, &nap->byte);
        return;
    }
    ck_assert_uint_eq(ev_iteration(EV_A), nap->turn);
    set_mode(w->queue, EXS_WAIT_ADAPTIVE, SHORT_US);
    dequeue_in_vain(nap, w->queue);
    exs_ev_stop(EV_A_ w);
    ev_break(EV_A_ EVBREAK_ALL);
}

START_TEST(a_callback_that_dequeues_sleeps)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    struct nap nap = {.rounds = 0};
    exs_ev watcher = {.data = &nap};

    init_with(LONG);
    pair_open(&nap.pair, PF_INET, SOCK_STREAM);
    exs_ev_init(&watcher, take_a_nap, nap.pair.client_box->queue);
    exs_ev_start(loop, &watcher);
    pass_one(&nap.pair, &nap.byte);
    ev_run(loop, 0);
    ck_assert_int_eq(nap.rounds, 2);
    ck_assert_msg(nap.cpu < 0.05, "%g s of CPU in 0.1 s of nothing", nap.cpu);
    ck_assert_uint_le(nap.dequeues, FEW);
    pair_close(&nap.pair);
    ev_loop_destroy(loop);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kept readable");
    TCase *loops = add_bare_case(suite, "loops", 20);

    tcase_add_test(loops, a_loop_that_looks_no_more_sleeps);
    tcase_add_test(loops, a_callback_that_dequeues_sleeps);
    return run_suite(suite);
}
