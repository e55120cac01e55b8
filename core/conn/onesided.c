/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * onesided.c - one-sided operations: RDMA READ and RDMA WRITE on memory that the peer exported.
 *
 * They are in a list apart from the sends, so that they continue while a send waits for a peer that does not receive.
 * No send overtakes a one-sided operation that was started before it (tx.c): when the peer has received the send, it
 * sees what was written. They use no CPU time of the peer's program, and no credit.
 */
#include <errno.h>
#include "core/base/nofault.h"
#include "core/memory/memory.h"
#include "core/queue/ask.h"
#include "core/queue/nic.h"
#include "core/queue/wait.h"
#include "conn.h"

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
    struct op *op = conn->onesided.current;

    if (op == NULL || conn_sq_free(conn) <= SQ_KEPT_BY_DATA ||
        (xs_onesided_is_read(op) && conn->onesided.reads == conn->onesided.max_reads_out))
        return false;
    struct ibv_sge sge = next_piece(conn, op);
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = xs_onesided_is_read(op) ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = op->out.remote + op->posted, .rkey = op->out.rkey},
    };
    struct posted posted = {.kind = POSTED_ONESIDED, .op = op, .bytes = sge.length};

    if (!xs_conn_post(conn, &wr, &posted))
        return false;
    op->posted += sge.length;
    conn->onesided.reads += xs_onesided_is_read(op);
    if (op->posted == op->length) {
        op->out.all_posted = true;
        conn->onesided.current = STAILQ_NEXT(op, link);
    }
    return true;
}

void xs_onesided_completed(struct conn *conn, const struct posted *posted, enum ibv_wc_status status)
{
    struct op *op = posted->op;

    op->out.requests--;
    conn->onesided.reads -= xs_onesided_is_read(op);
    if (status == IBV_WC_SUCCESS)
        op->out.acked += posted->bytes;
    else if (status == IBV_WC_REM_ACCESS_ERR && op->error == 0)
        op->error = EACCES;
}

static void finish_op(struct conn *conn, struct op *op, int error)
{
    STAILQ_REMOVE_HEAD(&conn->onesided.ops, link);
    if (xs_onesided_is_read(op) && op->out.bounce != NULL && op->out.acked > 0 && (error == 0 || op->stopped) &&
        !nofault_give(op->out.buffer, op->out.bounce->data, op->out.acked))
        error = EFAULT;
    *(xs_onesided_is_read(op) ? &conn->onesided.bytes_read : &conn->onesided.bytes_written) += op->out.acked;
    xs_op_moved(op, op->out.acked);
    xs_tx_release(conn, op);
    xs_op_complete(op, error);
}

void xs_onesided_finish(struct conn *conn, int error)
{
    struct op *op;

    while ((op = STAILQ_FIRST(&conn->onesided.ops)) != NULL) {
        bool over = op->out.all_posted && op->out.requests == 0;
        bool done = over && op->error == 0 && op->out.acked == op->length;
        bool stopped = over && op->stopped;

        if (!done && error == 0 && !stopped)
            break;
        finish_op(conn, op,
                  done             ? 0
                  : op->error != 0 ? op->error
                  : stopped        ? op_stopped(op, op->out.acked)
                                   : error);
    }
    if (error != 0)
        conn->onesided.current = NULL;
}
