/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c - starts threads of the library. See threads.h. */
#include <signal.h>
#include "threads.h"

int threads_start(pthread_t *thread, void *(*run)(void *))
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t unjoined;

    pthread_attr_init(&attr);
    if (thread == NULL)
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread == NULL ? &unjoined : thread, &attr, run, NULL);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}
