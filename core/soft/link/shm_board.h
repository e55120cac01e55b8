/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_board.h - who has called a context whose peers are many, so that it needn't look into every ring.
 *
 * Each peer has a seat, and the board a bit for each: whoever takes a flag of the context's down (shm_ring.h)
 * sets the bit of his seat before he rings. The board is a page that all peers have mapped. No word of it can
 * be wrong, for each bit only says which ring to look into; who takes others' bits away could as well hear
 * their bell (shm.h), and a bell without a bit has all rings looked into.
 */
#ifndef SOFT_SHM_BOARD_H
#define SOFT_SHM_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SHM_SEATS 16384

/* What all have mapped. */
struct shm_board {
    /* A bit for each word of calls that has one: set behind it, and cleared before it. Sets release, and pair
     * with shm_board_take()'s exchanges. */
    _Alignas(64) _Atomic uint64_t sums[SHM_SEATS / 64 / 64];
    _Alignas(64) _Atomic uint64_t calls[SHM_SEATS / 64];
};

struct shm_peer;

/* The context's, until it and all who have a seat are gone. */
struct shm_seats {
    struct shm_board *board;
    int memory; /* of the board, for peers that are to come */
    atomic_uint
        users; /* the context, and each seat; acq_rel on the way down, so that the last one finds all done */
    _Atomic uint64_t
        reserved[SHM_SEATS / 64]; /* bits, of who has a seat or will have: a count, it pairs with nothing */
    struct shm_peer *sitting[SHM_SEATS]; /* guarded by the context's lock */
};

/* With a board of its own. NULL and errno. */
struct shm_seats *shm_seats_new(void);
/* The context is gone. */
void shm_seats_leave(struct shm_seats *seats);
/* A seat for a peer to come; -1 and EUSERS: all are taken. */
int shm_seat_reserve(struct shm_seats *seats);
void shm_seat_give_back(struct shm_seats *seats, int seat);
/* Each seat that somebody has or will have. */
void shm_seats_each(struct shm_seats *seats, void (*each)(void *arg, unsigned seat), void *arg);

/* A peer's board, that came as a descriptor, which stays the caller's. NULL and errno: it is none. */
struct shm_board *shm_board_map(int memory);
void shm_board_unmap(struct shm_board *board);
/* Say that this seat's peer has called. Ring then. */
void shm_board_call(struct shm_board *board, unsigned seat);
/* Each seat whose peer has called since the last time. How many? */
unsigned shm_board_take(struct shm_board *board, void (*called)(void *arg, unsigned seat), void *arg);

#endif
