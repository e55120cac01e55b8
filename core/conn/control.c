/* SPDX-License-Identifier: BSD-2-Clause */
/* control.c - control messages and credits, in both directions. */
#include <errno.h>
#include "core/base/log.h"
#include "core/queue/socket.h"
#include "conn.h"
#include "ending.h"

bool xs_control_post(struct conn *conn, struct control *control, const struct posted *posted)
{
    uint8_t *slot = conn->memory.send_slots + (size_t)(conn->sq.tail % SQ_DEPTH) * SLOT_SIZE;
    struct ibv_sge sge = {.addr = (uintptr_t)slot, .length = CONTROL_SIZE, .lkey = conn->memory.mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SOLICITED};

    /* A peer that receives the end may close the connection. The fence lets RDMA READs from the peer complete
     * first. */
    if (posted->kind == POSTED_FIN)
        wr.send_flags |= IBV_SEND_FENCE;
    control->credits = (uint16_t)conn->credits.unreturned;
    if (conn->state.reading >= READ_ENDED)
        control->flags |= CONTROL_HAS_END;
    xs_control_pack(control, slot);
    if (!xs_conn_post(conn, &wr, posted))
        return false;
    conn->credits.available--;
    conn->credits.unreturned = 0;
    if (conn->state.reading == READ_ENDED)
        conn->state.reading = READ_END_ACKED;
    return true;
}

bool xs_control_send(struct conn *conn, struct control *control, uint32_t kept, enum posted_kind kind)
{
    const struct posted posted = {.kind = kind};

    if (conn->credits.available <= kept || conn_sq_free(conn) == 0)
        return false;
    return xs_control_post(conn, control, &posted);
}

/* Send a message that consists of its type only. */
static bool send_bare(struct conn *conn, enum control_type type, uint32_t kept, enum posted_kind kind)
{
    struct control control = {.type = (uint8_t)type};

    return xs_control_send(conn, &control, kept, kind);
}

static void send_ack(struct conn *conn)
{
    struct control ack = {.type = CONTROL_ACK, .position = conn->ring.out};

    if (xs_control_send(conn, &ack, CREDITS_KEPT, POSTED_CONTROL))
        conn->ring.acked = conn->ring.out;
}

/* Send the messages that are due (conn->due), as far as there are credits. */
static void say_due(struct conn *conn)
{
    if (conn->tx.due & DUE_END)
        xs_tx_end(conn);
    if (conn->tx.due & DUE_RECALL && send_bare(conn, CONTROL_RECALL, CREDITS_KEPT, POSTED_CONTROL)) {
        conn->tx.due &= (uint8_t)~DUE_RECALL;
        conn->adverts.recalling = true;
    }
    if (conn->tx.due & (DUE_RING_WANTED | DUE_RING))
        xs_ring_say(conn);
    if (conn->tx.due & DUE_RECALLED && send_bare(conn, CONTROL_RECALLED, CREDITS_KEPT, POSTED_CONTROL))
        conn->tx.due &= (uint8_t)~DUE_RECALLED;
}

/* May FIN be sent? Only when all data in front of it was posted. One-sided operations that the application
 * started after shutdown don't delay FIN, but a close waits for them, too. */
static bool may_end(const struct conn *conn)
{
    return conn->tx.current == NULL && (conn->onesided.current == NULL || conn->sock->state != SOCK_CLOSING);
}

/* Send FIN, with all credits for what has arrived: the peer may miss the device's last acknowledgement, and this side
 * may be closed when the peer sends its message again. From the credits the peer knows that its messages have arrived.
 * */
static void say_end(struct conn *conn)
{
    if (sock_sent(conn->sock) != SENT_WHOLE) {
        xs_end_refused(conn);
        return;
    }
    if (conn->rq.consumed > 0)
        xs_conn_post_anew(conn);
    if (send_bare(conn, CONTROL_FIN, 0, POSTED_FIN))
        conn->state.writing = WRITE_FIN_SENT;
}

static bool ack_is_due(const struct conn *conn)
{
    return conn->ring.out - conn->ring.acked >= conn->ring.ack_due;
}

