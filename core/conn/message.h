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
    uint8_t followers; /* the number of whole sends behind `op` that it carries, too */
    struct span span;
    struct target target;
    uint32_t bytes, posted; /* of the message; given to the device */
};

/* Sets *bytes to the length of the longest message that can be posted now. Returns false if there is no credit or the
 * send queue is full. */
bool xs_message_room(const struct conn *conn, uint64_t *bytes);
/* Posts a message, which must not be longer than that. Returns false if that failed, which breaks the connection. */
bool xs_message_post(struct conn *conn, struct message *message);

/* Posts a message that carries several sends, whose bytes are in these segments, as one work request. Returns false if
 * that failed, which breaks the connection. */
bool xs_message_gather(struct conn *conn, const struct message *message, struct ibv_sge *segments);

/* ---- tx.c: for batch.c ------------------------------------------------------------------------- */

/* Returns 1 and the next bytes of a send; 0 if it can't continue now; -1 if it failed, with the errno in op->error. */
int xs_tx_span(struct conn *conn, struct op *op, struct span *span);
/* The device was given all of the send, and the one behind it is the next. */
void xs_tx_all_posted(struct conn *conn, struct op *op);

/* ---- batch.c ----------------------------------------------------------------------------------- */

#define BATCH_SHORT 16384       /* bytes: sends up to this length travel together; */
#define BATCH_LONG (256u << 10) /* bytes: and up to this length on a long path */

static inline uint64_t batch_limit(const struct conn *conn)
{
    return path_is_long(conn) ? BATCH_LONG : BATCH_SHORT;
}

/* May the send behind this one travel with its last bytes? */
static inline bool batch_may_follow(const struct conn *conn, const struct op *op, uint64_t bytes)
{
    return STAILQ_NEXT(op, link) != NULL && op->files == NULL && bytes > 0 && bytes <= batch_limit(conn) &&
           op->posted + bytes == op->length && conn->max_gather > 1 && conn->immediate;
}
/* Posts the message with as many of the sends behind it as may travel with it. Returns false if that failed, which
 * breaks the connection. */
bool xs_batch_post(struct conn *conn, struct message *message);
/* Counts the followers as posted; the caller has counted the first send. */
void xs_batch_posted(struct conn *conn, const struct message *message);
/* The device has done the work request: returns the bytes of the followers. */
uint64_t xs_batch_completed(const struct posted *posted);

/* Posts an empty message that ends a transfer into `advert` that was cut off; xs_message_room() must have returned
 * true. Returns false if that failed, which breaks the connection. */
bool xs_message_end(struct conn *conn, const struct advert *advert);

#endif
