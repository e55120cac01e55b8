/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_bitmap.h - the notification bitmap, which tells a context with many peers which rings to poll.
 *
 * The bitmap has one bit for each slot, and each peer reserves a slot. A process that clears a need-wakeup flag of the
 * context (shm_ring.h) sets the bit of its slot before it writes the context's eventfd. All peers have mapped the
 * bitmap, so a peer can set and clear any bit. That does no harm: a bit only says which ring to poll, and after a write
 * to the eventfd for which no bit is set all rings are polled. A peer that clears the bits of other peers could as well
 * read the eventfd, of which it also has a descriptor (shm.h).
 */
#ifndef SOFT_SHM_BITMAP_H
#define SOFT_SHM_BITMAP_H

#include <stdatomic.h>
#include <stdint.h>

#define SHM_SLOTS 16384 /* bits of a bitmap: maximum number of peers with a slot */

/* The bitmap, mapped by the context and by its peers. */
struct shm_bitmap {
    /* sums: one bit for each word of `calls` that is not 0; set after that word, and cleared before it. calls: one bit
     * for each slot. The bits of both are set with release, which pairs with the acquire exchanges of
     * shm_bitmap_take(). */
    _Alignas(64) _Atomic uint64_t sums[SHM_SLOTS / 64 / 64];
    _Alignas(64) _Atomic uint64_t calls[SHM_SLOTS / 64];
};

struct shm_peer;

/* A context's slots. Freed when the context and all peers with a slot have dropped their references. */
struct shm_slots {
    struct shm_bitmap *bitmap;
    int memory; /* descriptor of the bitmap, sent to each new peer */
    /* References: one of the context, and one for each slot in use. Dropping one is acq_rel and pairs with the other
     * drops: the thread that drops the last reference sees the stores of all others before their drops. */
    atomic_uint users;
    /* One bit for each slot in use. Relaxed, pairs with nothing: the compare-exchange only makes the slot unique. */
    _Atomic uint64_t reserved[SHM_SLOTS / 64];
    struct shm_peer *slot_owner[SHM_SLOTS]; /* the peer in each slot, or NULL; guarded by the context's lock */
};

/* Makes slots with a new bitmap. Returns NULL and errno on failure. */
struct shm_slots *shm_slots_new(void);
/* Drops the context's reference. */
void shm_slots_leave(struct shm_slots *slots);
/* Returns a free slot, which is then in use; -1 and EUSERS: all are in use. */
int shm_slot_reserve(struct shm_slots *slots);
/* Frees a slot. */
void shm_slot_give_back(struct shm_slots *slots, int slot);
/* Calls `each` for each slot in use. */
void shm_slots_each(struct shm_slots *slots, void (*each)(void *arg, unsigned slot), void *arg);

/* Maps a bitmap whose descriptor a peer sent; the descriptor stays the caller's. NULL and errno: it is no bitmap. */
struct shm_bitmap *shm_bitmap_map(int memory);
void shm_bitmap_unmap(struct shm_bitmap *bitmap);
/* Sets the bit of this slot, which the caller has in a peer's bitmap. The caller then writes the peer's eventfd. */
void shm_bitmap_notify(struct shm_bitmap *bitmap, unsigned slot);
/* Clears all bits that are set and calls `called` for each of their slots. Returns their number. */
unsigned shm_bitmap_take(struct shm_bitmap *bitmap, void (*called)(void *arg, unsigned slot), void *arg);

#endif
