/* SPDX-License-Identifier: BSD-2-Clause */
/* incoming.h - a listener and a queue: shared by the tests of connections that are not accepted yet. */
#ifndef CHECK_INCOMING_H
#define CHECK_INCOMING_H

#include "check/support/support.h"

extern struct inbox box;
extern struct address address; /* of the listener */
extern int listener;
extern exs_acceptaddr_t wanted[4];

/* Limits descriptors to 2,048, of which a listener keeps 256 half-open connections. */
void incoming_begin(void);
void incoming_end(void);
int accepted(struct inbox *inbox); /* the socket of the next EXS_EVT_ACCEPT */

#endif
