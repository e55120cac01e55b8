/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.h - starting a thread of the library's. */
#ifndef XS_THREADS_H
#define XS_THREADS_H

#include <pthread.h>

/* The application's signal handlers do not run there. NULL instead of a thread: nobody joins it. 0 or an errno. */
int threads_start(pthread_t *thread, void *(*run)(void *));

#endif