/* Must credits be sent now? Yes, if half of the depth is due; or if the peer's FIN arrived after this side had sent its
 * FIN, which therefore could not acknowledge it: the device's last acknowledgement may be lost, and this side may be
 * closed when the peer sends its FIN again. */
static bool credits_are_due(const struct conn *conn)
{
    return conn->credits.unreturned >= conn->limits.depth / 2 ||
           (conn->state.reading == READ_ENDED && conn->state.writing >= WRITE_FIN_SENT);
}

static __attribute__((noinline)) void say_all(struct conn *conn)
{
    if (ack_is_due(conn))
        send_ack(conn);
    if (conn->tx.due != 0)
        say_due(conn);
    if (conn->state.writing == WRITE_SHUT && may_end(conn))
        say_end(conn);
    if (credits_are_due(conn))
        send_bare(conn, CONTROL_CREDIT, conn->state.writing < WRITE_FIN_SENT ? CREDITS_KEPT_FOR_FIN : 0,
                  POSTED_CONTROL);
}

/* As a rule there is nothing to send. */
inline __attribute__((always_inline)) void xs_control_run(struct conn *conn)
{
    if (conn->state.stage == CONN_OPEN &&
        (ack_is_due(conn) || conn->tx.due != 0 || conn->state.writing == WRITE_SHUT || credits_are_due(conn)))
        say_all(conn);
}

void xs_violation(struct conn *conn, const char *what)
{
    xs_log("connection %d: the peer sent %s; closing it", conn->sock->number, what);
    xs_conn_fail(conn, ECONNRESET);
}

static bool may_advertise(const struct conn *conn, const struct control *advert)
{
    return conn->peer_adverts.count < ADVERTS_MAX && advert->length > 0 &&
           advert->addr + advert->length >= advert->addr && advert->phase % 2 == 0 &&
           advert->position <= conn->tx.position;
}

bool xs_credits_received(struct conn *conn, uint32_t credits)
{
    conn->credits.available += credits;
    if (conn->credits.available <= conn->peer.credits)
        return true;
    xs_violation(conn, "more credits than it has receives");
    return false;
}

void xs_control_received(struct conn *conn, const uint8_t *message, size_t length)
{
    struct control control;

    if (!xs_control_unpack(&control, message, length)) {
        xs_violation(conn, "an unknown control message");
        return;
    }
    if (!xs_credits_received(conn, control.credits))
        return;
    if (control.flags & CONTROL_HAS_END) {
        if (conn->state.writing < WRITE_FIN_SENT) {
            xs_violation(conn, "an unexpected acknowledgement of the end of the stream");
            return;
        }
        conn->state.writing = WRITE_FIN_CONFIRMED;
    }
    switch ((enum control_type)control.type) {
    case CONTROL_ADVERT:
        if (!may_advertise(conn, &control))
            xs_violation(conn, "an invalid advertisement");
        else
            xs_tx_advert(conn, &control);
        break;
    case CONTROL_ACK:
        if (control.position < conn->tx.ring_acked || control.position > conn->tx.ring_sent)
            xs_violation(conn, "an invalid acknowledgement");
        else
            conn->tx.ring_acked = control.position;
        break;
    case CONTROL_FIN:
        if (conn->rx.filling && conn->sock->type == SOCK_SEQPACKET) {
            xs_violation(conn, "the end of the stream inside a message");
            break;
        }
        if (conn->state.reading < READ_ENDED)
            conn->state.reading = READ_ENDED;
        conn->rx.filling = false; /* a file became shorter while the peer sent it: the transfer has ended */
        break;
    case CONTROL_RECALL:
        xs_tx_recall(conn);
        conn->tx.due |= DUE_RECALLED;
        break;
    case CONTROL_RECALLED:
        if (conn->adverts.recalling)
            xs_rx_recalled(conn);
        else
            xs_violation(conn, "an unexpected reply to a recall");
        break;
    case CONTROL_DATA:
        if (!conn->limits.immediate)
            xs_rx_data(conn, control.phase);
        else
            xs_violation(conn, "data without immediate data, which was not agreed on");
        break;
    case CONTROL_RING_WANTED:
        xs_ring_wanted(conn);
        break;
    case CONTROL_RING:
        xs_ring_offered(conn, &control);
        break;
    case CONTROL_CREDIT:
        break;
    }
}
