/* SPDX-License-Identifier: BSD-2-Clause */
/* mutex.c - the slow path of mutex.h: sleeping in the kernel. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "mutex.h"

#ifndef MUTEX_IS_PTHREAD

/* The kernel checks the state once more before the thread sleeps. After a signal, or if the state has changed,
 * the loop tries again. */
void mutex_wait(struct mutex *mutex)
{
    while (atomic_exchange_explicit(&mutex->state, MUTEX_WANTED, memory_order_acquire) != MUTEX_FREE)
        syscall(SYS_futex, &mutex->state, FUTEX_WAIT_PRIVATE, MUTEX_WANTED, NULL);
    tsan_acquire(mutex);
}

/* The mutex may be freed already by the thread that got it; then no thread sleeps on it, and the call has no
 * effect. */
void mutex_wake(struct mutex *mutex)
{
    syscall(SYS_futex, &mutex->state, FUTEX_WAKE_PRIVATE, 1);
}

#endif
