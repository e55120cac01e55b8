/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mutex.h - the mutex of queues and of device contexts, whose uncontended lock and unlock are one inlined atomic
 * instruction each.
 *
 * A message takes six locks that are usually free, and the C library's functions cost about thirty instructions each.
 * This mutex is not recursive, and it records no owner and checks no errors. A thread that finds it locked sleeps in
 * the kernel until it is free. Locks that are not on the data path are pthread_mutex_t.
 *
 * With the thread sanitizer this is a pthread_mutex_t, because the sanitizer checks the order of locks only for
 * those. If the library was built without the sanitizer and the program with it, the mutex tells the sanitizer how it
 * orders threads (tsan.h). MUTEX_IS_OWN keeps this implementation even with the sanitizer, for check/races.
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

/* MUTEX_WANTED: taken, and a thread may sleep until it is free. */
enum { MUTEX_FREE, MUTEX_TAKEN, MUTEX_WANTED };

struct mutex {
    _Atomic uint32_t state; /* an unlock (release) pairs with the next lock (acquire) */
};

static inline void mutex_init(struct mutex *mutex)
{
    atomic_init(&mutex->state, MUTEX_FREE);
}

/* Sleeps until the caller has the lock, whose state is MUTEX_WANTED then. */
void mutex_wait(struct mutex *mutex);
/* Wakes one of the threads that wait for the lock. Called after an unlock. */
void mutex_wake(struct mutex *mutex);

/* Returns false if another thread has the lock. */
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
