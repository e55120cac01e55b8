/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * message.h - a message of data as work requests: one or several, of which the last notifies the peer.
 *
 * A work request is as long as the device permits. All but the last are plain RDMA WRITEs, which need no credit and
 * cause no completion at the peer. The last is an RDMA WRITE WITH IMMEDIATE or, if either end does not have that, a
 * control message after the writes.
 */
#ifndef XS_MESSAGE_H
#define XS_MESSAGE_H

#include "conn.h"

/* The next bytes of an operation that are contiguous in registered memory. */
struct span {
    uint64_t addr; /* as the device knows it */
    uint64_t length;
    uint32_t lkey;
    struct window *window; /* of an exs_sendfile or a longer exs_sendmsg (file.h); else NULL */
};

/* The memory of the peer that they are written to. */
struct target {
    uint64_t addr, room; /* bytes */
    uint32_t rkey, imm;
    struct advert *advert; /* NULL: the ring buffer */
};

struct message {
    struct op *op;
    struct span span;
    struct target target;
    uint32_t bytes, posted; /* of the message; given to the device */
};

/* Sets *bytes to the length of the longest message that can be posted now. Returns false if there is no credit or the
 * send queue is full. */
bool xs_message_room(const struct conn *conn, uint64_t *bytes);
/* Posts a message, which must not be longer than that. Returns false if that failed, which breaks the connection. */
bool xs_message_post(struct conn *conn, struct message *message);

/* Posts an empty message that ends a transfer into `advert` that was cut off; xs_message_room() must have returned
 * true. Returns false if that failed, which breaks the connection. */
bool xs_message_end(struct conn *conn, const struct advert *advert);

#endif
