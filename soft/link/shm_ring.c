/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_ring.c - positions and flags of a ring: shm_ring.h. */
#include <sched.h>
#include <stdatomic.h>
#include "core/base/clock.h"
#include "core/base/copy.h"
#include "soft/engine/wire.h"
#include "shm_ring.h"
#include "shm_sealed.h"

#define MASK (SHM_RING_BYTES - 1)
/* An empty ring restarts at its first byte if the sender's position is behind the first NEAR bytes, and behind the
 * first MORE batches of the wanted size. It does not restart earlier, because the skipped rest of the ring is free only
 * after the receiver has taken the first batch after the restart. */
#define NEAR 65536
#define MORE 8
#define TOOK_MAX ((UINT32_C(1) << 31) - 1) /* ns: the maximum in a header */
#define UNREPORTED_MAX 4096                /* maximum free bytes that the receiver has not published yet */
#define POPULATE_MAX 65536                 /* maximum bytes that are allocated ahead of need */

static size_t aligned_size(size_t length)
{
    return (SHM_HEADER + length + SHM_ALIGN - 1) / SHM_ALIGN * SHM_ALIGN;
}

/* The header's last word. Bit 0: the batch was written past the cache. The other bits: how long the copy took, ns, or
 * 0. */
static uint32_t way_of(struct shm_ring *ring)
{
    uint64_t took = ring->begun != 0 ? now_ns() - ring->begun : 0;

    return (uint32_t)(took < TOOK_MAX ? took : TOOK_MAX) << 1 | ring->far;
}

/* Headers are written and read as atomics, because the other process may write them at the same time. Relaxed: the
 * positions order them. */
static void put_header(struct shm_ring *ring, uint32_t length, uint32_t stride, uint32_t ack)
{
    _Atomic uint32_t *header = (_Atomic uint32_t *)(void *)(ring->bytes + (ring->at & MASK));

    atomic_store_explicit(&header[0], length, memory_order_relaxed);
    atomic_store_explicit(&header[1], stride, memory_order_relaxed);
    atomic_store_explicit(&header[2], ack, memory_order_relaxed);
    if (length >= SHM_PACE_MIN)
        atomic_store_explicit(&header[3], way_of(ring), memory_order_relaxed);
    ring->begun = 0;
}

/* Clears a flag of the other end; true if it was set. Either this load sees the flag, or the thread that set the flag
 * sees the position that this end has just published: all these stores and loads are seq_cst, so they are in one total
 * order. */
