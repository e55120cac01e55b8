/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.h - starting a thread of the library's that nobody joins. */
#ifndef XS_THREADS_H
#define XS_THREADS_H

/* The application's signal handlers do not run there. 0 or an errno. */
int threads_start(void *(*run)(void *));

#endif
