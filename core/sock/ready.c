/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ready.c - what exs_poll reports for a socket: operations that would not wait, as with MSG_DONTWAIT (dontwait.c), or
 * that would fail at once.
 */
#include "core/conn/conn.h"
#include "poll.h"
#include "sock.h"

/* Would a send of any length be started now? The limit of pending bytes accepts any send if no other is
 * pending. With EXS_SO_SENDLIMIT only this limit refuses a send; without it, a send with MSG_DONTWAIT also
 * needs credits and space at the peer. */
static bool takes_send(const struct conn *conn)
{
    const struct options *options = &conn->sock->options;
    bool is_alone = STAILQ_EMPTY(&conn->tx.sends);

    if (is_alone && options->refuses)
        return true;
    return (is_alone || options->send_buffer == 0) && xs_dontwait_send(conn) == 0;
}

/* Until a broken connection is drained, it may turn out that the peer closed in order. */
static short of_connection(const struct conn *conn)
{
    bool ended = conn->state.reading != READ_OPEN && conn->state.writing != WRITE_OPEN,
         over = conn->state.stage == CONN_DRAINED;
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
    case SOCK_HALF_OPEN: /* the application does not have its number yet */
    case SOCK_ARRIVED:
    case SOCK_CLOSING:
        return EXS_POLLNVAL;
    default:
        return EXS_POLLOUT | EXS_POLLHUP; /* like an unconnected socket of the kernel */
    }
}
