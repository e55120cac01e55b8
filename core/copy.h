/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * copy.h - copying what is long, and what another processor reads next.
 *
 * memcpy() may do it by one instruction (rep movsb). The C library does up to glibc 2.38 on AMD's processors, where that
 * may take four times as long if source and target do not lie alike within their lines (glibc bug 30994): and payload lies
 * behind a header. Lines that are loaded and stored one by one are not slower than they need to be.
 *
 * A line that was written is in the writer's cache, and whoever reads it then has it fetched from there, which
 * between processors without a common cache takes longer than from memory; and before it is written once more
 * its reader's copy has to go. Lines that are written whole, past the cache, cost neither: six times as much
 * gets through between two such processors. Who reads on the same processor, or on one that has a cache in common
 * with it, would wait for memory in vain: soft/link/shm_pace.h finds that out.
 */
#ifndef XS_COPY_H
#define XS_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define COPY_LONG 2048 /* bytes; what is shorter memcpy() does as well as can be */

#ifdef __SSE2__

#define COPY_LINE 64 /* bytes */

static inline void copy_store(__m128i *to, __m128i part, bool past_cache)
{
    if (past_cache)
        _mm_stream_si128(to, part);
    else
        _mm_store_si128(to, part);
}

static inline void copy_line(uint8_t *to, const uint8_t *from, bool past_cache)
{
    const __m128i_u *in = (const __m128i_u *)(const void *)from;
    __m128i *out = (__m128i *)(void *)to;
    __m128i first = _mm_loadu_si128(in), second = _mm_loadu_si128(in + 1);
    __m128i third = _mm_loadu_si128(in + 2), fourth = _mm_loadu_si128(in + 3);

    copy_store(out, first, past_cache);
    copy_store(out + 1, second, past_cache);
    copy_store(out + 2, third, past_cache);
    copy_store(out + 3, fourth, past_cache);
}

static inline void copy_lines(uint8_t *to, const uint8_t *from, size_t length, bool past_cache)
{
    size_t at = -(uintptr_t)to % COPY_LINE;

    memcpy(to, from, at);
    for (; length - at >= COPY_LINE; at += COPY_LINE)
        copy_line(to + at, from + at, past_cache);
    memcpy(to + at, from + at, length - at);
}

/* As memcpy(): it stays in the cache. */
static inline void copy_near(void *to, const void *from, size_t length)
{
    if (length < COPY_LONG)
        memcpy(to, from, length);
    else
        copy_lines(to, from, length, false);
}

/* Past the cache, for another processor: what is stored after this is seen after it. */
static inline void copy_far(void *to, const void *from, size_t length)
{
    if (length < COPY_LONG) {
        memcpy(to, from, length);
        return;
    }
    copy_lines(to, from, length, true);
    _mm_sfence(); /* these stores wait for no order but this */
}

#else

static inline void copy_near(void *to, const void *from, size_t length)
{
    memcpy(to, from, length);
}

static inline void copy_far(void *to, const void *from, size_t length)
{
    memcpy(to, from, length);
}

#endif
#endif
