/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_shm_pace.c - the receiver's choice between batches that the sender writes past its cache ("far") and to its
 * cache ("near"), if one kind is copied faster. The simulated sender follows the choice a few batches later, as with a
 * ring, and the machine changes.
 */
#include <string.h>
#include "check/support/endpoints.h"
#include "soft/link/shm_pace.h"

#define LATE 32     /* batches that are already in the ring when the choice changes */
#define BYTES 65568 /* length of a batch */
#define MANY 18000  /* batches, among which there are at least two measurements */

static struct shm_pace pace;
static bool asked[LATE];
static unsigned count, timed;

static void begin(void)
{
    memset(&pace, 0, sizeof pace);
    memset(asked, 0, sizeof asked);
    count = timed = 0;
}

/* Simulates this number of batches. Returns how many of them were near. */
static unsigned bursts(unsigned many, uint64_t far_ns, uint64_t near_ns)
{
    unsigned nears = 0;
    for (unsigned i = 0; i < many; i++, count++) {
        bool near = asked[count % LATE];
        asked[count % LATE] = pace.near;
        nears += near;
        if (!shm_pace_begin(&pace, BYTES))
            continue;
        timed++;
        shm_pace_took(&pace, near, BYTES,
                      (near ? near_ns : far_ns) * (i % 4 ? 10 : 1)); /* most measurements are disturbed */
    }
    return nears;
}

/* The faster kind is found at once, and from then on few batches are of the other kind; the same after the machine has
 * changed. */
START_TEST(the_faster_way_is_asked_for)
{
    begin();
    bursts(200, 5000, 2000);
    ck_assert(pace.near);
    ck_assert_uint_eq(bursts(1000, 5000, 2000), 1000);
    expect_between(bursts(MANY, 5000, 2000), MANY - 600, MANY - 1);
    bursts(MANY, 5000, 20000);
    ck_assert(!pace.near);
    expect_between(bursts(MANY, 5000, 20000), 1, 600);
    expect_between(timed, 16, 2000); /* few batches are timed */
}
END_TEST

/* Near is chosen if both are equally fast. */
START_TEST(near_where_it_does_not_matter)
{
    begin();
    bursts(MANY, 3000, 3100);
    ck_assert(pace.near);
    bursts(MANY, 3000, 3900);
    ck_assert(!pace.near);
}
END_TEST

/* The first batches of a ring are slow because its pages are allocated then, so they are not compared. */
START_TEST(the_first_do_not_count)
{
    begin();
    bursts(32, 59000, 47000);
    bursts(64, 50000, 46000);
    bursts(200, 3000, 20000);
    ck_assert(!pace.near);
    expect_between(bursts(1000, 3000, 20000), 0, 0);
}
END_TEST

/* A sender that does not follow the choice, because it is on the same CPU or is malicious, changes nothing, and does
 * not make the receiver read the clock for ever. */
START_TEST(who_goes_one_way_only_is_let)
{
    begin();
    unsigned asked_for_time = 0;
    for (unsigned i = 0; i < MANY; i++) {
        if (!shm_pace_begin(&pace, BYTES))
            continue;
        asked_for_time++;
        shm_pace_took(&pace, _i == 1, BYTES, 1000);
    }
    ck_assert(!pace.near);
    expect_between(asked_for_time, 16, 2000);
    ck_assert(!pace.compares);
}
END_TEST

/* Any length and any reading of the clock. */
START_TEST(all_numbers)
{
    static const size_t lengths[] = {SHM_PACE_MIN, BYTES, SOFT_BURST_LONG};
    static const uint64_t times[] = {0, 1, UINT64_MAX / 2, UINT64_MAX};
    begin();
    for (unsigned i = 0; i < MANY; i++)
        if (shm_pace_begin(&pace, lengths[i % 3]))
            shm_pace_took(&pace, i % 2, lengths[i % 3], times[i % 4]);
    expect_between(pace.left, 1, UINT64_C(1) << 30);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shm pace");
    TCase *tcase = new_case(suite, "pace");
    tcase_add_test(tcase, the_faster_way_is_asked_for);
    tcase_add_test(tcase, near_where_it_does_not_matter);
    tcase_add_test(tcase, the_first_do_not_count);
    tcase_add_loop_test(tcase, who_goes_one_way_only_is_let, 0, 2);
    tcase_add_test(tcase, all_numbers);
    return run_suite(suite);
}
