/* SPDX-License-Identifier: BSD-2-Clause */
/* pattern.c - generates and checks test data; see pattern.h. */
#include "pattern.h"

#include <endian.h>
#include <string.h>

#define STEP UINT64_C(0x9E3779B97F4A7C15) /* odd; neighbouring inputs give very different products */

static uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

uint64_t pattern_seed(uint64_t session, uint32_t connection, int op, uint32_t segment, uint32_t iteration)
{
    uint64_t place = (uint64_t)connection << 32 | (uint64_t)op << 16 | segment;

    return mix_bits(mix_bits(session + iteration * STEP) + place);
}

/* Returns an 8-byte word of a segment; index: 0, 1, ... The bytes are the same on machines of any byte order. */
static uint64_t word_at(uint64_t seed, size_t index)
{
    return htole64(seed + index * STEP);
}

void pattern_put(void *memory, size_t length, uint64_t seed)
{
    unsigned char *to = memory;
    size_t words = length / 8;
    uint64_t word;

    for (size_t i = 0; i < words; i++) {
        word = word_at(seed, i);
        memcpy(to + i * 8, &word, 8);
    }
    word = word_at(seed, words);
    memcpy(to + words * 8, &word, length % 8);
}

unsigned pattern_byte(size_t at, uint64_t seed)
{
    unsigned char bytes[8];
    uint64_t word = word_at(seed, at / 8);

    memcpy(bytes, &word, 8);
    return bytes[at % 8];
}

size_t pattern_differs(const void *memory, size_t length, uint64_t seed)
{
    const unsigned char *from = memory;
    uint64_t bad = 0, word, want;
    size_t words = length / 8, at = 0;

    for (size_t i = 0; i < words; i++) {
        memcpy(&word, from + i * 8, 8);
        bad |= word ^ word_at(seed, i);
    }
    want = word_at(seed, words);
    if (bad == 0 && memcmp(from + words * 8, &want, length % 8) == 0)
        return length;
    while (from[at] == pattern_byte(at, seed))
        at++;
    return at;
}
