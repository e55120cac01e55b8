/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shutdown.c - exs_shutdown: the end of writing is an operation that is queued behind the sends; the end of reading
 * takes effect at once.
 */
#include <errno.h>
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "core/conn/progress.h"
#include "core/queue/ask.h"
#include "core/queue/wait.h"
#include "sock.h"

static int begin_shutdown(struct sock *sock, int how, struct queue *queue, exs_ahandle_t ahandle,
                          struct waiter *waiter)
{
    struct conn *conn = sock->conn;
    struct op *op = xs_sock_op(sock, queue, EXS_EVT_SHUTDOWN, ahandle, waiter);

    if (op == NULL)
        return -1;
    if (how != SHUT_WR && conn->state.reading == READ_OPEN) {
        conn->state.reading = READ_SHUT;
        xs_rx_recall(conn); /* the receives end as soon as the peer can't write into them any more */
    }
    if (how == SHUT_RD || (conn->state.writing >= WRITE_FIN_ACKED && STAILQ_EMPTY(&conn->tx.sends))) {
        xs_op_complete(op, 0);
    } else if (conn_broken(conn) && STAILQ_EMPTY(&conn->tx.sends)) { /* otherwise in order behind the sends */
        bool in_order = xs_conn_ended_in_order(conn) && sock_sent(sock) == SENT_WHOLE;

        xs_op_complete(op, in_order ? 0 : conn->state.error);
    } else {
        if (conn->state.writing == WRITE_OPEN)
            conn->state.writing = WRITE_SHUT;
        op->out.last = true;
        op->out.number = conn->tx.started++;
        STAILQ_INSERT_TAIL(&conn->tx.sends, op, link);
        if (conn->tx.current == NULL)
            conn->tx.current = op;
    }
    xs_conn_run(conn);
    return 0;
}

int xs_start_shutdown(const struct ask *ask)
{
    struct queue *queue;
    int result = -1;

    if (ask->flags & ~EXS_BLOCK)
        return xs_bad_flags(ask->flags, EXS_BLOCK);
    if (ask->how != SHUT_RD && ask->how != SHUT_WR && ask->how != SHUT_RDWR)
        return xs_invalid("how is %d", ask->how);
    struct sock *sock = xs_sock_get_locked(ask->sockno);

    if (sock == NULL)
        return -1;
    if (!xs_check_queue(ask->nonblocking ? NULL : ask->qhandle, ask->waiter, ask->nonblocking, &queue))
        ;
    else if (sock->state != SOCK_CONNECTED)
        errno = ENOTCONN;
    else if (ask->how != SHUT_RD && sock_sent(sock) & SENT_UNREPORTED)
        result = xs_unreported(sock);
    else
        result = begin_shutdown(sock, ask->how, queue, ask->ahandle, ask->waiter);
    if (result == 0 && ask->nonblocking)
        xs_progress_ensure(sock);
    xs_sock_put_locked(sock);
    xs_queue_put(queue);
    return result;
}
