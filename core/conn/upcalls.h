/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * upcalls.h - the functions of a socket that its connection calls, with the socket's lock held. They are defined in
 * sock/.
 */
#ifndef XS_CONN_UPCALLS_H
#define XS_CONN_UPCALLS_H

struct sock;

/* Called after a change of the socket: completes the polls in its list for which it is ready now. */
void xs_poll_look(struct sock *sock);
/* Called after a change that a close may wait for: continues the close. */
void xs_close_step(struct sock *sock);

#endif
