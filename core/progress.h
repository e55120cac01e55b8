/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h - progress of sends that neither a call nor a queue waits for (progress.c). */
#ifndef XS_PROGRESS_H
#define XS_PROGRESS_H

#include <stdbool.h>

struct queue;
struct sock;

/* A send without a queue was started on a socket that no queue owns: what of it can't be sent now is sent as soon as the
 * peer allows. Called with the socket's lock. */
void xs_progress_ensure(struct sock *sock);
/* Is there still something of that kind at this home? Called with its lock. */
bool xs_progress_is_needed(const struct queue *home);
/* There are no sockets any more. */
void xs_progress_end(void);
/* Forget the parent's, in a forked child. */
void xs_progress_reset(void);

#endif
