/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.c - a thread that holds mutexes has its cancellation put off until it gives the last of them back. */
#include "lock.h"

/* The calling thread's: how many it holds, and how cancellable it was before the first. */
static _Thread_local unsigned held;
static _Thread_local int before;

static void hold(void)
{
    if (held++ == 0)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
}

static void release(void)
{
    if (--held == 0)
        pthread_setcancelstate(before, NULL);
}

void soft_mutex_lock(pthread_mutex_t *mutex)
{
    hold();
    pthread_mutex_lock(mutex);
}

bool soft_mutex_trylock(pthread_mutex_t *mutex)
{
    hold();
    if (pthread_mutex_trylock(mutex) == 0)
        return true;
    release();
    return false;
}

void soft_mutex_unlock(pthread_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
    release();
}
