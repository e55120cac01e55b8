/* SPDX-License-Identifier: BSD-2-Clause */
/* overlong.c - blocks SIGXFSZ during writes beyond RLIMIT_FSIZE. See overlong.h. */
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include "overlong.h"

static void set_of_it(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGXFSZ);
}

void overlong_begin(struct overlong *overlong)
{
    sigset_t own, pending;

    set_of_it(&own);
    pthread_sigmask(SIG_BLOCK, &own, &overlong->before);
    overlong->is_awaited = sigismember(&overlong->before, SIGXFSZ) == 1 && sigpending(&pending) == 0 &&
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

void overlong_end(const struct overlong *overlong, int error)
{
    int saved = errno;

    if (error == EFBIG && !overlong->is_awaited)
        take_signal();
    pthread_sigmask(SIG_SETMASK, &overlong->before, NULL);
    errno = saved;
}
