/* SPDX-License-Identifier: BSD-2-Clause */
/* test_qpoll.c - exs_qpoll polls as long as its time budget allows, and returns early when an event arrives. */
#include "check/support/support.h"

#include <time.h>

#define BUDGET_US 20000

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The budget is the same each time: earlier polls that found nothing do not shorten it. */
START_TEST(budget)
{
    exs_qhandle_t queue = exs_qcreate(4);
    exs_event_t event;

    for (int i = 0; i < 5; i++) {
        double start = seconds();

        ck_assert_int_eq(exs_qpoll(queue, &event, 1, BUDGET_US), 0);
        double took = seconds() - start;

        ck_assert_msg(took >= BUDGET_US / 1e6, "it polled for %g s", took);
        ck_assert_msg(took < BUDGET_US / 1e6 + 5 * LATE_S, "it polled for %g s", took);
    }
    must(exs_qdelete(queue));
}
END_TEST

static void *send_later(void *argument)
{
    struct pair *pair = argument;

    must(exs_send(pair->client, "x", 1, EXS_BLOCK, NULL, NULL, NULL));
    return NULL;
}

/* One call finds an event that arrives while it polls, in every wait mode of the queue. */
START_TEST(found)
{
    static const exs_qattr_t modes[] = {{.exs_wait = EXS_WAIT_NOTIFY},
                                        {.exs_wait = EXS_WAIT_ADAPTIVE, .exs_wait_us = 10},
                                        {.exs_wait = EXS_WAIT_BUSY_POLL}};
    struct pair pair;
    exs_event_t event;
    char byte;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_qmodify(pair.server_box->queue, EXS_QATTR_WAIT, &modes[_i]));
    must(exs_recv(pair.server, &byte, 1, 0, pair.server_box->queue, &pair, NULL));
    inbox_quiet(pair.server_box, 0);
    pthread_t thread = thread_start(send_later, &pair);
    double end = seconds() + WAIT_MS / 1e3;
    int count;

    do
        count = exs_qpoll(pair.server_box->queue, &event, 1, EXS_WAIT_US_MAX);
    while (count == 0 && seconds() < end);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(event.exs_evt_type, EXS_EVT_RECV);
    ck_assert_int_eq(exs_event_result(&event), 1);
    must(exs_qprepare(pair.server_box->queue));
    thread_join(thread);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("qpoll");
    TCase *tcase = add_case(suite, "qpoll", 20);

    tcase_add_test(tcase, budget);
    tcase_add_loop_test(tcase, found, 0, 3);
    return run_suite(suite);
}
