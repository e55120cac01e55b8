/* SPDX-License-Identifier: BSD-2-Clause */
/* talk.h - the transfers between two programs; each of these functions is one end of one connection. */
#ifndef TORTURE_TALK_H
#define TORTURE_TALK_H

#include "act.h"

#define ROUNDS 2 /* the first with failures, the second without */

struct talk {      /* known to both ends; owned by the process */
    int type;      /* SOCK_STREAM or SOCK_SEQPACKET */
    int fds[2];    /* files to send */
    char path[32]; /* the name of the second file */
};

void talk_prepare(struct talk *talk);
/* Each returns whether everything succeeded. The client sends `round` in its first message. */
bool talk_as_client(struct actor *actor, const struct talk *talk, int socket, int round);
bool talk_as_server(struct actor *actor, const struct talk *talk, int socket, int *round);

#endif
