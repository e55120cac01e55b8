/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsan.h - informs the thread sanitizer of ordering between threads that it can't see.
 *
 * The sanitizer instruments the program's own code and intercepts calls of the C library. It sees neither how the
 * library's mutex orders threads (mutex.h), nor that a packet that one thread of a process sent was received by
 * another, and would report races in programs that have none. If the program is linked with the sanitizer, these
 * functions tell it that what a thread did before tsan_release(at) is ordered before what another does after
 * tsan_acquire(at). In other programs the symbols are NULL.
 */
#ifndef XS_TSAN_H
#define XS_TSAN_H

#include <stddef.h>

void __tsan_acquire(void *at) __attribute__((weak));
void __tsan_release(void *at) __attribute__((weak));

static inline void tsan_acquire(void *at)
{
    if (__tsan_acquire != NULL)
        __tsan_acquire(at);
}

static inline void tsan_release(void *at)
{
    if (__tsan_release != NULL)
        __tsan_release(at);
}

#endif
