/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * onesided.c - one-sided operations: RDMA READ and RDMA WRITE on memory that the peer exported.
 *
 * They are in a list apart from the sends, so that they continue while a send waits for a peer that does not receive.
 * No send overtakes a one-sided operation that was started before it (tx.c): when the peer has received the send, it
 * sees what was written. They use no CPU time of the peer's program, and no credit.
 */
#include <errno.h>
#include "conn.h"
#include "core/base/fragile.h"
#include "core/memory/memory.h"
#include "core/debug/misuse.h"
#include "core/queue/nic.h"
#include "progress.h"
#include "core/sock/sock.h"
#include "core/base/log.h"
#include "core/queue/ask.h"
#include "core/queue/wait.h"

bool xs_onesided_is_read(const struct op *op)
{
    return op->event.exs_evt_type == EXS_EVT_RREAD;
}

/* ---- Work requests ---------------------------------------------------------------------------------- */

static struct ibv_sge next_piece(const struct conn *conn, const struct op *op)
{
    uint64_t left = op->length - op->posted, most = conn->nic->max_request;
    uint32_t lkey;
    const uint8_t *base = op_memory(op, &lkey);

    if (most > DATA_MAX)
        most = DATA_MAX;
    return (struct ibv_sge){
        .addr = (uintptr_t)base + op->posted, .length = (uint32_t)(left < most ? left : most), .lkey = lkey};
}

/* A device would hold back a READ that exceeds the limit, and all requests behind it, also control messages.
 * Therefore a READ beyond the limit is not posted yet. */
bool xs_onesided_post(struct conn *conn)
{
    struct op *op = conn->onesided_next;

    if (op == NULL || conn_sq_free(conn) <= SQ_KEPT_BY_DATA ||
        (xs_onesided_is_read(op) && conn->reads == conn->max_reads_out))
        return false;
    struct ibv_sge sge = next_piece(conn, op);
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = xs_onesided_is_read(op) ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = op->remote + op->posted, .rkey = op->rkey},
    };
    struct posted posted = {.kind = POSTED_ONESIDED, .op = op, .bytes = sge.length};

    if (!xs_conn_post(conn, &wr, &posted))
        return false;
    op->posted += sge.length;
    conn->reads += xs_onesided_is_read(op);
    if (op->posted == op->length) {
        op->all_posted = true;
        conn->onesided_next = STAILQ_NEXT(op, link);
    }
    return true;
}

void xs_onesided_completed(struct conn *conn, const struct posted *posted, enum ibv_wc_status status)
{
    struct op *op = posted->op;

    op->requests--;
    conn->reads -= xs_onesided_is_read(op);
    if (status == IBV_WC_SUCCESS)
        op->acked += posted->bytes;
    else if (status == IBV_WC_REM_ACCESS_ERR && op->error == 0)
        op->error = EACCES;
}

static void finish(struct conn *conn, struct op *op, int error)
{
    STAILQ_REMOVE_HEAD(&conn->onesided, link);
    if (xs_onesided_is_read(op) && op->bounce != NULL && op->acked > 0 && (error == 0 || op->stopped) &&
        !fragile_give(op->buffer, op->bounce->data, op->acked))
        error = EFAULT;
    *(xs_onesided_is_read(op) ? &conn->bytes_read : &conn->bytes_written) += op->acked;
    xs_op_moved(op, op->acked);
    xs_tx_release(conn, op);
    xs_op_complete(op, error);
}

void xs_onesided_finish(struct conn *conn, int error)
{
    struct op *op;

    while ((op = STAILQ_FIRST(&conn->onesided)) != NULL) {
        bool over = op->all_posted && op->requests == 0;
        bool done = over && op->error == 0 && op->acked == op->length;
        bool stopped = over && op->stopped;

        if (!done && error == 0 && !stopped)
            break;
        finish(conn, op, done ? 0 : op->error != 0 ? op->error : stopped ? op_stopped(op, op->acked) : error);
    }
    if (error != 0)
        conn->onesided_next = NULL;
}

/* ---- Starting --------------------------------------------------------------------------------------- */

static int check_token(const struct conn *conn, const struct token *token, const struct ask *ask)
{
    if (token->hidden_rkey != conn->peer.hidden_rkey || token->hidden_addr != conn->peer.hidden_addr)
        return xs_invalid("token is of another connection");
    if (!(token->access & (ask->type == EXS_EVT_RREAD ? EXS_REMOTE_READ : EXS_REMOTE_WRITE)))
        return xs_fails(EACCES);
    if (ask->offset > token->length || ask->length > token->length - ask->offset)
        return xs_fails(ERANGE);
    return 0;
}

static int check(const struct sock *sock, const struct token *token, const struct ask *ask)
{
    if (sock->state != SOCK_CONNECTED)
        return xs_fails(ENOTCONN);
    if (conn_broken(sock->conn))
        return xs_fails(sock->conn->error);
    if (ask->type == EXS_EVT_RREAD && sock->conn->max_reads_out == 0)
        return xs_fails(EOPNOTSUPP); /* the device has no RDMA READ */
    return check_token(sock->conn, token, ask);
}

/* Start the operation: make its buffer usable for the device and post it. -1 and errno. */
static int begin(struct sock *sock, struct op *op, const struct ask *ask)
{
    struct conn *conn = sock->conn;

    if (xs_make_usable(conn, op, ask->mhandle, xs_onesided_is_read(op) ? IBV_ACCESS_LOCAL_WRITE : 0) < 0) {
        xs_undo(op, ask->waiter);
        return -1;
    }
    if (xs_misuse_on)
        xs_held_begin(op, ask);
    op->number = conn->started++;
    STAILQ_INSERT_TAIL(&conn->onesided, op, link);
    if (conn->onesided_next == NULL)
        conn->onesided_next = op;
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
        return xs_invalid(ask->length == 0 ? "length is 0" : "token is none that exs_mexport has made");
    struct sock *sock = xs_sock_get_locked(ask->sockno);

    if (sock == NULL)
        return -1;
    if (xs_check_queue(ask->qhandle, ask->waiter, (ask->flags & EXS_UNSIGNALED) != 0, &queue) &&
        check(sock, &there, ask) == 0 &&
        (op = xs_sock_op(sock, queue, ask->type, ask->ahandle, ask->waiter)) != NULL) {
        op->unsignaled = (ask->flags & EXS_UNSIGNALED) != 0;
        op->buffer = ask->buffer;
        op->length = ask->length;
        op->remote = there.addr + ask->offset;
        op->rkey = there.rkey;
        op->event.exs_evt_union.exs_evt_xfer.exs_evt_buffer = ask->buffer;
        result = begin(sock, op, ask);
        if (result == 0 && sock->owner == NULL && queue == NULL && ask->waiter == NULL)
            xs_progress_ensure(sock);
    }
    xs_sock_put_locked(sock);
    xs_queue_put(queue);
    return result;
}
