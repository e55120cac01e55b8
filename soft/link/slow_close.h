/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slow_close.h - closes connections to unix sockets to which any user can connect, in a separate thread, so that an
 * untrusted peer can't block the caller. (In the code, a listener is a listening socket, and a guest an accepted
 * connection.)
 *
 * An untrusted peer can put descriptors into the receive queue of a connection that was never read. close() of the
 * connection then closes these, too, and for a TCP socket with SO_LINGER, or a file in a file system that the peer
 * serves, the peer determines how long that takes.
 */
#ifndef SOFT_SLOW_CLOSE_H
#define SOFT_SLOW_CLOSE_H

#include <stdbool.h>

/* Whether few connections are waiting to be closed. If not, the caller must not accept another. */
bool slow_close_has_room(void);
/* Closes a connection in the thread; if there is no memory for that, in the caller. */
void slow_close(int guest);

/* For a listening socket whose clients need not send descriptors. Linux can forbid that since 6.16 (SO_PASSRIGHTS).
 * Where it does, the two functions below close connections to it directly, and connections to other sockets that are
 * slow to close do not keep new ones from being accepted here. */
void slow_close_guard(int listener);
bool slow_close_guard_has_room(void);
void slow_close_guarded(int guest);

/* Closes a listening socket, and the connections in its backlog. Its name is free then. */
void slow_close_listener(int listener);
/* In the child of a fork, which does not have the thread. */
void slow_close_forget(void);

#endif
