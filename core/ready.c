/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ready.c - what could be done with a socket now, without waiting: what exs_poll tells. The same that
 * MSG_DONTWAIT does (dontwait.c), and what would fail at once.
 */
#include <errno.h>
#include "conn.h"
#include "poll.h"
#include "sock.h"

/* Would a send of any length be started now? A limit of pending bytes accepts any that is alone. With
 * EXS_SO_SENDLIMIT this limit is all that refuses a send; without, a send with MSG_DONTWAIT needs room at the peer
 * as well. */
static bool takes_send(const struct conn *conn)
{
    const struct options *options = &conn->sock->options;
    bool is_alone = STAILQ_EMPTY(&conn->sends);

    if (is_alone && options->refuses)
        return true;
    return (is_alone || options->send_buffer == 0) && xs_dontwait_send(conn) == 0;
}

/* What broke may yet turn out to have ended in order, until it is drained. */
static short of_connection(const struct conn *conn)
{
    bool ended = conn->reading != READ_OPEN && conn->writing != WRITE_OPEN, over = conn->state == CONN_DRAINED;
    short ready = 0;

    if (xs_conn_may_receive(conn) != 0 || xs_dontwait_recv(conn) == 0)
        ready |= EXS_POLLIN;
    if (xs_conn_may_send(conn) != 0 || takes_send(conn))
        ready |= EXS_POLLOUT;
    if (over && !xs_conn_ended_in_order(conn))
        ready |= EXS_POLLERR;
    return over || ended ? ready | EXS_POLLHUP : ready;
}

static short of_listener(const struct sock *listener)
{
    bool comes = !TAILQ_EMPTY(&listener->requests) || !TAILQ_EMPTY(&listener->arrived);

    if (!xs_listener_hears(listener))
        return EXS_POLLIN | EXS_POLLERR;
    return comes && STAILQ_EMPTY(&listener->accepts) ? EXS_POLLIN : 0;
}

short xs_ready(const struct sock *sock)
{
    switch (sock->state) {
    case SOCK_CONNECTED:
        return of_connection(sock->conn);
    case SOCK_LISTENING:
        return of_listener(sock);
    case SOCK_CONNECTING:
        return 0;
    case SOCK_HALF_OPEN: /* nobody knows its number */
    case SOCK_ARRIVED:
    case SOCK_CLOSING:
        return EXS_POLLNVAL;
    default:
        return EXS_POLLOUT | EXS_POLLHUP; /* as of a socket of the kernel's that is not connected */
    }
}
