/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h - waiting, on a libev loop of the calling thread's own.
 *
 *   struct wait wait;
 *
 *   wait_begin(&wait);
 *   if (xs_start_...(..., &wait.waiter) < 0)
 *       return -1;
 *   const exs_event_t *event = wait_end(&wait);
 *
 * The user's loops and watchers are never run.
 */
#ifndef EXS_WAIT_H
#define EXS_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include "core.h"

struct thread_loop;

struct wait { /* on the stack of the thread that waits */
    struct waiter waiter;
    struct thread_loop *thread;
    pthread_t owner;
    _Atomic int state;             /* WAITING, DELIVERING, DONE */
    _Atomic(struct queue *) moved; /* the queue to run from now on */
    exs_event_t event;
};

/* 0; -1 and errno when the thread can't have a loop. */
int wait_begin(struct wait *wait);
/* Run until the operation is done. NULL and errno when it failed. */
const exs_event_t *wait_end(struct wait *wait);
/* Run until fd is readable or the time is over (seconds, < 0 = without end). -1 and errno. */
int wait_readable(int fd, double seconds);

#endif
