/* SPDX-License-Identifier: BSD-2-Clause */
/* mutex.c - the way of mutex.h that is rarely taken: asleep in the kernel. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "mutex.h"

#ifndef MUTEX_IS_PTHREAD

/* The kernel looks once more at the state before it lets us sleep; a signal, or a state that has changed, is a
 * reason to look again. */
void mutex_wait(struct mutex *mutex)
{
    while (atomic_exchange_explicit(&mutex->state, MUTEX_WANTED, memory_order_acquire) != MUTEX_FREE)
        syscall(SYS_futex, &mutex->state, FUTEX_WAIT_PRIVATE, MUTEX_WANTED, NULL);
    tsan_acquire(mutex);
}

/* Whoever it was of may have freed it by now: then nobody sleeps there, and the kernel finds nobody. */
void mutex_wake(struct mutex *mutex)
{
    syscall(SYS_futex, &mutex->state, FUTEX_WAKE_PRIVATE, 1);
}

#endif
