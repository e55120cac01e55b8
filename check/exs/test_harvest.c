/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_harvest.c - reaping completions with the plain verbs calls (core/device/rdma/harvest.h), while further
 * completions arrive at any moment: none is missed. If a completion is left when the caller may sleep, there is an
 * event for it.
 */
#include "core/device/rdma/harvest.h"

#include <errno.h>
#include <unistd.h>
#include "check/support/support.h"

static struct ibv_context context;
static struct ibv_comp_channel channel = {.context = &context};
static struct ibv_cq cq = {.context = &context, .channel = &channel};
static struct harvest harvest;
/* completions: not polled yet, polled, arrived; their wr_ids are 1, 2, 3... */
static uint64_t waiting, taken, came;
static int events, refusals; /* events that were not fetched; number of next calls to arm that fail */
static bool armed;
static int at_arming, at_polling; /* completions that arrive right before the next call */
static int wakefd;                /* the other end of the channel's descriptor */

static void come(int count)
{
    waiting += (unsigned)count;
    came += (unsigned)count;
    if (count == 0 || !armed)
        return;
    armed = false;
    events++;
}

static int poll_some(struct ibv_cq *from, int count, struct ibv_wc *wc)
{
    int got = 0;

    ck_assert_ptr_eq(from, &cq);
    come(at_polling);
    at_polling = 0;
    for (; got < count && waiting > 0; waiting--)
        wc[got++].wr_id = came - waiting + 1;
    return got;
}

static int arm(struct ibv_cq *which, int solicited_only)
{
    ck_assert_ptr_eq(which, &cq);
    ck_assert_int_eq(solicited_only, 0);
    come(at_arming);
    at_arming = 0;
    if (refusals > 0) {
        refusals--;
        return EIO;
    }
    armed = true;
    return 0;
}

static int get_event(struct ibv_comp_channel *from, struct ibv_cq **of, void **cq_context)
{
    ck_assert_ptr_eq(from, &channel);
    if (events == 0) {
        errno = EAGAIN;
        return -1;
    }
    events--;
    *of = &cq;
    *cq_context = cq.cq_context;
    return 0;
}

static void begin(void)
{
    int ends[2];

    must(pipe(ends));
    channel.fd = ends[0];
    wakefd = ends[1];
    cq.cq_context = &taken;
    context.ops.poll_cq = poll_some;
    context.ops.req_notify_cq = arm;
    armed = true;
}

/* Checks that the harvest returns this number of completions, in order. If it leaves nothing unfinished, the caller may
 * sleep, so the completion queue must be armed or have an event. */
static void harvests(int count)
{
    ck_assert_int_eq(rdma_harvest(get_event, &channel, &harvest), count);
    for (int i = 0; i < count; i++)
        ck_assert_uint_eq(harvest.wc[i].wr_id, ++taken);
    ck_assert_ptr_eq(harvest.cq_context, &taken);
    if (harvest.unfinished == NULL) {
        ck_assert(!harvest.left && !harvest.stuck && !harvest.gone);
        ck_assert(armed || events > 0);
        ck_assert(waiting == 0 || events > 0);
    } else {
        ck_assert_int_eq(harvest.left + harvest.stuck + harvest.gone, 1);
    }
}

static void is_at_rest(void)
{
    ck_assert_ptr_null(harvest.unfinished);
    ck_assert_int_eq(events, 0);
    ck_assert_uint_eq(taken, came);
    ck_assert_int_eq(rdma_harvest(get_event, &channel, &harvest), -1);
    ck_assert(!harvest.gone);
    ck_assert_ptr_null(harvest.unfinished);
}

START_TEST(an_event_and_what_it_tells_of)
{
    come(3);
    harvests(3);
    ck_assert(harvest.fetched);
    is_at_rest();
    come(1);
    harvests(1);
    is_at_rest();
}
END_TEST

/* A completion arrives before the completion queue is armed, or between the arming and the next poll. */
START_TEST(one_comes_meanwhile)
{
    come(1);
    at_arming = _i & 1;
    at_polling = _i >> 1;
    harvests(1 + at_arming + at_polling);
    if (_i >> 1) {
        ck_assert_int_eq(events, 1); /* for a completion that was already polled */
        harvests(0);
        ck_assert(harvest.fetched);
    }
    is_at_rest();
}
END_TEST

