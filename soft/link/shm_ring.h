/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_ring.h - one direction of a shared-memory link: bursts of packets in a ring that two processes have mapped.
 *
 * A burst, or batch, is a run of packets of one length (`stride`); the last packet may be shorter.
 *
 * Neither process trusts the other. Each keeps its own position in private memory and only publishes it. It reads the
 * other's position and headers once, into a local variable, and checks them: a batch must lie within the ring and
 * within what was published. If a value is invalid the ring is marked broken and is not read again.
 *
 * Positions count bytes and never wrap; the offset in the ring is the position modulo its size. A batch is contiguous,
 * behind a header; if it does not fit before the end of the ring, a header of SHM_SKIP says so. An empty ring restarts
 * at its first byte, so that a sender with little traffic touches few pages.
 *
 * Two flags per direction avoid needless eventfd writes. A side that is about to block sets its flag and then checks
 * the ring once more. The other side publishes its new position, then tests and clears the flag, and writes the
 * eventfd if it was set. These stores and loads are seq_cst, so at least one of the two sees the other's store.
 */
#ifndef SOFT_SHM_RING_H
#define SOFT_SHM_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shm_pace.h"

/* Bytes of a ring, a power of two. One side can copy half of the ring while the other side is being woken, which takes
 * 50 us and more in a virtual machine. Pages are allocated when they are used: populate() in shm_ring.c. */
#define SHM_RING_BYTES 2097152u
#define SHM_HEADER 16 /* bytes before a batch: length, stride, acknowledgement, kind and time of the copy */
#define SHM_ALIGN 64  /* bytes: alignment of a header */
#define SHM_SKIP UINT32_MAX           /* a batch length: the next batch is at the start of the ring */
#define SHM_TIMES (UINT32_C(1) << 31) /* in `processor`: the receiver asks how long the sender's copies take */

/* The shared variables of one direction. Positions and flags are stored and loaded as seq_cst, as described above. */
struct shm_control {
    /* The sender's position: the bytes before it have been written. */
    _Alignas(64) _Atomic uint64_t tail;
    /* The receiver's position: the bytes before it may be overwritten again. */
    _Alignas(64) _Atomic uint64_t head;
    /* 1 + the number of the CPU on which the receiver copies; 0: unknown, or the sender should write to its cache. The
     * bit SHM_TIMES may be set, too. Relaxed, pairs with nothing: advisory only. */
    _Atomic uint32_t processor;
    /* Flag: the sender waits for space. The sender sets it, the receiver clears it. Pairs with `head`. */
    _Alignas(64) _Atomic uint32_t wants_room;
    /* The need-wakeup flag of the receiver. The receiver sets it, the sender clears it. Pairs with `tail`. */
    _Alignas(64) _Atomic uint32_t sleeps;
};

/* One end of a direction, in private memory. Guarded by the context's lock. */
struct shm_ring {
    struct shm_control *control;
    uint8_t *bytes;
    uint64_t at;      /* position of this end: the sender's tail, the receiver's head */
    uint64_t seen;    /* position of the other end, as last read and checked */
    uint64_t told_at; /* in the receiver: the value of `head` that it last published */
    uint32_t told;    /* in the receiver: the value of `processor` that it last published */
    bool far;         /* in the sender: the next batch is written past the cache */
    uint64_t begun;   /* in the sender: when it started the batch, ns, if the receiver asks for times; else 0 */
    size_t populated; /* in the sender: bytes from the start of the ring whose pages are allocated */
    struct shm_pace pace; /* in the receiver: which kind of store it asks for */
    bool flagged;         /* this end has set its flag, and has not seen it cleared */
    bool broken; /* the ring is not used any more: the other end has published an invalid value, or as below */
    bool has_no_memory; /* the kernel has no memory for the sender's next batch */
};

/* A received batch. The numbers are checked; the bytes are shared memory that the sender can still change. */
struct shm_burst {
    const uint8_t *bytes;
    size_t length, stride, whole; /* `whole`: the batch with its header and padding */
    uint32_t ack;                 /* acknowledgement: SOFT_ACKED and a PSN (wire.h); or 0 */
};

/* ---- The sender ---- */

/* Returns where the caller must write the next batch, of at least `size` bytes, and sets *limit to its maximum length.
 * NULL: there is no space, or the ring is broken. */
uint8_t *shm_ring_room(struct shm_ring *ring, size_t size, size_t *limit);
/* Reads the receiver's position. shm_ring_room() does so only when the space that it knows of may be too small. */
void shm_ring_see_room(struct shm_ring *ring);
/* Publishes the batch that was written there, with an acknowledgement (SOFT_ACKED and a PSN) or 0. */
void shm_ring_put(struct shm_ring *ring, size_t length, size_t stride, uint32_t ack);
/* Called after one or more shm_ring_put(): clears the receiver's flag. True: the flag was set, and the caller must wake
 * the receiver. */
bool shm_ring_needs_notify(struct shm_ring *ring);
/* Called when a long batch is about to be written. True: the caller should write it past the cache, because the
 * receiver asks for that, and copies on another CPU than the caller. */
bool shm_ring_begin(struct shm_ring *ring);
/* Sets the sender's flag. The caller must then check for space once more. */
void shm_ring_want_room(struct shm_ring *ring);

/* ---- The receiver ---- */

/* Returns whether the receiver has taken all batches that were published. Reads the sender's position. */
bool shm_ring_is_empty(struct shm_ring *ring);
/* Finds the next batch. False: there is none, or the ring is broken. */
bool shm_ring_next(struct shm_ring *ring, struct shm_burst *burst);
/* Returns whether the sender has reported that it wrote the batch past the cache. Only for batches of at least
 * SHM_PACE_MIN bytes. */
bool shm_ring_went_far(const struct shm_burst *burst);
/* Returns the time of the sender's copy as the sender has reported it, ns; 0: the receiver did not ask. Only for
 * batches of at least SHM_PACE_MIN bytes. */
uint64_t shm_ring_took(const struct shm_burst *burst);
/* Frees the bytes of a batch that was copied. Publishes the receiver's position if at least 4096 bytes (UNREPORTED_MAX)
 * are free that the sender does not know of. True: the caller must wake the sender. */
bool shm_ring_taken(struct shm_ring *ring, const struct shm_burst *burst);
/* Publishes the receiver's position. True: the caller must wake the sender. */
bool shm_ring_tell(struct shm_ring *ring);
/* Sets the receiver's flag. The caller must then check for batches once more. */
void shm_ring_sleep(struct shm_ring *ring);

/* ---- Both ---- */

/* Returns whether the other end has cleared this end's flag. It then writes this end's eventfd, or has done so already.
 * Returns true once for each time that the flag was cleared. */
bool shm_ring_was_notified(struct shm_ring *ring, _Atomic uint32_t *flag);
/* Clears this end's flag, if it is set. True: the other end has cleared it before, and writes this end's eventfd. */
bool shm_ring_stay(struct shm_ring *ring, _Atomic uint32_t *flag);

#endif
