/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h - a thread that continues sends for which neither a call nor a queue waits (progress.c). */
#ifndef XS_PROGRESS_H
#define XS_PROGRESS_H

struct queue;
struct sock;

/* A send that names no queue was started on a socket without an owner: makes the thread drive the socket's home until
 * all bytes were given to the device. The thread is started if necessary; if that fails, this is logged, and the send
 * waits for the next call on the socket. Called with the socket's lock. */
void xs_progress_ensure(struct sock *sock);
/* Ends the thread, when no sockets are left. */
void xs_progress_end(void);
/* Forgets the parent's thread, in a forked child. */
void xs_progress_reset(void);

#endif
