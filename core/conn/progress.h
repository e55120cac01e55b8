/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h - a thread that continues sends and closes for which neither a call nor a queue waits (progress.c). */
#ifndef XS_PROGRESS_H
#define XS_PROGRESS_H

struct queue;
struct sock;

/* A send that names no queue was started on a socket without an owner: makes the thread drive the socket's home until
 * all bytes were given to the device. The thread is started if necessary; if that fails, this is logged, and the send
 * waits for the next call on the socket. Called with the socket's lock. */
void xs_progress_ensure(struct sock *sock);
/* A close that names no queue starts on a socket without an owner: makes the thread drive the socket's home until the
 * close is done. Returns 0; or -1 and errno if the thread can't start or can't drive the home. Called with the socket's
 * lock. */
int xs_progress_drive(struct sock *sock);
/* Counts a close that the thread drives. Called with the socket's lock, when the close starts and when it is done. */
void xs_progress_close_started(struct sock *sock);
void xs_progress_close_done(struct sock *sock);
/* Waits for the closes that the thread drives, then ends the thread. Called when no other sockets are left. */
void xs_progress_end(void);
/* Forgets the parent's thread, in a forked child. */
void xs_progress_reset(void);

#endif