static bool take_flag(_Atomic uint32_t *flag)
{
    return atomic_load_explicit(flag, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(flag, 0, memory_order_relaxed) != 0;
}

static void raise_flag(struct shm_ring *ring, _Atomic uint32_t *flag)
{
    ring->flagged = true;
    atomic_store_explicit(flag, 1, memory_order_seq_cst); /* pairs with take_flag()'s load */
}

bool shm_ring_was_notified(struct shm_ring *ring, _Atomic uint32_t *flag)
{
    if (!ring->flagged || atomic_load_explicit(flag, memory_order_relaxed) != 0)
        return false;
    ring->flagged = false;
    return true;
}

bool shm_ring_stay(struct shm_ring *ring, _Atomic uint32_t *flag)
{
    if (!ring->flagged)
        return false;
    ring->flagged = false;
    return atomic_exchange_explicit(flag, 0, memory_order_relaxed) == 0;
}

/* 1 + the current CPU; 0: not known. */
static uint32_t current_cpu(void)
{
    return (uint32_t)(sched_getcpu() + 1);
}

/* ---- The sender ---- */

/* Allocates the ring's first `end` bytes, before the sender writes there: if the kernel has no memory for a page of
 * shared memory, it sends SIGBUS to the thread that touches it. Each call doubles what is allocated, by at most
 * POPULATE_MAX, so that a ring with little traffic stays small. False: the ring is broken. */
static __attribute__((noinline)) bool populate_ring(struct shm_ring *ring, size_t end)
{
    size_t ahead = ring->populated < POPULATE_MAX ? ring->populated : POPULATE_MAX;
    size_t upto = ring->populated + ahead > end ? ring->populated + ahead : end;

    upto = (upto + SHM_PAGE - 1) / SHM_PAGE * SHM_PAGE;
    if (upto > SHM_RING_BYTES)
        upto = SHM_RING_BYTES;
    if (!shm_sealed_populate(ring->bytes + ring->populated, upto - ring->populated)) {
        ring->broken = ring->has_no_memory = true;
        return false;
    }
    ring->populated = upto;
    return true;
}

static inline bool is_populated(struct shm_ring *ring, size_t end)
{
    return end <= ring->populated || populate_ring(ring, end);
}

/* Bytes that the receiver has not taken yet, according to its last known position. */
static size_t used_bytes(const struct shm_ring *ring)
{
    return (size_t)(ring->at - ring->seen);
}

/* A position that is ahead of the sender, or goes back, is invalid. */
void shm_ring_see_room(struct shm_ring *ring)
{
    /* pairs with shm_ring_tell()'s store */
    uint64_t head = atomic_load_explicit(&ring->control->head, memory_order_seq_cst);

    if (head - ring->seen > ring->at - ring->seen)
        ring->broken = true;
    else
        ring->seen = head;
}

/* Writes a header of SHM_SKIP and continues at the start of the ring. */
static void skip_to_start(struct shm_ring *ring)
{
    if (!is_populated(ring, (ring->at & MASK) + SHM_HEADER))
        return;
    put_header(ring, SHM_SKIP, 0, 0);
    ring->at += SHM_RING_BYTES - (ring->at & MASK);
}

/* Contiguous space for at least `wanted` bytes, perhaps after a skip; 0: there is none. */
static inline __attribute__((always_inline)) size_t contiguous_space(struct shm_ring *ring, size_t wanted)
{
    size_t room = SHM_RING_BYTES - used_bytes(ring), end = SHM_RING_BYTES - (ring->at & MASK);

    if (used_bytes(ring) == 0 && (ring->at & MASK) > NEAR && (ring->at & MASK) >= MORE * wanted) {
        skip_to_start(ring);
        return SHM_RING_BYTES - used_bytes(ring);
    }
    if (end >= wanted)
        return room < end ? room : end;
    if (room < end + wanted)
        return 0;
    skip_to_start(ring);
    return room - end;
}

/* Whether the receiver's position must be read: the known space may be too small for the longest batch, or the ring
 * may be empty and could restart. */
static bool wants_to_see(const struct shm_ring *ring)
{
    return used_bytes(ring) != 0 &&
           ((ring->at & MASK) > NEAR || SHM_RING_BYTES - used_bytes(ring) < aligned_size(SOFT_BURST_LONG));
}

inline uint8_t *shm_ring_room(struct shm_ring *ring, size_t size, size_t *limit)
{
    size_t wanted = aligned_size(size), room, from, available;

    if (wants_to_see(ring))
        shm_ring_see_room(ring);
    room = ring->broken ? 0 : contiguous_space(ring, wanted);
    from = ring->at & MASK;
    if (room < wanted || ring->broken || !is_populated(ring, from + wanted))
        return NULL;
    available = ring->populated - from;
    room = (room < available ? room : available) - SHM_HEADER;
    *limit = room < SOFT_BURST_LONG ? room : SOFT_BURST_LONG;
    return ring->bytes + from + SHM_HEADER;
}

void shm_ring_put(struct shm_ring *ring, size_t length, size_t stride, uint32_t ack)
{
    put_header(ring, (uint32_t)length, (uint32_t)stride, ack);
    ring->at += aligned_size(length);
    /* pairs with see_tail()'s load */
    atomic_store_explicit(&ring->control->tail, ring->at, memory_order_seq_cst);
}

bool shm_ring_needs_notify(struct shm_ring *ring)
{
    return take_flag(&ring->control->sleeps);
}

bool shm_ring_begin(struct shm_ring *ring)
{
    uint32_t there = atomic_load_explicit(&ring->control->processor, memory_order_relaxed);

    ring->begun = there & SHM_TIMES ? now_ns() : 0;
    there &= ~SHM_TIMES;
    ring->far = there != 0 && there != current_cpu();
    return ring->far;
}

void shm_ring_want_room(struct shm_ring *ring)
{
    raise_flag(ring, &ring->control->wants_room);
}

/* ---- The receiver ---- */

static bool see_tail(struct shm_ring *ring)
{
    /* pairs with shm_ring_put()'s store */
    uint64_t tail = atomic_load_explicit(&ring->control->tail, memory_order_seq_cst);

    if (tail - ring->at > SHM_RING_BYTES || tail % SHM_ALIGN != 0 || tail - ring->at < ring->seen - ring->at)
        ring->broken = true;
    else
        ring->seen = tail;
    return !ring->broken && ring->seen != ring->at;
}

/* Skips to the start of the ring after a header of SHM_SKIP. False: the sender has not published that. */
static bool follow_skip(struct shm_ring *ring)
{
    uint64_t start = ring->at + SHM_RING_BYTES - (ring->at & MASK);

    ring->broken = start - ring->at > ring->seen - ring->at;
    if (!ring->broken)
        ring->at = start;
    return !ring->broken;
}

bool shm_ring_is_empty(struct shm_ring *ring)
{
    return ring->seen == ring->at && !see_tail(ring);
}

bool shm_ring_next(struct shm_ring *ring, struct shm_burst *burst)
{
    /* At most one skip precedes a batch; a peer that writes many does not keep this loop running. */
    for (int tries = 0; tries < 2 && !ring->broken && !shm_ring_is_empty(ring); tries++) {
        size_t offset = ring->at & MASK;
        const _Atomic uint32_t *header = (const _Atomic uint32_t *)(const void *)(ring->bytes + offset);
        uint32_t length = atomic_load_explicit(&header[0], memory_order_relaxed);
        uint32_t stride = atomic_load_explicit(&header[1], memory_order_relaxed);
        uint32_t ack = atomic_load_explicit(&header[2], memory_order_relaxed);

        if (length == SHM_SKIP) {
            follow_skip(ring);
            continue;
        }
        ring->broken = length == 0 || length > SOFT_BURST_LONG || stride == 0 ||
                       aligned_size(length) > ring->seen - ring->at ||
                       aligned_size(length) > SHM_RING_BYTES - offset ||
                       (ack != 0 && ack >> SOFT_ACKED_SHIFT != SOFT_ACKED);
        *burst =
            (struct shm_burst){ring->bytes + offset + SHM_HEADER, length, stride, aligned_size(length), ack};
        return !ring->broken;
    }
    return false;
}

static uint32_t way_told(const struct shm_burst *burst)
{
    const _Atomic uint32_t *header = (const _Atomic uint32_t *)(const void *)(burst->bytes - SHM_HEADER);

    return atomic_load_explicit(&header[3], memory_order_relaxed);
}

bool shm_ring_went_far(const struct shm_burst *burst)
{
    return way_told(burst) & 1;
}

uint64_t shm_ring_took(const struct shm_burst *burst)
{
    return way_told(burst) >> 1;
}

/* Publishes the receiver's CPU and what it asks for. Only after a batch that is long enough to be written past the
 * cache. */
static void tell_processor(struct shm_ring *ring)
{
    uint32_t here = (ring->pace.near ? 0 : current_cpu()) | (ring->pace.compares ? SHM_TIMES : 0);

    if (here != ring->told)
        atomic_store_explicit(&ring->control->processor, here, memory_order_relaxed);
    ring->told = here;
}

bool shm_ring_taken(struct shm_ring *ring, const struct shm_burst *burst)
{
    if (burst->length >= COPY_LONG)
        tell_processor(ring);
    ring->at += burst->whole;
    return ring->at - ring->told_at >= UNREPORTED_MAX && shm_ring_tell(ring);
}

bool shm_ring_tell(struct shm_ring *ring)
{
    if (ring->told_at == ring->at)
        return false;
    ring->told_at = ring->at;
    /* pairs with shm_ring_see_room()'s load */
    atomic_store_explicit(&ring->control->head, ring->at, memory_order_seq_cst);
    return ring->seen - ring->at <= SHM_RING_BYTES / 2 && take_flag(&ring->control->wants_room);
}

void shm_ring_sleep(struct shm_ring *ring)
{
    raise_flag(ring, &ring->control->sleeps);
}
