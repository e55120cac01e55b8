/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shuffle.h - numbers that look drawn at random, without one coming twice: a secret permutation of all numbers
 * of so many bits.
 *
 * Whoever counts up, and gives out what this makes of the count, gives each number once in a round; but nobody
 * without the key learns from some of them what the others are.
 */
#ifndef SOFT_SHUFFLE_H
#define SOFT_SHUFFLE_H

#include <stdint.h>

struct soft_shuffle {
    uint64_t key[2];
    unsigned bits; /* 2 to 32 */
};

/* One word, as no one without the key can tell it from a random one. */
uint64_t soft_keyed_hash(const uint64_t key[2], uint64_t word);
/* The number (of so many bits) that takes the place of this one. */
uint32_t soft_shuffle(const struct soft_shuffle *shuffle, uint32_t number);

#endif
