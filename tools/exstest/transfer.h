/* SPDX-License-Identifier: BSD-2-Clause */
/* transfer.h - executes one operation of a test by EXS calls, and checks the received message. */
#ifndef EXSTEST_TRANSFER_H
#define EXSTEST_TRANSFER_H

#include "link.h"

/* Starts a send, or an RDMA read or write of the other end's exported memory. A send is one message, gathered from its
 * segments; a read or write is one EXS operation for each segment. Returns the number of events to expect, each with
 * the link as its ahandle, or -1 after calling link_fail(). */
int transfer_start(struct link *link, const struct op *op, const struct place *place, const exs_token_t *token);
/* Posts the receive of an operation's message. Returns false after calling link_fail(). */
bool transfer_receive(struct link *link, const struct op *op, const struct place *place);
/* Checks that a whole message was received. Returns false after calling link_fail(). */
bool transfer_is_whole(struct link *link, const struct op *op, const exs_event_t *event);
/* Exports a place of this end to the other end. Returns 0, or -1 and errno. */
int transfer_export(struct link *link, const struct op *op, const struct place *place, exs_token_t *token);

static inline bool is_send(const exs_event_t *event)
{
    return event->exs_evt_type == EXS_EVT_SEND || event->exs_evt_type == EXS_EVT_SENDFILE;
}

#endif
