/* SPDX-License-Identifier: BSD-2-Clause */
/* incoming.h - a listener with a queue beside it: what the tests of connections on their way in share. */
#ifndef CHECK_INCOMING_H
#define CHECK_INCOMING_H

#include "check/support/support.h"

extern struct inbox box;
extern struct address address; /* of the listener */
extern int listener;
extern exs_acceptaddr_t wanted[4];

void incoming_begin(void); /* with 2,048 descriptors: enough, and a listener keeps 256 half-open connections */
void incoming_end(void);
int accepted(struct inbox *inbox); /* the socket of the next EXS_EVT_ACCEPT */

#endif
