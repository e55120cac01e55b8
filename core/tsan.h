/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsan.h - order between threads that the thread sanitizer can't see.
 *
 * The sanitizer sees what a program's own code does, and the calls of the C library that others make. It sees neither how
 * the library's mutex orders threads (mutex.h), nor that a packet that one thread of a process sent was received by another,
 * and would report races in programs that have none. If the program has been linked with the sanitizer, the library tells
 * it: what a thread did before tsan_release(at) is ordered before what another does after tsan_acquire(at). In other
 * programs these symbols are NULL.
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
