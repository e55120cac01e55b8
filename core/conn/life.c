/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * life.c - the states of a connection: what each permits, how a connection breaks, how it is drained.
 *
 * A connection that broke is not finished. Every posted work request completes as flushed, after those that had
 * completed before. Data and the end of the stream may still be in the completion queue when the connection manager
 * reports that the peer has left. Therefore a receive fails only when the connection is drained and all data that had
 * arrived is used up. Only then does the device use none of the operations' memory.
 */
#include <errno.h>
#include "core/queue/socket.h"
#include "conn.h"

void xs_conn_opened(struct conn *conn)
{
    if (conn->state.stage < CONN_OPEN)
        conn->state.stage = CONN_OPEN;
}

/* The accepting side waits for the peer's RTU, which may be lost; the peer then sends it again only seconds
 * later. A message from the peer also shows that the connection is established (IBV_EVENT_COMM_EST). */
void xs_conn_hear(struct conn *conn)
{
    if (conn->state.stage != CONN_OPENING || conn->rq.next_slot == 0)
        return;
    conn->state.stage = CONN_HEARD;
    (void)conn->device->notify(conn->id, IBV_EVENT_COMM_EST);
}

inline __attribute__((always_inline)) int xs_conn_may_send(const struct conn *conn)
{
    if (conn->state.writing != WRITE_OPEN)
        return EPIPE;
    if (conn_broken(conn))
        return xs_conn_ended_in_order(conn) ? EPIPE : conn->state.error;
    return sock_sent(conn->sock) & SENT_UNREPORTED ? ECANCELED : 0;
}

inline __attribute__((always_inline)) bool xs_conn_is_served(const struct conn *conn)
{
    return conn->ring.in != conn->ring.out || conn->state.reading != READ_OPEN;
}

inline __attribute__((always_inline)) int xs_conn_may_receive(const struct conn *conn)
{
    return conn->state.stage == CONN_DRAINED && !xs_conn_is_served(conn) ? conn->state.error : 0;
}

static __attribute__((cold)) void break_conn(struct conn *conn, enum conn_end end, int error)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (conn_broken(conn))
        return;
    conn->state.stage = CONN_BROKEN;
    conn->state.end = end;
    conn->state.error = error;
    /* All posted work requests are flushed from here on, and the peer gets a disconnect. */
    if (conn->device->disconnect(conn->id) < 0)
        conn->device->modify_qp(conn->qp, &attr, IBV_QP_STATE);
}

void xs_conn_fail(struct conn *conn, int error)
{
    break_conn(conn, error == ECONNRESET ? END_BY_PEER : END_FAILED, error);
}

void xs_conn_fail_locally(struct conn *conn)
{
    break_conn(conn, END_LOCAL, ECONNRESET);
}

int xs_conn_errno(const struct conn *conn)
{
    return conn->sock->state == SOCK_CLOSING ? ECANCELED : conn->state.error;
}

bool xs_conn_is_sending(const struct conn *conn, bool end_is_out)
{
    const struct op *first = STAILQ_FIRST(&conn->tx.sends);

    return !STAILQ_EMPTY(&conn->onesided.ops) ||
           (first != NULL && first->event.exs_evt_type != EXS_EVT_SHUTDOWN && !end_is_out);
}

static __attribute__((cold)) void enter_drained(struct conn *conn)
{
    struct op *op;

    xs_conn_end_sends(conn);
    conn->state.stage = CONN_DRAINED;
    int error = xs_conn_errno(conn);
    bool is_confirmed = conn->state.writing == WRITE_FIN_CONFIRMED;
    bool in_order = xs_conn_ended_in_order(conn) && sock_sent(conn->sock) == SENT_WHOLE;

    xs_tx_finish_done(conn); /* sends that the peer has received succeed */
    xs_onesided_finish(conn, 0);
    if (xs_conn_is_sending(conn, is_confirmed))
        xs_sent_is_lost(conn);
    while ((op = STAILQ_FIRST(&conn->tx.sends)) != NULL) {
        in_order = in_order && op->event.exs_evt_type == EXS_EVT_SHUTDOWN; /* no send was lost so far */
        xs_tx_finish(conn, op, op->error != 0 || is_confirmed || in_order ? op->error : error);
    }
    conn->tx.current = NULL;
    xs_onesided_finish(conn, error);
    xs_rx_run(conn); /* data that arrived before is still delivered, and so is an orderly end of the stream */
}

/* The last requests may be unsignaled, and no completion will come for them: only the completion of a later
 * request would imply theirs. So the connection is drained when no signaled request is outstanding. */
inline void xs_conn_drain(struct conn *conn)
{
    if (conn->state.stage == CONN_BROKEN && conn->rq.posted == 0 && !conn_awaits(conn))
        enter_drained(conn);
}
