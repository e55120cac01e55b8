/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * keys.h - from a key to its memory region.
 *
 * Keys are given out as if at random, as queue pair numbers are: whoever was given some knows no others. None
 * comes again before all 2^32 have been given, so that the key of a region that is gone opens no later one.
 * Guarded by the context's lock.
 */
#ifndef SOFT_KEYS_H
#define SOFT_KEYS_H

#include <stdbool.h>
#include <stdint.h>
#include "shuffle.h"

struct soft_mr;

struct soft_keys {
    struct soft_mr **places; /* by the low bits of the key, or as soon behind that as one was free */
    uint32_t room, count;    /* a power of 2; at most half of them are in use */
    uint32_t given;          /* in all, also those that are gone */
    struct soft_shuffle shuffle;
};

/* Give the region its keys, lkey and rkey the same. False: no memory, or too many. */
bool soft_key_enter(struct soft_keys *keys, struct soft_mr *mr);
void soft_key_leave(struct soft_keys *keys, const struct soft_mr *mr);
struct soft_mr *soft_key_find(const struct soft_keys *keys, uint32_t key); /* NULL: no region's */
void soft_keys_free(struct soft_keys *keys);

#endif
