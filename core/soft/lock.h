/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock.h - the device's mutexes, whose holder can't be cancelled.
 *
 * Under them the device makes system calls that are cancellation points. A program of rdma-core's may cancel a
 * thread that waits for events, as it always could; here that thread may be driving the device, and would take
 * the lock with it.
 */
#ifndef SOFT_LOCK_H
#define SOFT_LOCK_H

#include <pthread.h>
#include <stdbool.h>

void soft_mutex_lock(pthread_mutex_t *mutex);
bool soft_mutex_trylock(pthread_mutex_t *mutex);
void soft_mutex_unlock(pthread_mutex_t *mutex);

#endif
