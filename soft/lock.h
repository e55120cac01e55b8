/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock.h - taking the device's mutexes. If soft_defer_cancellation() was called, a thread can't be cancelled
 * (pthread_cancel) while it holds one.
 *
 * With mutexes held the device makes system calls that are cancellation points. A program written for rdma-core may
 * cancel a thread that waits for events. Such a thread may be driving the device, and if it were cancelled then, it
 * would never release the mutex. EXS forbids its applications to cancel a thread inside a call, so it does not call
 * soft_defer_cancellation() and avoids the cost.
 */
#ifndef SOFT_LOCK_H
#define SOFT_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/* From now on cancellation of a thread is deferred while it holds mutexes. Must be called before other threads
 * exist. */
void soft_defer_cancellation(void);

/* soft_defer_cancellation() was called. Constant once other threads exist. */
extern bool soft_cancellation_deferred;
/* Disable and restore the cancellation of the calling thread; calls nest. */
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
