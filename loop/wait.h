/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h - waiting, in the calling thread.
 *
 *   struct wait wait;
 *
 *   wait_begin(&wait);
 *   if (xs_start(a struct ask whose waiter is &wait.waiter) < 0)
 *       return -1;
 *   const exs_event_t *event = wait_end(&wait);
 *
 * The user's loops and watchers are never run.
 */
#ifndef EXS_WAIT_H
#define EXS_WAIT_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include "core/core.h"

struct wait { /* on the stack of the thread that waits */
    struct waiter waiter;
    pthread_t owner;
    const struct doorbell *bell; /* the owner's, for other threads to wake it by */
    _Atomic int state;           /* WAITING, DELIVERING, DONE: what was written before pairs with is_done() */
    exs_event_t event;
};

/* Nothing of it can fail. */
void wait_begin(struct wait *wait);
/* Run until the operation is done. NULL and errno when it failed. */
const exs_event_t *wait_end(struct wait *wait);
/* The same for EXS_INTR: a signal handler, which runs while the thread sleeps, has the operation of this socket
 * ended. Until then signals are held: from hold_signals, before the operation is started, which says which
 * were; afterwards they are to be released. */
void hold_signals(sigset_t *held_before);
const exs_event_t *wait_end_or_signal(struct wait *wait, int sockno, const sigset_t *held_before);
void release_signals(const sigset_t *held_before);
/* Until fd is readable or the time is over (ns), or sooner: look, and wait again. 0;
 * -1 when there is no descriptor: errno is as exs_qfd left it. */
int wait_readable(int fd, uint64_t ns);

#endif
