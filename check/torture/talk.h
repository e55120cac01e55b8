/* SPDX-License-Identifier: BSD-2-Clause */
/* talk.h - what two programs say to each other; each of the functions is one end of one connection. */
#ifndef TORTURE_TALK_H
#define TORTURE_TALK_H

#include "act.h"

#define ROUNDS 2 /* the first with failures, the second without */

struct talk {      /* what both ends know; owned by the process */
    int type;      /* SOCK_STREAM or SOCK_SEQPACKET */
    int fds[2];    /* files to send */
    char path[32]; /* the name of the second */
};

void talk_prepare(struct talk *talk);
/* The whole of it went well: round is what the client says at first. */
bool talk_as_client(struct actor *actor, const struct talk *talk, int socket, int round);
bool talk_as_server(struct actor *actor, const struct talk *talk, int socket, int *round);

#endif
