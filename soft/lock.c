/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.c - defers cancellation of a thread while it holds mutexes: see lock.h. */
#include "lock.h"

bool soft_cancellation_deferred;

/* How many mutexes the calling thread holds, and its cancellation state before the first. */
static _Thread_local unsigned held;
static _Thread_local int before;

void soft_defer_cancellation(void)
{
    soft_cancellation_deferred = true;
}

void soft_cancellation_off(void)
{
    if (held++ == 0)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
}

void soft_cancellation_on(void)
{
    if (--held == 0)
        pthread_setcancelstate(before, NULL);
}
