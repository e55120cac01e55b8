/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dontwait.c - transfers that are done at once, as far as they can be, or not at all: MSG_DONTWAIT.
 *
 * A receive takes what has come, and is nothing that the peer could be told of. So on a SEQPACKET, whose
 * messages wait at their sender until they are asked for, it meets only the end. A send gives to the device
 * what the peer has room for, and ends there; a message of a SEQPACKET that was begun is sent to its end.
 */
#include <errno.h>
#include "conn.h"
#include "ending.h"
#include "library.h"
#include "message.h"
#include "nic.h"
#include "sock.h"

void xs_dontwait_look(const struct sock *sock)
{
    if (sock->state == SOCK_CONNECTED)
        xs_nic_look_once(sock->conn->nic);
}

/* Are receives of the application pending? A stand-in does not belong to the application. */
static bool others_wait(const struct conn *conn)
{
    const struct op *op;

    STAILQ_FOREACH (op, &conn->recvs, link) {
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
    bool hidden_room =
        sock_is_stream(conn->sock) && conn->hidden_sent - conn->hidden_acked < conn->peer.hidden_size;
    uint64_t most;

    if (conn->sending != NULL || conn->onesided_next != NULL || !xs_message_room(conn, &most))
        return xs_fails(EAGAIN);
    return conn->advert_count > 0 || hidden_room ? 0 : xs_fails(EAGAIN);
}

/* No other send was pending before this one, so if one is not all posted, it is this one. */
void xs_dontwait_sent(struct conn *conn)
{
    if (conn->sending == NULL || !sock_is_stream(conn->sock))
        return;
    conn->at_once = true;
    xs_tx_run(conn);
    conn->at_once = false;
    if (conn->sending == NULL)
        return;
    xs_send_end_here(conn);
    xs_conn_run_sends(conn);
}
