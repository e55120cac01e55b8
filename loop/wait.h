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
 * These functions never run the application's event loops or call its watchers.
 */
#ifndef EXS_WAIT_H
#define EXS_WAIT_H

#include <pthread.h>
#include <signal.h>
#include "core/api/core.h"

/* On the stack of the waiting thread. */
struct wait {
    struct waiter waiter;
    pthread_t owner;
    const struct doorbell *wakefd; /* eventfd by which other threads wake the owner */
    /* WAITING, DELIVERING or DONE. The release stores in deliver() pair with the load in is_done(). */
    _Atomic int state;
    exs_event_t event;
};

/* Initializes the struct. Can't fail. */
void wait_begin(struct wait *wait);
/* Runs the home queue, and sleeps, until the operation has ended. Returns the event; or NULL and the event's errno if
 * the operation has failed. */
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
