/* SPDX-License-Identifier: BSD-2-Clause */
/* test_shm_board.c - who has called a context with many peers (shm_board.h): the board and its seats. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include "check/support/endpoints.h"
#include "core/base/fds.h"
#include "soft/link/shm_board.h"

enum { CALLERS = 2, CALLS = 40000 };

static struct shm_seats *seats;
static atomic_bool called[SHM_SEATS];
static unsigned heard;

static void begin_board(void)
{
    seats = shm_seats_new();
    ck_assert_ptr_nonnull(seats);
}

static void end_board(void)
{
    shm_seats_leave(seats);
}

static void hear(void *arg, unsigned seat)
{
    ck_assert_ptr_eq(arg, seats);
    expect(seat < SHM_SEATS && atomic_exchange(&called[seat], false), "seat %u has not called", seat);
    heard++;
}

static void call(unsigned seat)
{
    atomic_store(&called[seat], true);
    shm_board_call(seats->board, seat);
}

START_TEST(each_call_is_told_once)
{
    static const unsigned some[] = {0, 1, 63, 64, 4095, 4096, 4097, 12288, SHM_SEATS - 1};
    const unsigned count = sizeof some / sizeof *some;

    ck_assert_uint_eq(shm_board_take(seats->board, hear, seats), 0);
    for (unsigned i = 0; i < count; i++)
        call(some[i]);
    call(some[2]);
    ck_assert_uint_eq(shm_board_take(seats->board, hear, seats), count);
    ck_assert_uint_eq(heard, count);
    ck_assert_uint_eq(shm_board_take(seats->board, hear, seats), 0);
    for (unsigned seat = 0; seat < SHM_SEATS; seat++)
        call(seat);
    ck_assert_uint_eq(shm_board_take(seats->board, hear, seats), SHM_SEATS);
}
END_TEST

static void *call_often(void *arg)
{
    unsigned first = *(unsigned *)arg;

    for (unsigned i = 0; i < CALLS; i++)
        call((first + i * 7) % 200 * 64 + first); /* of every word, and each its own seats */
    return NULL;
}

static void note(void *arg, unsigned seat)
{
    (void)arg;
    atomic_store(&called[seat],
                 false); /* before the next look at the board: a call that comes now is told again */
}

/* Whoever calls while somebody looks is told then or the next time. */
START_TEST(no_call_is_lost_among_threads)
{
    pthread_t threads[CALLERS];
    unsigned firsts[CALLERS];

    for (unsigned i = 0; i < CALLERS; i++) {
        firsts[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, &firsts[i]), 0);
    }
    for (int i = 0; i < CALLS; i++)
        shm_board_take(seats->board, note, NULL);
    for (unsigned i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    shm_board_take(seats->board, note, NULL);
    for (unsigned seat = 0; seat < SHM_SEATS; seat++)
        expect(!atomic_load(&called[seat]), "the call of seat %u was lost", seat);
}
END_TEST

static void count_one(void *arg, unsigned seat)
{
    *(unsigned *)arg += seat;
}

START_TEST(seats_are_given_back)
{
    unsigned sum = 0;

    for (int i = 0; i < SHM_SEATS; i++)
        ck_assert_int_eq(shm_seat_reserve(seats), i);
    errno = 0;
    ck_assert_int_eq(shm_seat_reserve(seats), -1);
    ck_assert_int_eq(errno, EUSERS);
    shm_seat_give_back(seats, 5000);
    shm_seat_give_back(seats, 7);
    ck_assert_int_eq(shm_seat_reserve(seats), 7);
    for (int i = 0; i < SHM_SEATS; i++)
        if (i != 9 && i != 5000)
            shm_seat_give_back(seats, i);
    shm_seats_each(seats, count_one, &sum);
    ck_assert_uint_eq(sum, 9);
    shm_seat_give_back(seats, 9);
}
END_TEST

/* A peer may go after its context. */
START_TEST(seats_outlive_their_context)
{
    struct shm_seats *others = shm_seats_new();
    int seat = shm_seat_reserve(others), memory = others->memory;

    shm_seats_leave(others);
    ck_assert(fds_is_own(memory));
    shm_seat_give_back(others, seat);
    ck_assert(!fds_is_own(memory));
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("shm board");
    TCase *board = tcase_create("board");

    tcase_add_checked_fixture(board, begin_board, end_board);
    tcase_add_test(board, each_call_is_told_once);
    tcase_add_test(board, no_call_is_lost_among_threads);
    tcase_add_test(board, seats_are_given_back);
    tcase_add_test(board, seats_outlive_their_context);
    suite_add_tcase(suite, board);
    return suite;
}

int main(void)
{
    return run_suite(suite());
}
