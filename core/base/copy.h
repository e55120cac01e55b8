/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * copy.h - copying long buffers, and buffers that another CPU reads next.
 *
 * memcpy() may use the instruction rep movsb, as the C library does up to glibc 2.38 on AMD's CPUs. On these CPUs rep
 * movsb can take four times as long if source and target have different offsets in their cache lines (glibc bug 30994).
 * The offsets of payload usually differ, because it follows a header. A loop that copies one cache line after the
 * other by loads and stores does not have this problem.
 *
 * A cache line that was written is in the writer's cache, and a reader fetches it from there. Between CPUs without a
 * shared cache that takes longer than a read from memory, and before the line is written again the reader's copy must
 * be invalidated. Non-temporal stores of whole lines bypass the cache and avoid both: between two such CPUs the
 * throughput is six times as high. But a reader on the same CPU, or on one with a shared cache, would wait for memory
 * needlessly. soft/link/shm_pace.h measures which kind of store is faster.
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

#define COPY_LONG 2048 /* bytes: a shorter copy uses memcpy(), which is as fast */

#ifdef __SSE2__

#define COPY_LINE 64 /* bytes of a cache line */

/* `past_cache`: the store bypasses the cache. */
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

/* Copies at least COPY_LINE bytes: memcpy() copies those before the first and after the last whole line of `to`. */
static inline void copy_lines(uint8_t *to, const uint8_t *from, size_t length, bool past_cache)
{
    size_t at = -(uintptr_t)to % COPY_LINE;

    memcpy(to, from, at);
    for (; length - at >= COPY_LINE; at += COPY_LINE)
        copy_line(to + at, from + at, past_cache);
    memcpy(to + at, from + at, length - at);
}

/* Like memcpy(): the copy stays in the cache. */
static inline void copy_near(void *to, const void *from, size_t length)
{
    if (length < COPY_LONG)
        memcpy(to, from, length);
    else
        copy_lines(to, from, length, false);
}

/* Like memcpy(), but a copy of COPY_LONG bytes or more bypasses the cache, for a reader on another CPU. Other CPUs see
 * the copied bytes before they see any later store. */
static inline void copy_far(void *to, const void *from, size_t length)
{
    if (length < COPY_LONG) {
        memcpy(to, from, length);
        return;
    }
    copy_lines(to, from, length, true);
    _mm_sfence(); /* nothing else orders non-temporal stores */
}

#else /* no SSE2: all copies go through the cache */

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
