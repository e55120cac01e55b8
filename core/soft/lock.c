/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.c - a thread that holds mutexes has its cancellation put off until it gives the last of them back. */
#include "lock.h"

bool soft_cancellation_deferred;

/* The calling thread's: how many it holds, and how cancellable it was before the first. */
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
