/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_recovery.c - the computations of loss recovery alone: round-trip estimates, probes, windows and retries
 * (recovery.h).
 */
#include "check/support/endpoints.h"
#include "soft/engine/recovery.h"

#define US 1000ull

static struct soft_recovery recovery;
static uint64_t now, psn;

/* `count` packets, each acknowledged after `round` ns. */
static void talk(unsigned count, uint64_t round)
{
    for (; count > 0; count--) {
        soft_recovery_time(&recovery, psn);
        soft_recovery_left(&recovery, now);
        now += round;
        ck_assert(soft_recovery_is_timed(&recovery, psn + 1));
        soft_recovery_answered(&recovery, now);
        soft_recovery_progress(&recovery, 1);
        psn++;
    }
}

static void begin(void)
{
    soft_recovery_begin(&recovery);
    now = 1000000 * US;
    psn = 1ull << 32;
}

/* ---- Estimates and probes ---- */

/* A peer is probed only after two round trips have been measured. */
START_TEST(an_estimate_takes_two_answers)
{
    ck_assert_uint_eq(soft_recovery_patience(&recovery, 0), UINT64_MAX);
    talk(1, 100 * US);
    ck_assert_uint_eq(soft_recovery_patience(&recovery, 0), UINT64_MAX);
    talk(1, 100 * US);
    ck_assert_uint_lt(soft_recovery_patience(&recovery, 0), 400 * US);
}
END_TEST

/* An estimate that is taken from other connections is only a guess, so the probe timeout is at least 4 ms. */
START_TEST(an_estimate_may_be_given)
{
    soft_recovery_expect(&recovery, 30 * US);
    expect_between(soft_recovery_patience(&recovery, 0), 4000 * US, 5000 * US);
    talk(100, 50 * US);
    expect_between(soft_recovery_patience(&recovery, 0), 90 * US, 110 * US);
}
END_TEST

/* The estimate follows the round-trip time, whatever it was before; the probe timeout is about twice that. */
START_TEST(estimates_follow)
{
    static const uint64_t rounds[] = {2 * US, 50 * US, 20000 * US, 3, 1000 * US, 40 * US};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        talk(200, rounds[i]);
        expect_between(soft_recovery_patience(&recovery, 0), 2 * rounds[i] - rounds[i] / 10,
                       2 * rounds[i] + rounds[i] / 10 + 100);
        expect_between(soft_recovery_patience(&recovery, 777) - soft_recovery_patience(&recovery, 0), 777, 777);
    }
}
END_TEST

/* Varying round-trip times lengthen the timeout. */
START_TEST(spread_counts)
{
    for (int i = 0; i < 100; i++)
        talk(1, i & 1 ? 100 * US : 900 * US);
    ck_assert_uint_gt(soft_recovery_patience(&recovery, 0), 1200 * US);
}
END_TEST

/* A packet that was sent twice is not timed, because its acknowledgement may belong to either. */
START_TEST(nothing_sent_twice_is_timed)
{
    talk(10, 100 * US);
    soft_recovery_time(&recovery, psn);
    soft_recovery_left(&recovery, now);
    soft_recovery_repeat(&recovery, now + 10);
    ck_assert(!soft_recovery_is_timed(&recovery, psn + 1));
    soft_recovery_time(&recovery, psn + 5);
    soft_recovery_left(&recovery, now);
    soft_recovery_probe(&recovery, psn + 5, psn + 6, now);
    ck_assert(!soft_recovery_is_timed(&recovery, psn + 6));
    soft_recovery_time(&recovery, psn + 7);
    ck_assert(soft_recovery_waits(&recovery));
    ck_assert(soft_recovery_is_timed(&recovery, psn + 8));
    uint64_t before = recovery.round;
    soft_recovery_answered(&recovery, now); /* the packet has not been sent */
    ck_assert_uint_eq(recovery.round, before);
}
END_TEST

/* A packet behind a repeated one is not timed if the acknowledgement comes so soon after the repetition that it may be
 * caused by it. If it comes later than a round trip, it is timed. */
