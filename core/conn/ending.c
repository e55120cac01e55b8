/* SPDX-License-Identifier: BSD-2-Clause */
/* ending.c - sends that end before all of their bytes are sent: implements the table in ending.h. */
#include <errno.h>
#include <string.h>
#include "core/base/log.h"
#include "core/queue/socket.h"
#include "conn.h"
#include "ending.h"

/* ---- The state of what was sent ------------------------------------------------------------------ */

static void set_torn(struct conn *conn)
{
    conn->tx.torn_at = conn->tx.started;
    atomic_fetch_or_explicit(&conn->sock->sent, SENT_TORN, memory_order_relaxed);
}

/* The application must learn of the failed send before it sends more. A blocking call reports it by its return;
 * an event must be dequeued first (xs_sock_reported()). */
static void set_unreported(const struct conn *conn, struct op *op)
{
    if (op->waiter != NULL)
        return;
    op->unreported = true;
    op->out.identity = conn->sock->identity;
    atomic_fetch_or_explicit(&conn->sock->sent, SENT_UNREPORTED, memory_order_relaxed);
}

void xs_send_follows(struct conn *conn, const struct op *op)
{
    if (op->out.number >= conn->tx.torn_at)
        atomic_fetch_and_explicit(&conn->sock->sent, ~SENT_TORN, memory_order_relaxed);
}

void xs_sent_is_lost(struct conn *conn)
{
    atomic_store_explicit(&conn->sock->sent, SENT_LOST, memory_order_relaxed);
}

static void break_it(struct conn *conn)
{
    xs_sent_is_lost(conn);
    xs_conn_fail_locally(conn);
}

int xs_unreported(const struct sock *sock)
{
    return xs_refuse(ECANCELED, "socket %d: an earlier send has failed: dequeue its event before sending more",
                     sock->number);
}

void xs_end_refused(struct conn *conn)
{
    if (xs_conn_is_sending(conn, false))
        return; /* the sends before the end of the stream continue */
    xs_log(
        "connection %d: the end of the stream would follow a send that is not whole; breaking the connection",
        conn->sock->number);
    break_it(conn);
}

/* ---- One send ------------------------------------------------------------------------------------ */

/* Was the send given to the device, all of it or a part? */
static bool is_begun(const struct conn *conn, const struct op *op)
{
    if (op->event.exs_evt_type == EXS_EVT_SHUTDOWN)
        return conn->state.writing != WRITE_SHUT;
    return op->posted > 0 || op->out.all_posted;
}

/* Undo the end of the stream that was requested with this send (EXS_SHUT_WR), or by this operation
 * (exs_shutdown): not all data in front of it was sent. */
static void undo_end(struct conn *conn, struct op *of)
{
    const struct op *op;
    bool ended = of->out.last;

    of->out.last = false;
    if (!ended || conn->state.writing != WRITE_SHUT)
        return;
    STAILQ_FOREACH (op, &conn->tx.sends, link) {
        if (op->out.last)
            return;
    }
    conn->state.writing = WRITE_OPEN;
}

/* End a send that was not begun; it completes now. */
static void remove_send(struct conn *conn, struct op *op, int error)
{
    if (conn->tx.current == op)
        conn->tx.current = STAILQ_NEXT(op, link);
    STAILQ_REMOVE(&conn->tx.sends, op, op, link);
    undo_end(conn, op);
    xs_op_moved(op, 0);
    xs_tx_release(conn, op);
    xs_op_complete(op, error);
}

/* Cut a send off. It completes when the device has completed what was posted of it, and all sends in front of
 * it have completed. */
static void cut_send(struct conn *conn, struct op *op, int error)
{
    if (conn->tx.current == op)
        conn->tx.current = STAILQ_NEXT(op, link);
    op->error = error;
    op->length = op->posted;
    op->out.all_posted = true;
    op->unsignaled = false; /* not all was sent, so the application needs the event */
    undo_end(conn, op);
}

static int stop_op(struct op *op, int error)
{
    op->stop = error;
    return op_stopped(op, op->posted);
}

void xs_send_end_here(struct conn *conn)
{
    cut_send(conn, conn->tx.current, 0);
    if (conn->sock->sends_bounded)
        xs_sends_count(conn);
    xs_tx_end(conn);
}

void xs_send_stop(struct conn *conn, struct op *op, int error)
{
    if (!is_begun(conn, op)) {
        remove_send(conn, op, error);
    } else if (!op->out.all_posted && sock_is_stream(conn->sock)) {
        cut_send(conn, op, stop_op(op, error));
        set_torn(conn);
    }
}

/* ---- A send that fails, and those behind it ---------------------------------------------------------- */

/* On a STREAM: can a send behind this one not be undone, or would the application not learn of it? */
static bool is_too_late(const struct conn *conn, const struct op *failed)
{
    if (conn->state.writing >= WRITE_FIN_SENT)
        return true;
    for (const struct op *op = STAILQ_NEXT(failed, link); op != NULL; op = STAILQ_NEXT(op, link)) {
        if (op->silent || is_begun(conn, op))
            return true;
    }
    return false;
}

static bool has_to_break(const struct conn *conn, const struct op *op, int error)
{
    if (error == EFAULT || op->silent || conn->sock->state == SOCK_CLOSING)
        return true;
    return sock_is_stream(conn->sock) ? is_too_late(conn, op) : op->posted > 0;
}

/* End one send. `in_turn`: it completes behind the sends in front of it. Otherwise it completes now, because
 * they may take long. */
static void end_one(struct conn *conn, struct op *op, int error, bool in_turn)
{
    if (in_turn)
        cut_send(conn, op, error);
    else
        remove_send(conn, op, error);
}

/* On a STREAM: end this send and all sends behind it. */
static void end_from(struct conn *conn, struct op *failed, int error, bool in_turn)
{
    struct op *op = STAILQ_NEXT(failed, link), *next;

    if (failed->posted > 0)
        set_torn(conn);
    set_unreported(conn, failed);
    end_one(conn, failed, error, in_turn);
    for (; op != NULL; op = next) {
        next = STAILQ_NEXT(op, link);
        end_one(conn, op, ECANCELED, in_turn);
    }
}

void xs_send_fail(struct conn *conn, struct op *op, int error)
{
    if (conn_broken(conn)) {
        op->error = error;
        return;
    }
    if (has_to_break(conn, op, error)) {
        xs_log("connection %d: %s ended with %s after %llu of %llu bytes; breaking the connection",
               conn->sock->number, exs_strevent(op->event.exs_evt_type), strerror(error),
               (unsigned long long)op->posted, (unsigned long long)op->length);
        op->error = error;
        break_it(conn);
        return;
    }
    bool in_turn = conn->tx.current == op || op->out.all_posted;

    if (sock_is_stream(conn->sock))
        end_from(conn, op, error == ETIMEDOUT ? stop_op(op, error) : error, in_turn);
    else
        end_one(conn, op, error, in_turn);
    if (conn->sock->sends_bounded)
        xs_sends_count(conn);
    conn->tx.due |= DUE_END;
}
