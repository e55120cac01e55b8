/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * abstract.h - unix sockets with abstract names, by which the programs of a host find each other: a test binds a name
 * like a program of the library or another one, or connects to a name.
 */
#ifndef CHECK_ABSTRACT_H
#define CHECK_ABSTRACT_H

/* Returns a socket of this type (and these flags) that is bound to the name. */
int abstract_take(const char *name, int type);
/* Returns a SOCK_SEQPACKET socket that is connected to the name, or -1 if no socket listens there or its queue is
 * full. */
int abstract_visit(const char *name);

#endif