START_TEST(nothing_that_a_probe_brings_is_timed)
{
    talk(100, 100 * US);
    uint64_t before = recovery.round;
    soft_recovery_time(&recovery, psn + 1);
    soft_recovery_left(&recovery, now);
    now += 5000 * US;
    soft_recovery_probe(&recovery, psn, psn + 2, now);
    now += _i ? 400 * US : 90 * US;
    ck_assert(soft_recovery_is_timed(&recovery, psn + 2));
    soft_recovery_answered(&recovery, now);
    ck_assert(!soft_recovery_is_timed(&recovery, psn + 2));
    if (_i)
        ck_assert_uint_gt(recovery.round, before + 500 * US);
    else
        ck_assert_uint_eq(recovery.round, before);
    psn += 2;
    soft_recovery_progress(&recovery, 2);
    uint64_t after = recovery.round;
    talk(1, 5 * US); /* later packets are timed as usual */
    ck_assert_uint_lt(recovery.round, after);
}
END_TEST

/* The probe timeout doubles with each probe, and no probe follows the ACK timeout, until the peer answers. */
START_TEST(probes_become_rarer)
{
    talk(100, 100 * US);
    uint64_t first = soft_recovery_patience(&recovery, 0);
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(soft_recovery_patience(&recovery, 0), first << i);
        soft_recovery_probe(&recovery, psn, psn + 1, now);
    }
    for (int i = 0; i < 200; i++)
        soft_recovery_probe(&recovery, psn, psn + 1, now);
    ck_assert_uint_eq(soft_recovery_patience(&recovery, 0), UINT64_MAX);
    soft_recovery_progress(&recovery, 1);
    ck_assert_uint_eq(soft_recovery_patience(&recovery, 0), first);
    soft_recovery_timeout(&recovery);
    ck_assert_uint_eq(soft_recovery_patience(&recovery, 0), UINT64_MAX);
    soft_recovery_refused(&recovery, now, UINT64_MAX, false);
    ck_assert_uint_eq(soft_recovery_patience(&recovery, 0), first);
}
END_TEST

/* ---- The window ---- */

START_TEST(window_grows_and_halves)
{
    uint32_t window = recovery.window;
    soft_recovery_progress(&recovery, window);
    ck_assert_uint_eq(recovery.window, 2 * window);
    soft_recovery_progress(&recovery, 1000000);
    ck_assert_uint_eq(recovery.window, SOFT_WINDOW_MAX);
    soft_recovery_lost(&recovery, 100, 200);
    ck_assert_uint_eq(recovery.window, SOFT_WINDOW_MAX / 2);
    soft_recovery_lost(&recovery, 150, 200); /* a packet of the same flight */
    ck_assert_uint_eq(recovery.window, SOFT_WINDOW_MAX / 2);
    window = recovery.window;
    soft_recovery_progress(&recovery, window);
    ck_assert_uint_gt(recovery.window, window);
    ck_assert_uint_lt(recovery.window, 2 * window);
    for (uint64_t at = 200; at < 300; at++)
        soft_recovery_lost(&recovery, at, at + 1);
    ck_assert_uint_eq(recovery.window, SOFT_WINDOW_MIN);
    for (int i = 0; i < 10000; i++)
        soft_recovery_progress(&recovery, 1);
    ck_assert_uint_eq(recovery.window, SOFT_WINDOW_MAX);
}
END_TEST

/* The window is restored if no packet was lost after all; not after progress that confirms the loss. */
START_TEST(window_comes_back)
{
    uint32_t window = recovery.window;
    soft_recovery_lost(&recovery, 100, 200);
    soft_recovery_undo(&recovery);
    ck_assert_uint_eq(recovery.window, window);
    soft_recovery_progress(&recovery, window);
    ck_assert_uint_eq(recovery.window, 2 * window); /* slow start continues */
    window = recovery.window;
    soft_recovery_lost(&recovery, 200, 300);
    soft_recovery_progress(&recovery, 1);
    soft_recovery_undo(&recovery);
    ck_assert_uint_lt(recovery.window, window);
}
END_TEST

/* A second probe without an answer is taken for congestion, and halves the window; the first may be an ordinary
 * loss. */
START_TEST(probes_in_vain_make_slower)
{
    uint32_t window = recovery.window;
    soft_recovery_probe(&recovery, 100, 200, now);
    ck_assert_uint_eq(recovery.window, window);
    soft_recovery_probe(&recovery, 100, 200, now);
    ck_assert_uint_eq(recovery.window, window / 2);
    for (int i = 0; i < 10; i++)
        soft_recovery_probe(&recovery, 100, 200, now);
    ck_assert_uint_eq(recovery.window, SOFT_WINDOW_MIN);
}
END_TEST

