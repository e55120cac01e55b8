/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * message.h - converts a message of data to one or several work requests, the last of which notifies the peer.
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
    uint64_t addr; /* the address in the registration */
    uint64_t length;
    uint32_t lkey;
    struct window *window; /* the window of an exs_sendfile or a longer exs_sendmsg (file.h); else NULL */
};

/* The memory of the peer that a message is written to. */
struct target {
    uint64_t addr, room; /* its address; its bytes */
    uint32_t rkey, imm;  /* its key; the immediate data that describes it, without length and credits (IMM_) */
    struct advert *advert; /* the advertisement; NULL: the ring buffer */
};

/* A message. Owned by the caller. */
struct message {
    struct op *op;
    uint8_t followers; /* the number of sends behind `op` that the message carries whole, too (batch.c) */
    struct span span;
    struct target target;
    uint32_t bytes, posted; /* the message's length in bytes; bytes given to the device */
};

/* Sets *bytes to the length of the longest message that can be posted now. Returns false if there is no credit or the
 * send queue is full. */
bool xs_message_room(const struct conn *conn, uint64_t *bytes);
/* Posts a message, which must not be longer than xs_message_room() says. Returns false if posting failed, which breaks
 * the connection. */
bool xs_message_post(struct conn *conn, struct message *message);

/* Posts a message with followers as one work request. Each entry of `segments` has the bytes of one send. Returns false
 * if posting failed, which breaks the connection. */
bool xs_message_gather(struct conn *conn, const struct message *message, struct ibv_sge *segments);

/* ---- tx.c: for batch.c ------------------------------------------------------------------------- */

/* Sets *span to the next bytes of a send. Returns 1; 0 if it can't continue now; -1 if it failed, with the errno in
 * op->error. */
int xs_tx_span(struct conn *conn, struct op *op, struct span *span);
/* Called when all bytes of the send were given to the device: conn->tx.current becomes the send after it. */
void xs_tx_all_posted(struct conn *conn, struct op *op);

/* ---- batch.c ----------------------------------------------------------------------------------- */

/* Maximum bytes of a send that shares a message with other sends, and the maximum on a long path. */
#define BATCH_SHORT 16384
#define BATCH_LONG (256u << 10)

/* Returns the maximum for this connection. */
static inline uint64_t batch_limit(const struct conn *conn)
{
    return path_is_long(conn) ? BATCH_LONG : BATCH_SHORT;
}

/* Returns true if the message with the last `bytes` bytes of this send may also carry the send after it. */
static inline bool batch_may_follow(const struct conn *conn, const struct op *op, uint64_t bytes)
{
    return STAILQ_NEXT(op, link) != NULL && op->out.files == NULL && bytes > 0 && bytes <= batch_limit(conn) &&
           op->posted + bytes == op->length && conn->limits.max_gather > 1 && conn->limits.immediate;
}
/* Adds as many of the following sends to the message as it may carry, and posts it. Returns false if posting failed,
 * which breaks the connection. */
bool xs_batch_post(struct conn *conn, struct message *message);
/* Counts the followers as posted; the caller has counted the first send. */
void xs_batch_posted(struct conn *conn, const struct message *message);
/* Called when the device has completed the work request: counts the followers' bytes as acknowledged, and returns the
 * number of these bytes. */
uint64_t xs_batch_completed(const struct posted *posted);

/* Posts a message of no bytes, which ends a direct transfer into `advert` that was cut off. xs_message_room() must have
 * returned true. Returns false if posting failed, which breaks the connection. */
bool xs_message_end(struct conn *conn, const struct advert *advert);

#endif
