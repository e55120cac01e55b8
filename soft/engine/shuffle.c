/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shuffle.c - a Feistel network with two parts that are as equal as the number of bits allows. Each round changes one
 * part by a keyed hash of the other. A round can be undone, so the whole is a permutation.
 */
#include "shuffle.h"

#define ROUNDS 10 /* for both parts together */

static uint64_t rotate_left(uint64_t word, unsigned by)
{
    return word << by | word >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate_left(v[1], 13) ^ v[0];
    v[3] = rotate_left(v[3], 16) ^ v[2];
    v[0] = rotate_left(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate_left(v[1], 17) ^ v[2];
    v[3] = rotate_left(v[3], 21) ^ v[0];
    v[2] = rotate_left(v[2], 32);
}

/* SipHash-1-3 of one word, without the length, which is constant. */
uint64_t soft_keyed_hash(const uint64_t key[2], uint64_t word)
{
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};

    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint32_t soft_shuffle(const struct soft_shuffle *shuffle, uint32_t number)
{
    unsigned low_bits = shuffle->bits / 2, high_bits = shuffle->bits - low_bits;
    uint32_t low_mask = (UINT32_C(1) << low_bits) - 1, high_mask = (UINT32_C(1) << high_bits) - 1;
    uint32_t low = number & low_mask, high = number >> low_bits & high_mask;

    for (uint64_t round = 0; round < ROUNDS; round += 2) {
        high ^= (uint32_t)soft_keyed_hash(shuffle->key, round << 32 | low) & high_mask;
        low ^= (uint32_t)soft_keyed_hash(shuffle->key, (round + 1) << 32 | high) & low_mask;
    }
    return high << low_bits | low;
}
