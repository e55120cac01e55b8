/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dontwait.c - MSG_DONTWAIT: transfers of the bytes that can be transferred immediately, or of none.
 *
 * A receive with MSG_DONTWAIT takes data that has arrived, and is never advertised. On a SEQPACKET the sender keeps
 * messages until a receive is advertised, so there it only finds the end of the stream. A send gives the device the
 * bytes that the peer has room for, and ends there; a message of a SEQPACKET that was started is sent to its end.
 */
#include <errno.h>
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "core/conn/ending.h"
#include "core/conn/message.h"
#include "core/queue/nic.h"

void xs_dontwait_look(const struct sock *sock)
{
    if (sock->state != SOCK_CONNECTED)
        return;
    xs_batch_send_held(sock->conn);
    xs_nic_look_once(sock->conn->nic);
}

/* Are receives of the application pending? A stand-in does not belong to the application. */
static bool others_wait(const struct conn *conn)
{
    const struct op *op;

    STAILQ_FOREACH (op, &conn->rx.recvs, link) {
        if (op->piece_count > 0)
            return true;
    }
    return false;
}

int xs_dontwait_recv(const struct conn *conn)
{
    return xs_conn_is_served(conn) && !others_wait(conn) ? 0 : xs_fails(EAGAIN);
}

/* Would at least the first bytes be posted? */
int xs_dontwait_send(const struct conn *conn)
{
    bool recv_ring_room =
        sock_is_stream(conn->sock) && conn->tx.ring_sent - conn->tx.ring_acked < conn->peer_ring.size;
    uint64_t most;

    if (conn->tx.current != NULL || conn->onesided.current != NULL || !xs_message_room(conn, &most))
        return xs_fails(EAGAIN);
    return conn->peer_adverts.count > 0 || recv_ring_room ? 0 : xs_fails(EAGAIN);
}

/* No other send was pending before this one, so if one is not all posted, it is this one. */
void xs_dontwait_sent(struct conn *conn)
{
    if (conn->tx.current == NULL || !sock_is_stream(conn->sock))
        return;
    conn->tx.nonblocking = true;
    xs_tx_run(conn);
    conn->tx.nonblocking = false;
    if (conn->tx.current == NULL)
        return;
    xs_send_end_here(conn);
    xs_conn_run_sends(conn);
}
