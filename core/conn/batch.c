/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batch.c - several short sends in one message.
 *
 * Sends of a STREAM that had to wait for credits, room or the device stand behind each other in the list. Short ones
 * then go to the device as one message, because each message costs a credit, a work request, and time at either end, and
 * credits and work requests come back only after a round trip. The message belongs to its first send; the others are its
 * followers, each of them whole, and complete with it.
 *
 * A long path is filled by the messages that have credits, 40 to 60 in a round trip, so there longer sends travel together
 * (BATCH_LONG): with 64 KiB each, 1 Gbit/s and 20 ms take 2.5 MB.
 */
#include "core/queue/nic.h"
#include "core/queue/socket.h"
#include "conn.h"
#include "ending.h"
#include "message.h"

#define BATCH_BYTES (1u << 20) /* of one message; at most */

static uint64_t longest(const struct conn *conn, const struct message *message)
{
    uint64_t most = message->target.room < BATCH_BYTES ? message->target.room : BATCH_BYTES;

    return most < conn->nic->max_request ? most : conn->nic->max_request;
}

/* Memory for copies stays with the connection, so only a long path may need more of it for this. */
static bool may_copy(const struct conn *conn)
{
    return path_is_long(conn) || !SLIST_EMPTY(&conn->domain.bounces);
}

static bool may_follow(const struct conn *conn, const struct op *op, uint64_t room)
{
    return op->files == NULL && op->event.exs_evt_type != EXS_EVT_SHUTDOWN && op->length > 0 &&
           op->length <= room && op->length <= batch_limit(conn) && (!op->late || may_copy(conn)) &&
           (conn->onesided_next == NULL || conn->onesided_next->number > op->number);
}

/* Add the sends behind the first to its message, as many as may follow. */
static void add_followers(struct conn *conn, struct message *message, struct ibv_sge *segments)
{
    uint64_t most = longest(conn, message);
    struct op *op = STAILQ_NEXT(message->op, link);
    struct span span = {0};

    segments[0] =
        (struct ibv_sge){.addr = message->span.addr, .length = message->bytes, .lkey = message->span.lkey};
    while (op != NULL && message->followers + 1u < conn->max_gather && message->bytes < most &&
           may_follow(conn, op, most - message->bytes) && xs_tx_span(conn, op, &span) > 0) {
        segments[++message->followers] =
            (struct ibv_sge){.addr = span.addr, .length = (uint32_t)op->length, .lkey = span.lkey};
        message->bytes += (uint32_t)op->length;
        op = STAILQ_NEXT(op, link);
    }
}

void xs_batch_posted(struct conn *conn, const struct message *message)
{
    struct op *op = message->op;

    for (uint8_t i = 0; i < message->followers; i++) {
        op = STAILQ_NEXT(op, link);
        op->posted = op->length;
        if (sock_sent(conn->sock) != SENT_WHOLE)
            xs_send_follows(conn, op);
        xs_tx_all_posted(conn, op);
    }
}

void xs_batch_count(const struct posted *posted, int change)
{
    struct op *op = posted->op;

    for (uint8_t i = 0; i < posted->followers; i++) {
        op = STAILQ_NEXT(op, link);
        op->requests += (uint32_t)change;
    }
}

uint64_t xs_batch_completed(const struct posted *posted)
{
    struct op *op = posted->op;
    uint64_t bytes = 0;

    for (uint8_t i = 0; i < posted->followers; i++) {
        op = STAILQ_NEXT(op, link);
        op->requests--;
        op->acked += op->length;
        bytes += op->length;
    }
    return bytes;
}

void xs_batch_failed(const struct posted *posted)
{
    struct op *op = posted->op;

    for (uint8_t i = 0; i <= posted->followers; i++) {
        op->requests--;
        op->failed = true;
        op = STAILQ_NEXT(op, link);
    }
}

bool xs_batch_post(struct conn *conn, struct message *message)
{
    struct ibv_sge segments[GATHER_MAX];

    add_followers(conn, message, segments);
    if (message->followers == 0)
        return xs_message_post(conn, message);
    return xs_message_gather(conn, message, segments);
}
