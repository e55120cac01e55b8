/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock.h - the device's mutexes, whose holder can't be cancelled where threads may be.
 *
 * Under them the device makes system calls that are cancellation points. A program of rdma-core's may cancel a
 * thread that waits for events, as it always could; here that thread may be driving the device, and would take
 * the lock with it. EXS allows no thread of its users to be cancelled inside a call, and does not pay for this.
 */
#ifndef SOFT_LOCK_H
#define SOFT_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/* From now on a thread that holds mutexes has its cancellation put off until it gives the last of them back. To be
 * called before there are other threads. */
void soft_defer_cancellation(void);

/* Whether that was called, and what it then does. */
extern bool soft_cancellation_deferred;
void soft_cancellation_off(void);
void soft_cancellation_on(void);

static inline void soft_mutex_lock(pthread_mutex_t *mutex)
{
    if (soft_cancellation_deferred)
        soft_cancellation_off();
    pthread_mutex_lock(mutex);
}

static inline bool soft_mutex_trylock(pthread_mutex_t *mutex)
{
    if (soft_cancellation_deferred)
        soft_cancellation_off();
    if (pthread_mutex_trylock(mutex) == 0)
        return true;
    if (soft_cancellation_deferred)
        soft_cancellation_on();
    return false;
}

static inline void soft_mutex_unlock(pthread_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
    if (soft_cancellation_deferred)
        soft_cancellation_on();
}

#endif
