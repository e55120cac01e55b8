/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mutex.h - the mutex of queues and of device contexts: free, or taken, in one instruction that is inlined.
 *
 * A message takes six locks that nobody else wants, and a call of the C library's costs some thirty
 * instructions each way. This is the same without the kinds, owners and errors of those: who finds it taken
 * sleeps in the kernel until it is free. For whatever is not on the way of a message there is pthread_mutex_t.
 *
 * Under the thread sanitizer it is that one, since only of that does it watch in which order locks are taken. In a library
 * that was built without it, the mutex tells the sanitizer of the program how it orders threads (tsan.h).
 * MUTEX_IS_OWN keeps it as it is, for check/races.
 */
#ifndef XS_MUTEX_H
#define XS_MUTEX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "tsan.h"

#if defined(MUTEX_IS_OWN)
#elif defined(__SANITIZE_THREAD__)
#define MUTEX_IS_PTHREAD 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MUTEX_IS_PTHREAD 1
#endif
#endif

#ifdef MUTEX_IS_PTHREAD

struct mutex {
    pthread_mutex_t real;
};

static inline void mutex_init(struct mutex *mutex)
{
    pthread_mutex_init(&mutex->real, NULL);
}

static inline void mutex_lock(struct mutex *mutex)
{
    pthread_mutex_lock(&mutex->real);
}

static inline bool mutex_trylock(struct mutex *mutex)
{
    return pthread_mutex_trylock(&mutex->real) == 0;
}

static inline void mutex_unlock(struct mutex *mutex)
{
    pthread_mutex_unlock(&mutex->real);
}

#else

enum { MUTEX_FREE, MUTEX_TAKEN, MUTEX_WANTED }; /* wanted: taken, and somebody may be asleep */

struct mutex {
    _Atomic uint32_t state; /* what unlocks it (release) pairs with what locks it next (acquire) */
};

static inline void mutex_init(struct mutex *mutex)
{
    atomic_init(&mutex->state, MUTEX_FREE);
}

/* Until it is ours; then it counts as wanted. */
void mutex_wait(struct mutex *mutex);
/* It is free: one of those who are asleep may try again. */
void mutex_wake(struct mutex *mutex);

/* False: somebody has it. */
static inline bool mutex_trylock(struct mutex *mutex)
{
    uint32_t free = MUTEX_FREE;

    if (!atomic_compare_exchange_strong_explicit(&mutex->state, &free, MUTEX_TAKEN, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    tsan_acquire(mutex);
    return true;
}

static inline void mutex_lock(struct mutex *mutex)
{
    if (!mutex_trylock(mutex))
        mutex_wait(mutex);
}

static inline void mutex_unlock(struct mutex *mutex)
{
    tsan_release(mutex);
    if (atomic_exchange_explicit(&mutex->state, MUTEX_FREE, memory_order_release) == MUTEX_WANTED)
        mutex_wake(mutex);
}

#endif

#endif
