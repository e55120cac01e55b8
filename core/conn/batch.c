/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batch.c - several short sends in one message.
 *
 * Each message costs a credit, a work request, and time at either end; credits and work requests are available again
 * only after a round trip. Therefore short sends of a STREAM that had to wait for credits, for room at the peer or for
 * the device are posted together, as one message with one work request. The message belongs to its first send. The
 * other sends are its followers: the message carries each of them whole, and they complete with it.
 *
 * A short send is also held, which means that it is not posted at once, if an earlier send of the connection has not
 * completed, and the calling thread handles a batch of events that exs_qpoll() gave to its event loop (EXS_LOOP_BUDGET).
 * The sends that are held are posted together when the thread has started as many sends as the batch has events, when they
 * fill a message, before the thread takes more events, and before it sleeps or waits in a call of this library. A loop
 * has promised one of these calls; other threads have not, so their sends are never held. Streams of 64 bytes to 4 KiB with
 * 64 sends outstanding are 1.3 to 1.7 times as fast by this (doc/performance.md).
 *
 * On a long path the credits allow only 40 to 60 messages in a round trip, and these must fill the path: 1 Gbit/s and
 * 20 ms take 2.5 MB. So there longer sends, too, share a message (BATCH_LONG), for example those of 64 KiB.
 */
#include "core/queue/nic.h"
#include "core/queue/socket.h"
#include "core/queue/wait.h"
#include "conn.h"
#include "ending.h"
#include "message.h"

#define HOLD_MAX 4096          /* maximum length of a send that is held, bytes */
#define BATCH_BYTES (1u << 20) /* maximum length of one message with followers, bytes */

static uint64_t max_batch_bytes(const struct conn *conn, const struct message *message)
{
    uint64_t most = message->target.room < BATCH_BYTES ? message->target.room : BATCH_BYTES;

    return most < conn->nic->max_request ? most : conn->nic->max_request;
}

/* May a deferred send be copied for this? It needs a bounce buffer. The connection never frees these, so only on a long
 * path new ones are made to fill messages. */
static bool may_copy(const struct conn *conn)
{
    return path_is_long(conn) || !SLIST_EMPTY(&conn->domain.bounces);
}

static bool may_follow(const struct conn *conn, const struct op *op, uint64_t room)
{
    return op->out.files == NULL && op->event.exs_evt_type != EXS_EVT_SHUTDOWN && op->length > 0 &&
           op->length <= room && op->length <= batch_limit(conn) && (!op->out.deferred || may_copy(conn)) &&
           (conn->onesided.current == NULL || conn->onesided.current->out.number > op->out.number);
}

/* Add the sends behind the first to its message, as many as may follow. */
static void add_followers(struct conn *conn, struct message *message, struct ibv_sge *segments)
{
    uint64_t most = max_batch_bytes(conn, message);
    struct op *op = STAILQ_NEXT(message->op, link);
    struct span span = {0};

    segments[0] =
        (struct ibv_sge){.addr = message->span.addr, .length = message->bytes, .lkey = message->span.lkey};
    while (op != NULL && message->followers + 1u < conn->limits.max_gather && message->bytes < most &&
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
        op->out.requests += (uint32_t)change;
    }
}

uint64_t xs_batch_completed(const struct posted *posted)
{
    struct op *op = posted->op;
    uint64_t bytes = 0;

    for (uint8_t i = 0; i < posted->followers; i++) {
        op = STAILQ_NEXT(op, link);
        op->out.requests--;
        op->out.acked += op->length;
        bytes += op->length;
    }
    return bytes;
}

void xs_batch_failed(const struct posted *posted)
{
    struct op *op = posted->op;

    for (uint8_t i = 0; i <= posted->followers; i++) {
        op->out.requests--;
        op->out.failed = true;
        op = STAILQ_NEXT(op, link);
    }
}

static bool may_be_held(const struct conn *conn, const struct op *op)
{
    return op->length <= HOLD_MAX && op->out.files == NULL && op != STAILQ_FIRST(&conn->tx.sends) &&
           conn->tx.held + 1 < conn->limits.max_gather && conn->limits.immediate &&
           conn->state.stage == CONN_OPEN;
}

bool xs_batch_hold(struct conn *conn, const struct op *op)
{
    struct queue *home = conn->nic->queue;

    if (!xs_loop_may_hold(home) || !may_be_held(conn, op))
        return false;
    if (conn->tx.held++ == 0)
        LIST_INSERT_HEAD(&home->held, conn, tx.held_link);
    xs_loop_holds(home);
    return true;
}

void xs_batch_release(struct conn *conn)
{
    if (conn->tx.held > 0)
        LIST_REMOVE(conn, tx.held_link);
    conn->tx.held = 0;
}

void xs_batch_send_held(struct conn *conn)
{
    if (conn->tx.held == 0)
        return;
    xs_batch_release(conn);
    if (conn->state.stage == CONN_OPEN)
        xs_conn_run_sends(conn);
}

bool xs_batch_post(struct conn *conn, struct message *message)
{
    struct ibv_sge segments[GATHER_MAX];

    add_followers(conn, message, segments);
    if (message->followers == 0)
        return xs_message_post(conn, message);
    return xs_message_gather(conn, message, segments);
}
