/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * keys.h - a hash table from keys to memory regions.
 *
 * Keys are given out in a secret order (shuffle.h), so that a peer that knows some keys cannot guess others. No key is
 * given out twice before all 2^32 have been used, so the key of a deregistered region does not open a later one.
 * Guarded by the context's lock.
 */
#ifndef SOFT_KEYS_H
#define SOFT_KEYS_H

#include <stdbool.h>
#include <stdint.h>
#include "shuffle.h"

struct soft_mr;

struct soft_keys {
    /* A hash table with open addressing. A key's entry is the one with the index of the key's low bits, or a later one
     * if that is in use. */
    struct soft_mr **places;
    uint32_t room, count;        /* entries of the table, a power of 2; entries in use, at most half of them */
    uint32_t given;              /* keys given out in total */
    struct soft_shuffle shuffle; /* the order in which keys are given out */
};

/* Gives the region a key, which is both lkey and rkey. False: no memory, or too many keys. */
bool soft_key_enter(struct soft_keys *keys, struct soft_mr *mr);
void soft_key_leave(struct soft_keys *keys, const struct soft_mr *mr);
/* Returns the region that has this key, or NULL. */
struct soft_mr *soft_key_find(const struct soft_keys *keys, uint32_t key);
void soft_keys_free(struct soft_keys *keys);

#endif
