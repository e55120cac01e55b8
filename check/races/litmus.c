/* SPDX-License-Identifier: BSD-2-Clause */
/* litmus.c - small programs whose results C11 defines: the tester must find the races that they have, and no others. */
#include <stdatomic.h>
#include "races.h"
#include "scenarios.h"

static _Atomic int x, y, flag;
static int seen_x, seen_y, plain, order;

static void prepare(void)
{
    atomic_store_explicit(&x, 0, memory_order_relaxed);
    atomic_store_explicit(&y, 0, memory_order_relaxed);
    atomic_store_explicit(&flag, 0, memory_order_relaxed);
    seen_x = seen_y = -1;
    plain = 0;
}

/* ---- Two threads store and then load; without seq_cst both may miss the other's store ----------- */

#define STORE_AND_LOOK(name, order)                                                                            \
    static void name##_one(void)                                                                               \
    {                                                                                                          \
        atomic_store_explicit(&x, 1, order == memory_order_acquire ? memory_order_release : order);            \
        seen_y = atomic_load_explicit(&y, order);                                                              \
    }                                                                                                          \
    static void name##_other(void)                                                                             \
    {                                                                                                          \
        atomic_store_explicit(&y, 1, order == memory_order_acquire ? memory_order_release : order);            \
        seen_x = atomic_load_explicit(&x, order);                                                              \
    }

STORE_AND_LOOK(ordered, memory_order_seq_cst)
STORE_AND_LOOK(acquired, memory_order_acquire)
STORE_AND_LOOK(relaxed, memory_order_relaxed)

static void one_sees(void)
{
    EXPECT(seen_x == 1 || seen_y == 1);
}

/* ---- Plain memory that is written before a flag ---------------------------------------------------------- */

static void write_release(void)
{
    plain = 1;
    atomic_store_explicit(&flag, 1, memory_order_release);
}

static void write_relaxed(void)
{
    plain = 1;
    atomic_store_explicit(&flag, 1, memory_order_relaxed);
}

static void read_acquire(void)
{
    if (atomic_load_explicit(&flag, memory_order_acquire) == 1)
        EXPECT(plain == 1);
}

static void read_relaxed(void)
{
    if (atomic_load_explicit(&flag, memory_order_relaxed) == 1)
        EXPECT(plain == 1);
}

/* ---- A thread that sleeps and is never woken ------------------------------------------------------------- */

static bool is_rung(void *argument)
{
    (void)argument;
    return order == 1;
}

static void prepare_wakefd(void)
{
    prepare();
    order = 0;
}

static void look_and_sleep(void)
{
    if (atomic_load(&flag) == 0)
        race_sleep(&order, is_rung, NULL);
}

static void set_and_never_ring(void)
{
    atomic_store(&flag, 1);
}

/* ---- A counter of three threads -------------------------------------------------------------- */

static void count(void)
{
    atomic_fetch_add_explicit(&x, 1, memory_order_relaxed);
}

static void count_badly(void)
{
    atomic_store(&x, atomic_load(&x) + 1);
}

static void three(void)
{
    EXPECT(atomic_load(&x) == 3);
}

/* The correct ones first. */
const struct race good_races[] = {
    {"litmus-ordered",
     "two that store and look, seq_cst",
     prepare,
     {ordered_one, ordered_other},
     one_sees,
     NULL},
    {"litmus-release", "what was written before a flag", prepare, {write_release, read_acquire}, NULL, NULL},
    {"litmus-count", "a count", prepare, {count, count, count}, three, NULL},
};
const struct race bad_races[] = {
    {"litmus-acquired", "two that store and look", prepare, {acquired_one, acquired_other}, one_sees, NULL},
    {"litmus-relaxed", "two that store and look", prepare, {relaxed_one, relaxed_other}, one_sees, NULL},
    {"litmus-unreleased", "a flag that is relaxed", prepare, {write_relaxed, read_acquire}, NULL, NULL},
    {"litmus-unacquired", "a flag that is relaxed", prepare, {write_release, read_relaxed}, NULL, NULL},
    {"litmus-sleeper",
     "a look before sleeping",
     prepare_wakefd,
     {look_and_sleep, set_and_never_ring},
     NULL,
     NULL},
    {"litmus-miscount", "a count", prepare, {count_badly, count_badly, count_badly}, three, NULL},
};
const int good_count = sizeof good_races / sizeof *good_races, bad_count = sizeof bad_races / sizeof *bad_races;
