/* SPDX-License-Identifier: BSD-2-Clause */
/* fsize_guard.c - blocks SIGXFSZ during writes beyond RLIMIT_FSIZE. See fsize_guard.h. */
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include "fsize_guard.h"

static void set_of_it(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGXFSZ);
}

void fsize_guard_begin(struct fsize_guard *fsize_guard)
{
    sigset_t own, pending;

    set_of_it(&own);
    pthread_sigmask(SIG_BLOCK, &own, &fsize_guard->before);
    fsize_guard->is_awaited = sigismember(&fsize_guard->before, SIGXFSZ) == 1 && sigpending(&pending) == 0 &&
                              sigismember(&pending, SIGXFSZ) == 1;
}

/* Consume the signal. The kernel sends it to the thread that made the call, before the call returns. */
static void take_signal(void)
{
    const struct timespec at_once = {0, 0};
    sigset_t own;

    set_of_it(&own);
    while (sigtimedwait(&own, NULL, &at_once) == -1 && errno == EINTR)
        ;
}

void fsize_guard_end(const struct fsize_guard *fsize_guard, int error)
{
    int saved = errno;

    if (error == EFBIG && !fsize_guard->is_awaited)
        take_signal();
    pthread_sigmask(SIG_SETMASK, &fsize_guard->before, NULL);
    errno = saved;
}
