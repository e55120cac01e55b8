/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_board.c - slots and the notification bitmap: shm_board.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "core/base/fds.h"
#include "shm_board.h"
#include "shm_sealed.h"

/* Clears the lowest bit that is set, and returns its index. */
static unsigned next_bit(uint64_t *bits)
{
    unsigned bit = (unsigned)__builtin_ctzll(*bits);

    *bits &= *bits - 1;
    return bit;
}

/* ---- Slots ---- */

static void free_seats(struct shm_seats *seats)
{
    if (seats->board != NULL)
        shm_board_unmap(seats->board);
    if (seats->memory != -1)
        fds_close(seats->memory);
    free(seats);
}

struct shm_seats *shm_seats_new(void)
{
    struct shm_seats *seats = calloc(1, sizeof *seats);
    int error;

    if (seats == NULL)
        return NULL;
    seats->memory = shm_sealed_make(sizeof *seats->board);
    seats->board = seats->memory == -1 ? NULL : shm_board_map(seats->memory);
    atomic_init(&seats->users, 1);
    if (seats->board != NULL)
        return seats;
    error = errno;
    free_seats(seats);
    errno = error;
    return NULL;
}

void shm_seats_leave(struct shm_seats *seats)
{
    if (atomic_fetch_sub_explicit(&seats->users, 1, memory_order_acq_rel) == 1)
        free_seats(seats);
}

int shm_seat_reserve(struct shm_seats *seats)
{
    for (int word = 0; word < SHM_SEATS / 64; word++) {
        uint64_t taken = atomic_load_explicit(&seats->reserved[word], memory_order_relaxed);

        while (~taken != 0) {
            int bit = __builtin_ctzll(~taken);

            if (!atomic_compare_exchange_weak_explicit(&seats->reserved[word], &taken,
                                                       taken | UINT64_C(1) << bit, memory_order_relaxed,
                                                       memory_order_relaxed))
                continue;
            atomic_fetch_add_explicit(&seats->users, 1, memory_order_relaxed);
            return word * 64 + bit;
        }
    }
    errno = EUSERS;
    return -1;
}

void shm_seat_give_back(struct shm_seats *seats, int seat)
{
    atomic_fetch_and_explicit(&seats->reserved[seat / 64], ~(UINT64_C(1) << seat % 64), memory_order_relaxed);
    shm_seats_leave(seats);
}

void shm_seats_each(struct shm_seats *seats, void (*each)(void *arg, unsigned seat), void *arg)
{
    for (unsigned word = 0; word < SHM_SEATS / 64; word++) {
        uint64_t bits = atomic_load_explicit(&seats->reserved[word], memory_order_relaxed);

        while (bits != 0)
            each(arg, word * 64 + next_bit(&bits));
    }
}

/* ---- The bitmap ---- */

struct shm_board *shm_board_map(int memory)
{
    return shm_sealed_map(memory, sizeof(struct shm_board));
}

void shm_board_unmap(struct shm_board *board)
{
    munmap(board, sizeof *board);
}

void shm_board_call(struct shm_board *board, unsigned seat)
{
    unsigned word = seat / 64;

    atomic_fetch_or_explicit(&board->calls[word], UINT64_C(1) << seat % 64, memory_order_release);
    atomic_fetch_or_explicit(&board->sums[word / 64], UINT64_C(1) << word % 64, memory_order_release);
}

/* Clears a word and returns its bits. The acquire exchange pairs with the releases of shm_board_call(). */
static uint64_t take(_Atomic uint64_t *bits)
{
    return atomic_load_explicit(bits, memory_order_relaxed) == 0
               ? 0
               : atomic_exchange_explicit(bits, 0, memory_order_acquire);
}

unsigned shm_board_take(struct shm_board *board, void (*called)(void *arg, unsigned seat), void *arg)
{
    unsigned count = 0;

    for (unsigned sum = 0; sum < SHM_SEATS / 64 / 64; sum++) {
        for (uint64_t words = take(&board->sums[sum]); words != 0;) {
            unsigned word = sum * 64 + next_bit(&words);

            for (uint64_t seats = take(&board->calls[word]); seats != 0; count++)
                called(arg, word * 64 + next_bit(&seats));
        }
    }
    return count;
}
