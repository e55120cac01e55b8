/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.h - starting a thread of the library. */
#ifndef XS_THREADS_H
#define XS_THREADS_H

#include <pthread.h>

/* Starts a thread with all signals blocked, so that the application's signal handlers never run in it. If `thread` is
 * NULL, the thread is detached. Returns 0 or an errno. */
int threads_start(pthread_t *thread, void *(*run)(void *));

#endif
