/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shuffle.h - a secret permutation of all numbers of a given width: each number occurs once, in an order that looks
 * random.
 *
 * The caller keeps a counter, and gives out the permutation of its value. So it gives out each number once before it
 * repeats any, and without the key the numbers that were given out do not reveal the others.
 */
#ifndef SOFT_SHUFFLE_H
#define SOFT_SHUFFLE_H

#include <stdint.h>

struct soft_shuffle {
    uint64_t key[2];
    unsigned bits; /* width of the numbers, 2 to 32 */
};

/* Returns a keyed hash of a 64-bit word, which looks random without the key. */
uint64_t soft_keyed_hash(const uint64_t key[2], uint64_t word);
/* Returns the number that the permutation maps `number` to. */
uint32_t soft_shuffle(const struct soft_shuffle *shuffle, uint32_t number);

#endif