/* ---- NAKs ---- */

/* Repeated NAKs use up one retry for each ACK timeout, and none after progress. */
START_TEST(refusals_cost_time)
{
    unsigned charged = 0;
    for (int i = 0; i < 1000; i++, now += 10 * US)
        charged += soft_recovery_refused(&recovery, now, 1000 * US, false);
    expect_between(charged, 9, 10);
    soft_recovery_progress(&recovery, 1);
    ck_assert(!soft_recovery_refused(&recovery, now + 5000 * US, 1000 * US, false));
    ck_assert(!soft_recovery_refused(&recovery, now + 1000000000 * US, UINT64_MAX, false));
}
END_TEST

/* The fourth NAK without progress, and each after it, means that the repeated flight was lost again, and halves the
 * window; that is undone if no packet was lost. */
START_TEST(refusals_in_vain_make_slower)
{
    uint32_t window = recovery.window;
    for (int i = 0; i < 10; i++)
        soft_recovery_refused(&recovery, now, 1000 * US, false);
    /* Without an estimate of the round trip it is unknown when they were sent. */
    ck_assert_uint_eq(recovery.window, window);
    soft_recovery_progress(&recovery, 1);
    soft_recovery_expect(&recovery, 10 * US);
    window = recovery.window;
    soft_recovery_lost(&recovery, 100, 200);
    for (int i = 0; i < 3; i++)
        soft_recovery_refused(&recovery, now, 1000 * US, false);
    ck_assert_uint_eq(recovery.window, window / 2);
    soft_recovery_refused(&recovery, now, 1000 * US, false);
    ck_assert_uint_eq(recovery.window, window / 4);
    for (int i = 0; i < 1000; i++)
        soft_recovery_refused(&recovery, now, 1000 * US, false);
    ck_assert_uint_eq(recovery.window, SOFT_WINDOW_MIN);
    soft_recovery_undo(&recovery);
    ck_assert_uint_eq(recovery.window, window);
    soft_recovery_progress(&recovery, 1);
    window = recovery.window;
    for (int i = 0; i < 3; i++)
        soft_recovery_refused(&recovery, now, 1000 * US, false);
    ck_assert_uint_eq(recovery.window, window);
}
END_TEST

/* A peer that sends NAKs for the only packet and has never acknowledged any uses up retries. */
START_TEST(refusals_of_one_cost_retries)
{
    for (int i = 0; i < 10; i++)
        ck_assert(soft_recovery_refused(&recovery, now, 1000 * US, true));
    soft_recovery_expect(&recovery, 10 * US);
    for (int i = 0; i < 10; i++)
        ck_assert(!soft_recovery_refused(&recovery, now, 1000 * US, true));
}
END_TEST

/* A second NAK that arrives sooner than a round trip after the repetition refers to earlier packets. */
START_TEST(a_refusal_may_be_stale)
{
    talk(100, 100 * US);
    soft_recovery_repeat(&recovery, now);
    ck_assert(!soft_recovery_is_stale(&recovery, now + 10 * US)); /* the first NAK */
    soft_recovery_refused(&recovery, now, 1000000 * US, false);
    soft_recovery_repeat(&recovery, now);
    ck_assert(soft_recovery_is_stale(&recovery, now + 10 * US));
    ck_assert(!soft_recovery_is_stale(&recovery, now + 90 * US));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recovery");
    TCase *tcase = new_case(suite, "recovery");
    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, an_estimate_takes_two_answers);
    tcase_add_test(tcase, an_estimate_may_be_given);
    tcase_add_test(tcase, estimates_follow);
    tcase_add_test(tcase, spread_counts);
    tcase_add_test(tcase, nothing_sent_twice_is_timed);
    tcase_add_loop_test(tcase, nothing_that_a_probe_brings_is_timed, 0, 2);
    tcase_add_test(tcase, probes_become_rarer);
    tcase_add_test(tcase, window_grows_and_halves);
    tcase_add_test(tcase, window_comes_back);
    tcase_add_test(tcase, probes_in_vain_make_slower);
    tcase_add_test(tcase, refusals_cost_time);
    tcase_add_test(tcase, refusals_in_vain_make_slower);
    tcase_add_test(tcase, refusals_of_one_cost_retries);
    tcase_add_test(tcase, a_refusal_may_be_stale);
    return run_suite(suite);
}
