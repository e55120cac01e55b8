/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cancel.c - ending operations early: exs_cancel, EXS_INTR, and timeouts.
 *
 * An operation that neither the device nor the peer knows of ends immediately. A send on a stream that was started is
 * cut off after the bytes that were posted, and ends when the device has completed them. A message of a SEQPACKET
 * that was started is sent to its end, since a part of it can't be taken back. The peer may write into a receive that
 * was advertised, so that ends when the peer has confirmed that it dropped the advertisement (rx.c).
 */
#include <errno.h>
#include "core/base/clock.h"
#include "core/base/entry.h"
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "core/conn/ending.h"
#include "core/conn/upcalls.h"
#include "core/queue/upcalls.h"
#include "calls.h"
#include "poll.h"
#include "sock.h"

/* Has the operation's deadline passed? Reported once per operation, so that an operation that ends later sets
 * no further timer. */
static bool is_overdue(struct op *op, uint64_t now)
{
    bool is_over = op->deadline != 0 && op->deadline <= now;

    if (is_over)
        op->deadline = 0;
    return is_over;
}

static bool is_meant(struct op *op, const struct stop *stop)
{
    if (stop->now != 0)
        return is_overdue(op, stop->now);
    if (stop->waiter != NULL)
        return op->waiter == stop->waiter;
    return stop->all || op->event.exs_evt_ahandle == stop->ahandle;
}

/* ---- Sends -------------------------------------------------------------------------------------- */

/* A message that has begun, and a send that is all posted, continue after their deadline. */
static bool may_fail(const struct conn *conn, const struct op *op)
{
    return !conn_broken(conn) && !op->out.all_posted && (op->posted == 0 || sock_is_stream(conn->sock));
}

/* Fail the sends whose deadline has passed; on a STREAM the first of them, which ends all sends behind it. */
static int fail_overdue_sends(struct conn *conn, const struct stop *stop)
{
    struct op *op = STAILQ_FIRST(&conn->tx.sends), *next;
    int count = 0;

    for (; op != NULL; op = next) {
        next = STAILQ_NEXT(op, link);
        if (!is_overdue(op, stop->now) || !may_fail(conn, op))
            continue;
        xs_send_fail(conn, op, stop->error);
        count++;
        if (sock_is_stream(conn->sock))
            break;
    }
    if (count > 0)
        xs_tx_end(conn);
    return count;
}

static int stop_sends(struct conn *conn, const struct stop *stop)
{
    struct op *op = STAILQ_FIRST(&conn->tx.sends), *next;
    int count = 0;

    if (stop->now != 0)
        return fail_overdue_sends(conn, stop);
    for (; op != NULL; op = next) {
        next = STAILQ_NEXT(op, link);
        if (!is_meant(op, stop))
            continue;
        xs_send_stop(conn, op, stop->error);
        count++;
    }
    if (count > 0 && conn->sock->sends_bounded)
        xs_sends_count(conn);
    if (count > 0)
        xs_tx_end(conn);
    return count;
}

/* ---- One-sided ---------------------------------------------------------------------------------- */

static void stop_onesided_one(struct conn *conn, struct op *op, int error)
{
    if (op->out.all_posted)
        return;
    op->stopped = true;
    op->stop = error;
    if (conn->onesided.current == op)
        conn->onesided.current = STAILQ_NEXT(op, link);
    op->out.all_posted = true;
    if (op->posted > 0)
        return;
    STAILQ_REMOVE(&conn->onesided.ops, op, op, link);
    xs_op_moved(op, 0);
    xs_tx_release(conn, op);
    xs_op_complete(op, error);
}

static int stop_onesided(struct conn *conn, const struct stop *stop)
{
    /* One-sided operations have no timeout. */
    struct op *op = stop->now != 0 ? NULL : STAILQ_FIRST(&conn->onesided.ops), *next;
    int count = 0;

    for (; op != NULL; op = next) {
        next = STAILQ_NEXT(op, link);
        if (!is_meant(op, stop))
            continue;
        stop_onesided_one(conn, op, stop->error);
        count++;
    }
    return count;
}

/* ---- Receives ----------------------------------------------------------------------------------- */

