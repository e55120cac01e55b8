/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * copy.h - copying to memory that another processor reads next.
 *
 * A line that was written is in the writer's cache, and whoever reads it then has it fetched from there, which
 * between processors without a common cache takes longer than from memory; and before it is written once more
 * its reader's copy has to go. Lines that are written whole, past the cache, cost neither: six times as much
 * gets through between two such processors. Who reads on the same processor, or on one that has a cache in common
 * with it, would wait for memory in vain: link/shm_pace.h finds that out.
 */
#ifndef SOFT_COPY_H
#define SOFT_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "wire.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#ifdef __SSE2__

#define SOFT_LINE 64 /* bytes */

static inline void soft_copy_line(uint8_t *to, const uint8_t *from)
{
    const __m128i_u *in = (const __m128i_u *)(const void *)from;
    __m128i *out = (__m128i *)(void *)to;
    __m128i first = _mm_loadu_si128(in), second = _mm_loadu_si128(in + 1);
    __m128i third = _mm_loadu_si128(in + 2), fourth = _mm_loadu_si128(in + 3);

    _mm_stream_si128(out, first);
    _mm_stream_si128(out + 1, second);
    _mm_stream_si128(out + 2, third);
    _mm_stream_si128(out + 3, fourth);
}

/* Past the cache, for another processor: what is stored after this is seen after it. */
static inline void soft_copy_far(uint8_t *to, const uint8_t *from, size_t length)
{
    size_t lead = -(uintptr_t)to % SOFT_LINE, at = lead;

    if (length < SOFT_FAR_MIN) {
        memcpy(to, from, length);
        return;
    }
    memcpy(to, from, lead);
    for (; length - at >= SOFT_LINE; at += SOFT_LINE)
        soft_copy_line(to + at, from + at);
    memcpy(to + at, from + at, length - at);
    _mm_sfence(); /* these stores wait for no order but this */
}

#else

static inline void soft_copy_far(uint8_t *to, const uint8_t *from, size_t length)
{
    memcpy(to, from, length);
}

#endif
#endif