/* Arming fails, at first or after a harvest that was full. No event reports the completions that arrive then. */
START_TEST(arming_is_refused)
{
    if (_i > 0) {
        come(HARVEST_MAX);
        harvests(HARVEST_MAX);
        ck_assert(harvest.left);
        armed = false;
    }
    come(1);
    for (refusals = 2; refusals > 0;) {
        harvests(harvest.unfinished != NULL ? (int)(came - taken) : 0);
        ck_assert(harvest.stuck);
        ck_assert_ptr_eq(harvest.unfinished, &cq);
        come(1);
    }
    harvests((int)(came - taken));
    ck_assert(!harvest.fetched && armed);
    is_at_rest();
}
END_TEST

/* As many completions as a harvest holds, one less, and more; and others that arrive during the harvest. */
START_TEST(more_than_a_harvest)
{
    static const int counts[] = {HARVEST_MAX - 1, HARVEST_MAX, HARVEST_MAX + 1, 2 * HARVEST_MAX,
                                 3 * HARVEST_MAX + 1};
    int count = counts[_i % 5], meanwhile = _i / 5;

    come(count);
    for (bool first = true; taken < came || harvest.unfinished != NULL; first = false) {
        uint64_t left = came - taken;

        if (!first)
            at_arming = at_polling = left > 0 ? 0 : meanwhile;
        harvests((int)(left + (unsigned)at_arming + (unsigned)at_polling < HARVEST_MAX
                           ? left + (unsigned)at_arming + (unsigned)at_polling
                           : HARVEST_MAX));
        ck_assert_int_eq(harvest.fetched, first);
        ck_assert_int_eq(harvest.left, harvest.unfinished != NULL);
    }
    while (events > 0)
        harvests(0);
    is_at_rest();
}
END_TEST

/* The harvest was full. A completion arrives between the poll that finds no more and the arming, so no event reports
 * it. */
START_TEST(one_comes_before_the_second_arming)
{
    come(HARVEST_MAX);
    harvests(HARVEST_MAX);
    events = 0; /* of the first arming */
    armed = false;
    at_arming = 1;
    harvests(1);
    is_at_rest();
}
END_TEST

/* Completions from before the arming and from the time of the arming fill the harvest, and others are left. */
START_TEST(room_is_for_both)
{
    come(HARVEST_MAX);
    harvests(HARVEST_MAX);
    come(HARVEST_MAX - 10);
    at_arming = 20;
    harvests(HARVEST_MAX);
    ck_assert(harvest.left);
    harvests(10);
    events = 0; /* of the earlier armings */
    is_at_rest();
}
END_TEST

/* While completions are left, the queue is not armed. Otherwise each harvest would cause an event. */
START_TEST(a_flood_has_one_event)
{
    come(HARVEST_MAX);
    for (int i = 0; i < 3; i++) {
        harvests(HARVEST_MAX);
        ck_assert(harvest.left);
        come(HARVEST_MAX);
        ck_assert(!armed);
        ck_assert_int_eq(events, 1);
    }
    harvests(HARVEST_MAX);
    harvests(0);
    ck_assert_ptr_null(harvest.unfinished);
    harvests(0);
    ck_assert(harvest.fetched);
    is_at_rest();
}
END_TEST

START_TEST(a_channel_that_has_ended)
{
    come(1);
    refusals = 1;
    must(close(wakefd));
    harvests(0);
    ck_assert(harvest.gone);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("harvest");
    TCase *tests = add_bare_case(suite, "harvest", 10);

    tcase_add_checked_fixture(tests, begin, NULL);
    tcase_add_test(tests, an_event_and_what_it_tells_of);
    tcase_add_loop_test(tests, one_comes_meanwhile, 0, 4);
    tcase_add_loop_test(tests, arming_is_refused, 0, 2);
    tcase_add_loop_test(tests, more_than_a_harvest, 0, 10);
    tcase_add_test(tests, one_comes_before_the_second_arming);
    tcase_add_test(tests, room_is_for_both);
    tcase_add_test(tests, a_flood_has_one_event);
    tcase_add_test(tests, a_channel_that_has_ended);
    return run_suite(suite);
}
