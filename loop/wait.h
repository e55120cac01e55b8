/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h - blocking the calling thread until an operation has ended.
 *
 *   struct wait wait;
 *
 *   wait_begin(&wait);
 *   if (xs_start(a struct ask whose waiter is &wait.waiter) < 0)
 *       return -1;
 *   const exs_event_t *event = wait_end(&wait);
 *
 * Never runs the application's event loops and watchers.
 */
#ifndef EXS_WAIT_H
#define EXS_WAIT_H

#include <pthread.h>
#include <signal.h>
#include "core/api/core.h"

struct wait { /* on the stack of the waiting thread */
    struct waiter waiter;
    pthread_t owner;
    const struct doorbell *wakefd; /* eventfd by which other threads wake the owner */
    _Atomic int state; /* WAITING, DELIVERING, DONE: deliver()'s release stores pair with is_done() */
    exs_event_t event;
};

/* Initializes it. Can't fail. */
void wait_begin(struct wait *wait);
/* Runs the home queue, and sleeps, until the operation has ended. Returns its event; NULL and errno if it failed. */
const exs_event_t *wait_end(struct wait *wait);
/* Like wait_end(), for EXS_INTR: if a signal handler runs while the thread sleeps, the operation of this socket is
 * interrupted. The caller blocks signals by hold_signals() before it starts the operation, and unblocks them by
 * release_signals() afterwards; they are delivered only while the thread sleeps. */
void hold_signals(sigset_t *held_before);
const exs_event_t *wait_end_or_signal(struct wait *wait, int sockno, const sigset_t *held_before);
void release_signals(const sigset_t *held_before);
/* Sleeps until fd is readable or `ns` nanoseconds have passed. May return early, so the caller must check again.
 * Returns 0; or -1 if fd is -1, with errno as exs_qfd() has set it. */
int wait_readable(int fd, uint64_t ns);

#endif
