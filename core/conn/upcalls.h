/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * upcalls.h - what a connection needs of its socket, whose lock is held. The functions are defined in sock/.
 */
#ifndef XS_CONN_UPCALLS_H
#define XS_CONN_UPCALLS_H

struct sock;

/* Completes the polls in the socket's list that are over after a change of the socket. */
void xs_poll_look(struct sock *sock);
/* Continues a close after a change that it may wait for. */
void xs_close_step(struct sock *sock);

#endif
