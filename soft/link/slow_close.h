/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slow_close.h - closes connections to unix sockets to which any user can connect, in a separate thread, so that an
 * untrusted peer can't block the caller. (In the code, a listener is a listening socket, and a guest an accepted
 * connection.)
 *
 * An untrusted peer can send descriptors over a connection that this process never reads. close() of the connection
 * then closes these descriptors, too. If one is a TCP socket with SO_LINGER, or a file in a file system that the peer
 * serves, the peer determines how long that takes.
 */
#ifndef SOFT_SLOW_CLOSE_H
#define SOFT_SLOW_CLOSE_H

#include <stdbool.h>

/* Returns whether the caller may accept another connection: false while many connections wait to be closed. */
bool slow_close_has_room(void);
/* Closes a connection in the thread; if there is no memory for that, in the caller's thread. */
void slow_close(int guest);

/* Called for a listening socket whose clients need not send descriptors: forbids it, as Linux can since 6.16
 * (SO_PASSRIGHTS). Connections to such a socket are not slow to close. */
void slow_close_guard(int listener);
/* Like slow_close_has_room() and slow_close(), for connections to such a socket. If Linux has forbidden descriptors,
 * the first always returns true, and the second closes the connection in the caller's thread. */
bool slow_close_guard_has_room(void);
void slow_close_guarded(int guest);

/* Closes a listening socket, and the connections in its backlog. Its name is free then. */
void slow_close_listener(int listener);
/* Called in a forked child, which does not have the thread: forgets the connections that wait to be closed. */
void slow_close_forget(void);

#endif
