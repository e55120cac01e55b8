/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_ring.h - one direction of a shared-memory link: trains of packets in a ring that two processes have
 * mapped.
 *
 * Neither believes the other. Each keeps its own position to itself and only ever tells it; what the other
 * tells is read once, into a local, and checked; a train is checked to lie within the ring and within what has
 * been told. Who lies spoils his own ring: the other takes it for broken, and looks no more.
 *
 * Positions count bytes and never wrap; their place in the ring is the rest modulo its size. A train lies in
 * one piece, behind a header; where none fits before the end, a header of SHM_SKIP says so. An empty ring
 * begins anew at its first byte, so that whoever has little to say touches few pages.
 *
 * Two flags keep both from ringing at a door behind which nobody sleeps. Whoever is about to wait puts his flag
 * up, and then looks once more; whoever has told a new position looks at the other's flag, takes it down, and
 * rings if it was up. A fence on both sides between the one and the other, so that at least one of them sees.
 */
#ifndef SOFT_SHM_RING_H
#define SOFT_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shm_pace.h"

/* A power of two; half of it is what one side copies while the other is being woken up, which takes 50 us and
 * more in a virtual machine. Only what is used of it is there: shm_ring.c. */
#define SHM_RING_BYTES 2097152u
#define SHM_HEADER 16 /* bytes before a train: its length, its stride, an acknowledgement, its way and time */
#define SHM_ALIGN 64  /* of a header */
#define SHM_SKIP UINT32_MAX           /* for a length: on at the ring's beginning */
#define SHM_TIMES (UINT32_C(1) << 31) /* the receiver asks how long trains take to be put there */

/* What is shared of one direction. */
struct shm_control {
    _Alignas(64) _Atomic uint64_t tail; /* the sender's position: what lies before it is there. Positions and
                                         * flags are seq_cst, stored and loaded: see calls() */
    _Alignas(
        64) _Atomic uint64_t head; /* the receiver's, in the same way: what lies before it may be overwritten */
    _Atomic uint32_t processor;    /* that the receiver copies on, and 1; 0: not known, or not to be minded; and
                                    * SHM_TIMES. A hint, and so relaxed: it pairs with nothing */
    _Alignas(64) _Atomic uint32_t wants_room; /* the sender's flag; the receiver takes it down */
    _Alignas(64) _Atomic uint32_t sleeps;     /* the receiver's flag; the sender takes it down. Each flag pairs
                                               * with its position */
};

/* One end of it: all of this is its process's own. */
struct shm_ring {
    struct shm_control *control;
    uint8_t *bytes;
    uint64_t at;          /* its own position: the sender's tail, the receiver's head */
    uint64_t seen;        /* the other's, as last read and believed */
    uint64_t told_at;     /* the receiver's position, as it was last told; */
    uint32_t told;        /* and his processor */
    bool far;             /* what the sender puts there next goes past its cache; */
    uint64_t begun;       /* and when it began with it, ns, if that is asked for; else 0 */
    size_t populated;     /* the sender's: so many bytes of the ring, from its beginning, have memory behind them */
    struct shm_pace pace; /* the receiver's */
    bool flagged;         /* its flag is up, as far as it knows */
    bool broken;          /* the other has told what can't be, */
    bool has_no_memory;   /* or the kernel has no memory for what the sender has to put there */
};

/* A train as it was found: the numbers are checked, the bytes may still change. */
struct shm_train {
    const uint8_t *bytes;
    size_t length, stride, whole; /* whole: with header and gap */
    uint32_t ack;                 /* SOFT_ACKED and a PSN, or 0 */
};

/* ---- The sender ---- */

/* Where a train of `size` bytes can be put together, and how long it may become; NULL: there is no room for it, or the ring
 * is broken. */
uint8_t *shm_ring_room(struct shm_ring *ring, size_t size, size_t *limit);
/* How far has the receiver come? shm_ring_room() looks only where that decides something. */
void shm_ring_see_room(struct shm_ring *ring);
/* It is put together there, and told, with an acknowledgement: SOFT_ACKED and a PSN, or 0. */
void shm_ring_put(struct shm_ring *ring, size_t length, size_t stride, uint32_t ack);
/* After one put or more. True: ring at the receiver's. */
bool shm_ring_calls(struct shm_ring *ring);
/* What is long is about to be put together there. True: past the cache, since the receiver copies on another processor
 * than the caller's, as far as is known, and minds that. */
bool shm_ring_begin(struct shm_ring *ring);
/* The flag goes up. Look for room once more! */
void shm_ring_want_room(struct shm_ring *ring);

/* ---- The receiver ---- */

/* As far as it has been told, and believed. */
bool shm_ring_is_empty(struct shm_ring *ring);
/* The next train; false: there is none, or the ring is broken. */
bool shm_ring_next(struct shm_ring *ring, struct shm_train *train);
/* Did it go past the sender's cache, as he says? Of one of SHM_PACE_MIN bytes and more. */
bool shm_ring_went_far(const struct shm_train *train);
/* And how long did that take him, ns, as he says? Of one likewise. 0: he was not asked. */
uint64_t shm_ring_took(const struct shm_train *train);
/* It has been copied, and its place is free: so the sender learns, but for a little, at once. True: ring at the
 * sender's. */
bool shm_ring_taken(struct shm_ring *ring, const struct shm_train *train);
/* All that has been taken he learns. True: ring at the sender's. */
bool shm_ring_tell(struct shm_ring *ring);
/* The flag goes up. Look for trains once more! */
void shm_ring_sleep(struct shm_ring *ring);

/* ---- Both ---- */

/* The flag has been taken down by the other, who rings, or has already. Says so once. */
bool shm_ring_was_called(struct shm_ring *ring, _Atomic uint32_t *flag);
/* Take the flag down again. True: the other has already, and rings. */
bool shm_ring_stay(struct shm_ring *ring, _Atomic uint32_t *flag);

#endif
