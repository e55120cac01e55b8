/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * onesided.c - exs_mexport, exs_munexport, and the start of one-sided operations: checks everything, then adds an
 * operation to the connection (conn/onesided.c).
 */
#include <errno.h>
#include "core/base/entry.h"
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "core/conn/progress.h"
#include "core/debug/misuse.h"
#include "core/memory/memory.h"
#include "core/queue/ask.h"
#include "core/queue/wait.h"
#include "core/sock/sock.h"
#include "transfer.h"

/* ---- Exported memory ------------------------------------------------------------------------------ */

/* Get the socket, locked, if it is connected. NULL and errno. */
static struct sock *get_connected(int sockno)
{
    struct sock *sock = xs_sock_get_locked(sockno);

    if (sock == NULL)
        return NULL;
    if (sock->state == SOCK_CONNECTED)
        return sock;
    xs_sock_put_locked(sock);
    errno = ENOTCONN;
    return NULL;
}

int exs_mexport(int sockno, exs_mhandle_t mhandle, void *addr, size_t length, int access, exs_token_t *token)
{
    if (xs_enter_socket(__func__, sockno) < 0)
        return -1;
    if (mhandle == NULL || mhandle == EXS_MHANDLE_UNREGISTERED)
        return xs_invalid("mhandle is not registered memory");
    if (addr == NULL || length == 0)
        return xs_invalid(addr == NULL ? "addr is NULL" : "length is 0");
    if (length > EXS_MSG_MAX)
        return xs_too_long(length);
    if (access == 0 || (access & ~(EXS_REMOTE_READ | EXS_REMOTE_WRITE)))
        return xs_invalid("access 0x%x is not EXS_REMOTE_READ, EXS_REMOTE_WRITE, or both", (unsigned)access);
    if (token == NULL)
        return xs_nowhere("token");
    struct sock *sock = get_connected(sockno);

    if (sock == NULL)
        return -1;
    int result;

    if (!conn_broken(sock->conn)) {
        result = xs_export_add(sock->conn, mhandle, addr, length, access, token);
    } else {
        errno = sock->conn->state.error;
        result = -1;
    }
    xs_sock_put_locked(sock);
    return result;
}

int exs_munexport(int sockno, const exs_token_t *token)
{
    if (xs_enter_socket(__func__, sockno) < 0)
        return -1;
    if (token == NULL)
        return xs_invalid("token is NULL");
    struct sock *sock = get_connected(sockno);

    if (sock == NULL)
        return -1;
    int result = xs_export_drop(sock->conn, token);

    xs_sock_put_locked(sock);
    return result;
}

/* ---- Starting ------------------------------------------------------------------------------------- */

static int check_token(const struct conn *conn, const struct token *token, const struct ask *ask)
{
    if (token->recv_ring_rkey != conn->peer.recv_ring_rkey ||
        token->recv_ring_addr != conn->peer.recv_ring_addr)
        return xs_invalid("token is of another connection");
    if (!(token->access & (ask->type == EXS_EVT_RREAD ? EXS_REMOTE_READ : EXS_REMOTE_WRITE)))
        return xs_fails(EACCES);
    if (ask->offset > token->length || ask->length > token->length - ask->offset)
        return xs_fails(ERANGE);
    return 0;
}

static int check_request(const struct sock *sock, const struct token *token, const struct ask *ask)
{
    if (sock->state != SOCK_CONNECTED)
        return xs_fails(ENOTCONN);
    if (conn_broken(sock->conn))
        return xs_fails(sock->conn->state.error);
    if (ask->type == EXS_EVT_RREAD && sock->conn->onesided.max_reads_out == 0)
        return xs_fails(EOPNOTSUPP); /* the device has no RDMA READ */
    return check_token(sock->conn, token, ask);
}

/* Start the operation: make its buffer usable for the device and post it. -1 and errno. */
static int start_op(struct sock *sock, struct op *op, const struct ask *ask)
{
    struct conn *conn = sock->conn;

    if (xs_make_usable(conn, op, ask->mhandle, xs_onesided_is_read(op) ? IBV_ACCESS_LOCAL_WRITE : 0) < 0) {
        xs_undo(op, ask->waiter);
        return -1;
    }
    if (xs_misuse_on)
        xs_held_begin(op, ask);
    op->out.number = conn->tx.started++;
    STAILQ_INSERT_TAIL(&conn->onesided.ops, op, link);
    if (conn->onesided.current == NULL)
        conn->onesided.current = op;
    xs_conn_run_sends(conn);
    return 0;
}

int xs_start_onesided(const struct ask *ask)
{
    int unsignaled = ask->type == EXS_EVT_RWRITE ? EXS_UNSIGNALED : 0, result = -1;
    struct queue *queue;
    struct token there;
    struct op *op;

    if (ask->flags & ~(EXS_BLOCK | EXS_INTR | unsignaled))
        return xs_fails(EOPNOTSUPP);
    if (xs_check_transfer(ask) < 0)
        return -1;
    if (ask->length == 0 || ask->token == NULL || !xs_token_unpack(&there, ask->token))
        return xs_invalid(ask->length == 0 ? "length is 0" : "token was not made by exs_mexport");
    struct sock *sock = xs_sock_get_locked(ask->sockno);

    if (sock == NULL)
        return -1;
    if (xs_check_queue(ask->qhandle, ask->waiter, (ask->flags & EXS_UNSIGNALED) != 0, &queue) &&
        check_request(sock, &there, ask) == 0 &&
        (op = xs_sock_op(sock, queue, ask->type, ask->ahandle, ask->waiter)) != NULL) {
        op->unsignaled = (ask->flags & EXS_UNSIGNALED) != 0;
        op->out.buffer = ask->buffer;
        op->length = ask->length;
        op->out.remote = there.addr + ask->offset;
        op->out.rkey = there.rkey;
        op->event.exs_evt_union.exs_evt_xfer.exs_evt_buffer = ask->buffer;
        result = start_op(sock, op, ask);
        if (result == 0 && sock->owner == NULL && queue == NULL && ask->waiter == NULL)
            xs_progress_ensure(sock);
    }
    xs_sock_put_locked(sock);
    xs_queue_put(queue);
    return result;
}
