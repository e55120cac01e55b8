/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core.h - the functions of the core that loop/ calls: they start operations and poll for their events. None of them
 * blocks, except that xs_spin() and xs_spin_for_events() busy-poll for a limited time.
 *
 * xs_start() checks the request, starts the operation and returns 0; or it starts nothing and returns -1 and errno.
 * An operation that was started has exactly one event. It is added to the event queue that the request names or, if
 * the request has a `waiter`, delivered to that waiter.
 *
 * The waiter's member `home` is the home queue of the socket (queue.h): the queue that drives the socket's queue pair.
 */
#ifndef XS_CORE_H
#define XS_CORE_H

#include <exs.h>             /* export */
#include "core/base/entry.h" /* export */
#include "core/base/log.h"   /* export */
#include "core/queue/ask.h"  /* export */
#include "core/queue/wait.h" /* export */
#include "core/sock/calls.h" /* export */

/* Handles pack a slot and a generation into a pointer, and some lengths of files and positions in streams are
 * size_t. */
_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8, "EXS needs a 64-bit processor");

/* Like xs_enter() (entry.h), for a call that starts an operation. */
int xs_enter_ask(const struct ask *ask);

/* Starts the operation. `type` must be the request's type. Each public function passes a constant, so the compiler can
 * select the function of transfer.h or sock.h that starts such an operation. Returns 0, or -1 and errno. */
int xs_start(const struct ask *ask, int type);

#endif
