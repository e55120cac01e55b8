/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shuffle.h - a secret permutation of all numbers of a given width: each number occurs once, in an order that looks
 * random.
 *
 * The caller counts up and gives out the permutation of the count. Each number is then given out once before any is
 * repeated, and without the key the numbers given out so far do not reveal the others.
 */
#ifndef SOFT_SHUFFLE_H
#define SOFT_SHUFFLE_H

#include <stdint.h>

struct soft_shuffle {
    uint64_t key[2];
    unsigned bits; /* 2 to 32 */
};

/* A keyed hash of one 64-bit word; without the key it looks random. */
uint64_t soft_keyed_hash(const uint64_t key[2], uint64_t word);
/* Returns the number that the permutation maps `number` to. */
uint32_t soft_shuffle(const struct soft_shuffle *shuffle, uint32_t number);

#endif
