/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_pace.h - measures whether long bursts of packets (batches) are copied faster if the sender bypasses its cache.
 *
 * If the CPUs of sender and receiver share a cache, it is faster if the sender writes to the cache and the receiver
 * reads from it. If they do not, stores that bypass the cache (core/base/copy.h) are faster. No interface says reliably
 * which is the case: a hypervisor moves virtual CPUs, and always reports a shared cache. So from time to time the
 * receiver measures a few long batches of either kind, and then asks the sender for the kind that took less time. It
 * adds the times of both copies, because each may have to wait: the receiver's for cache lines that the sender's CPU
 * has, and the sender's for those that the receiver's CPU has.
 *
 * The sender reports with each batch which kind it is and how long its copy took. A sender that reports wrong values
 * slows down only its own bytes.
 */
#ifndef SOFT_SHM_PACE_H
#define SOFT_SHM_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_PACE_MIN 32768 /* bytes of a batch that is long enough to be measured */

/* State of a ring's receiver. All zero at first, which asks for stores that bypass the cache. */
struct shm_pace {
    bool warm;         /* the batches before the first measurement have arrived */
    bool near;         /* what the sender is asked for: batches that stay in its cache */
    bool near_before;  /* the value of `near` before this measurement */
    bool compares;     /* a measurement is running */
    unsigned timed[2]; /* batches measured so far: [0] past the cache, [1] near */
    uint64_t least[2]; /* the shortest time of each kind, ns for 64 KiB */
    /* While `compares`: bytes until the measurement is given up; else bytes until the next one. */
    uint64_t left;
};

/* Called when a batch of `length` bytes has arrived. Returns whether the receiver must time its copy. */
bool shm_pace_begin(struct shm_pace *pace, size_t length);
/* Called after a timed copy. `ns` is the time of both copies of the batch, into the ring and out of it; `near`: the
 * sender wrote the batch to its cache. */
void shm_pace_took(struct shm_pace *pace, bool near, size_t length, uint64_t ns);

#endif
