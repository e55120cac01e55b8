/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h - a thread that continues sends and closes for which neither a call nor a queue waits (progress.c). */
#ifndef XS_PROGRESS_H
#define XS_PROGRESS_H

struct queue;
struct sock;

/* Called with the socket's lock when a send that names no queue was started on a socket without an owner: makes the
 * thread drive the socket's home until all bytes were given to the device. Starts the thread if necessary. Logs a
 * failure to start it; the send then waits for the next call on the socket. */
void xs_progress_ensure(struct sock *sock);
/* Called with the socket's lock when a close that names no queue starts on a socket without an owner: makes the thread
 * drive the socket's home until the close is done. Returns 0; or -1 and errno if the thread can't start or can't drive
 * the home. */
int xs_progress_drive(struct sock *sock);
/* Called with the socket's lock when a close that the thread drives starts, and when it is done: count such closes. */
void xs_progress_close_started(struct sock *sock);
void xs_progress_close_done(struct sock *sock);
/* Waits for the closes that the thread drives, then ends the thread. Called when no other sockets are left. */
void xs_progress_end(void);
/* Forgets the parent's thread, in a forked child. */
void xs_progress_reset(void);

#endif