static int stop_receives(struct conn *conn, const struct stop *stop)
{
    struct op *op;
    int count = 0;

    STAILQ_FOREACH (op, &conn->rx.recvs, link) {
        if (op->piece_count == 0 || !is_meant(op, stop)) /* a stand-in does not belong to the application */
            continue;
        xs_rx_stop(conn, op, stop->error);
        count++;
    }
    if (count > 0)
        xs_rx_end_stopped(conn);
    return count;
}

/* ---- Connections -------------------------------------------------------------------------------- */

static int stop_connect(struct sock *sock, const struct stop *stop)
{
    if (sock->opening == NULL || !is_meant(sock->opening, stop))
        return 0;
    xs_open_failed(sock, stop->error);
    return 1;
}

static int stop_accepts(struct sock *listener, const struct stop *stop)
{
    struct op *op = STAILQ_FIRST(&listener->accepts), *next;
    int count = 0;

    for (; op != NULL; op = next) {
        next = STAILQ_NEXT(op, link);
        if (!is_meant(op, stop))
            continue;
        xs_accept_spent(listener, op);
        op->accept.element->exs_socket = -1;
        op->event.exs_evt_union.exs_evt_accept.exs_evt_newsocket = -1;
        xs_op_complete(op, stop->error);
        count++;
    }
    if (count > 0)
        xs_poll_look(listener); /* a request that no accept is pending for makes the listener readable */
    return count;
}

/* ---- All ---------------------------------------------------------------------------------------- */

int xs_stop(struct sock *sock, const struct stop *stop)
{
    struct conn *conn = sock->conn;
    int count;

    if (sock->state == SOCK_LISTENING)
        return stop_accepts(sock, stop);
    if (sock->state == SOCK_CONNECTING)
        return stop_connect(sock, stop);
    if (sock->state != SOCK_CONNECTED)
        return 0;
    count = stop_sends(conn, stop) + stop_onesided(conn, stop) + stop_receives(conn, stop);
    if (count > 0)
        xs_conn_run(conn);
    return count;
}

static void wake_for(struct sock *sock, const struct op_list *ops)
{
    const struct op *op;

    STAILQ_FOREACH (op, ops, link) {
        if (op->deadline != 0)
            xs_sock_wake_by(sock, op->deadline);
    }
}

/* The socket's timer has expired and is off: end the operations that are overdue, and set the timer for the
 * others. */
void xs_limits_look(struct sock *sock)
{
    const struct stop overdue = {.now = now_ns(), .error = ETIMEDOUT};

    xs_stop(sock, &overdue);
    if (sock->state == SOCK_LISTENING) {
        wake_for(sock, &sock->accepts);
    } else if (sock->state == SOCK_CONNECTED) {
        if (sock->probe_due != 0)
            xs_sock_wake_by(sock, sock->probe_due);
        wake_for(sock, &sock->conn->tx.sends);
        wake_for(sock, &sock->conn->rx.recvs);
    }
}

void xs_interrupt(int sockno, const struct waiter *waiter)
{
    struct stop stop = {.waiter = waiter, .error = EINTR};
    struct sock *sock = xs_sock_get_locked(sockno);

    if (sock == NULL) /* another thread has closed the socket, which ends the operation */
        return;
    xs_stop(sock, &stop);
    xs_sock_put_locked(sock);
}

int exs_cancel(int sockno, exs_ahandle_t ahandle, int flags)
{
    struct stop stop = {.all = (flags & EXS_CANCEL_ALL) != 0, .ahandle = ahandle, .error = ECANCELED};

    if (xs_enter_socket(__func__, sockno) < 0)
        return -1;
    if (flags & ~EXS_CANCEL_ALL)
        return xs_bad_flags(flags, EXS_CANCEL_ALL);
    struct sock *sock = xs_sock_get_locked(sockno);

    if (sock == NULL) {
        int polls = xs_polls_stop(sockno, &stop);

        return polls > 0 ? polls : xs_fails(EBADF);
    }
    int count = xs_stop(sock, &stop) + xs_poll_stop(sock, &stop);

    xs_sock_put_locked(sock);
    return count;
}
