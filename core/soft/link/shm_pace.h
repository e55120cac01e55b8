/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_pace.h - past the sender's cache or not: which of both takes the two ends of a ring less time.
 *
 * Where two processors have a cache in common, what the sender leaves there is read from there; where they have
 * none, what has gone past the cache comes sooner (core/copy.h). Which of both it is nobody says for
 * sure: a virtual machine's host moves its processors, and always calls the cache common. So once in a while the
 * time of a few long trains of either kind is taken, and the receiver asks for the kind that took less. It is the time
 * of both, since either may pay: who reads waits for lines that the other has, and who writes for those that the other
 * has read.
 *
 * The sender says of each train which it is, and how long it took. A lie makes the liar's own bytes slow, and no more.
 */
#ifndef SOFT_SHM_PACE_H
#define SOFT_SHM_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_PACE_MIN 32768 /* bytes of a train whose time says something */

/* Of the receiver's end of a ring: all 0 at first, which asks for what has gone past the cache. */
struct shm_pace {
    bool warm;         /* trains have come before */
    bool near;         /* what is asked for: trains that stay in the sender's cache */
    bool near_before;  /* and what was before this comparison */
    bool compares;     /* trains are timed, */
    unsigned timed[2]; /* so many yet: past the cache, and near; */
    uint64_t least[2]; /* the shortest of each, ns for 64 KiB */
    uint64_t left;     /* bytes until the comparison is given up, or until the next */
};

/* A train of so many bytes has come. Is it to be timed? */
bool shm_pace_begin(struct shm_pace *pace, size_t length);
/* It took so long to be copied, twice. */
void shm_pace_took(struct shm_pace *pace, bool near, size_t length, uint64_t ns);

#endif
