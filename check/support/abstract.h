/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * abstract.h - unix sockets of abstract names, by which the programs of a host find each other: a test takes a
 * name as one of ours, or another, would, or comes to whoever has it.
 */
#ifndef CHECK_ABSTRACT_H
#define CHECK_ABSTRACT_H

/* A socket of this type and with these flags that has the name. */
int abstract_take(const char *name, int type);
/* One, SOCK_SEQPACKET, that is connected to who listens there; -1 where nobody does, or has
 * no place for more. */
int abstract_visit(const char *name);

#endif
