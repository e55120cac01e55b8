/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * message.h - a message of data on its way to the device: one or more work requests, of which the last tells
 * the peer.
 *
 * Requests are as long as the device takes. All but the last are plain RDMA WRITEs, which cost the peer
 * nothing. The last is an RDMA WRITE WITH IMMEDIATE, or, where either end has none, a control message behind
 * the writes.
 */
#ifndef XS_MESSAGE_H
#define XS_MESSAGE_H

#include "conn.h"

/* The next bytes of an operation that lie together in registered memory. */
struct span {
    uint64_t addr; /* to the device */
    uint64_t length;
    uint32_t lkey;
    struct window *window; /* of a file; NULL: of no file, or there are no bytes */
};

/* Where they go. */
struct target {
    uint64_t addr, room; /* bytes */
    uint32_t rkey, imm;
    struct advert *advert; /* NULL: the hidden buffer */
};

struct message {
    struct op *op;
    struct span span;
    struct target target;
    uint32_t bytes, posted; /* in all, and given to the device */
};

/* The longest message that can be posted now; false when there is no credit, or no room even for an empty one.
 */
bool xs_message_room(const struct conn *conn, uint64_t *bytes);
/* Post it: it is no longer than there is room. False: the connection was broken by it. */
bool xs_message_post(struct conn *conn, struct message *message);

/* The end of a transfer that was cut off, where there is room for an empty message. False: the connection was
 * broken by it. */
bool xs_message_end(struct conn *conn, const struct advert *advert);

#endif
