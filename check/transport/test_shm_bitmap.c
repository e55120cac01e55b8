/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_shm_bitmap.c - the notification bitmap by which peers notify a context that has many of them (shm_bitmap.h), and
 * its slots.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include "check/support/endpoints.h"
#include "core/base/fds.h"
#include "soft/link/shm_bitmap.h"

enum { CALLERS = 2, CALLS = 40000 };

static struct shm_slots *slots;
static atomic_bool called[SHM_SLOTS];
static unsigned heard;

static void begin_bitmap(void)
{
    slots = shm_slots_new();
    ck_assert_ptr_nonnull(slots);
}

static void end_bitmap(void)
{
    shm_slots_leave(slots);
}

static void hear(void *arg, unsigned slot)
{
    ck_assert_ptr_eq(arg, slots);
    expect(slot < SHM_SLOTS && atomic_exchange(&called[slot], false), "slot %u has not called", slot);
    heard++;
}

static void call(unsigned slot)
{
    atomic_store(&called[slot], true);
    shm_bitmap_notify(slots->bitmap, slot);
}

START_TEST(each_call_is_told_once)
{
    static const unsigned some[] = {0, 1, 63, 64, 4095, 4096, 4097, 12288, SHM_SLOTS - 1};
    const unsigned count = sizeof some / sizeof *some;

    ck_assert_uint_eq(shm_bitmap_take(slots->bitmap, hear, slots), 0);
    for (unsigned i = 0; i < count; i++)
        call(some[i]);
    call(some[2]);
    ck_assert_uint_eq(shm_bitmap_take(slots->bitmap, hear, slots), count);
    ck_assert_uint_eq(heard, count);
    ck_assert_uint_eq(shm_bitmap_take(slots->bitmap, hear, slots), 0);
    for (unsigned slot = 0; slot < SHM_SLOTS; slot++)
        call(slot);
    ck_assert_uint_eq(shm_bitmap_take(slots->bitmap, hear, slots), SHM_SLOTS);
}
END_TEST

static void *call_often(void *arg)
{
    unsigned first = *(unsigned *)arg;

    for (unsigned i = 0; i < CALLS; i++)
        call((first + i * 7) % 200 * 64 + first); /* all words of the bitmap; each thread has its own slots */
    return NULL;
}

static void note(void *arg, unsigned slot)
{
    (void)arg;
    atomic_store(&called[slot],
                 false); /* before the next poll of the bitmap: a notification from now on is reported again */
}

/* A notification that arrives during a poll is reported by that poll or the next. */
START_TEST(no_call_is_lost_among_threads)
{
    pthread_t threads[CALLERS];
    unsigned firsts[CALLERS];

    for (unsigned i = 0; i < CALLERS; i++) {
        firsts[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, &firsts[i]), 0);
    }
    for (int i = 0; i < CALLS; i++)
        shm_bitmap_take(slots->bitmap, note, NULL);
    for (unsigned i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    shm_bitmap_take(slots->bitmap, note, NULL);
    for (unsigned slot = 0; slot < SHM_SLOTS; slot++)
        expect(!atomic_load(&called[slot]), "the call of slot %u was lost", slot);
}
END_TEST

static void count_one(void *arg, unsigned slot)
{
    *(unsigned *)arg += slot;
}

START_TEST(slots_are_given_back)
{
    unsigned sum = 0;

    for (int i = 0; i < SHM_SLOTS; i++)
        ck_assert_int_eq(shm_slot_reserve(slots), i);
    errno = 0;
    ck_assert_int_eq(shm_slot_reserve(slots), -1);
    ck_assert_int_eq(errno, EUSERS);
    shm_slot_give_back(slots, 5000);
    shm_slot_give_back(slots, 7);
    ck_assert_int_eq(shm_slot_reserve(slots), 7);
    for (int i = 0; i < SHM_SLOTS; i++)
        if (i != 9 && i != 5000)
            shm_slot_give_back(slots, i);
    shm_slots_each(slots, count_one, &sum);
    ck_assert_uint_eq(sum, 9);
    shm_slot_give_back(slots, 9);
}
END_TEST

/* A peer may be freed after its context. */
START_TEST(slots_outlive_their_context)
{
    struct shm_slots *others = shm_slots_new();
    int slot = shm_slot_reserve(others), memory = others->memory;

    shm_slots_leave(others);
    ck_assert(fds_is_own(memory));
    shm_slot_give_back(others, slot);
    ck_assert(!fds_is_own(memory));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shm bitmap");
    TCase *bitmap = new_case(suite, "bitmap");

    tcase_add_checked_fixture(bitmap, begin_bitmap, end_bitmap);
    tcase_add_test(bitmap, each_call_is_told_once);
    tcase_add_test(bitmap, no_call_is_lost_among_threads);
    tcase_add_test(bitmap, slots_are_given_back);
    tcase_add_test(bitmap, slots_outlive_their_context);
    return run_suite(suite);
}
