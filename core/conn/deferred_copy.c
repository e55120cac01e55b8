/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deferred_copy.c - deferred copies of short sends: the bytes of a send that waits behind others are copied only when
 * it has become the first one to be posted, so that a waiting send needs no bounce buffer.
 *
 * Whether the bytes can be read is checked when the send is started, as if they were copied then. If the memory is
 * unmapped by the time of the copy, the connection breaks, as it does for registered memory that is unmapped.
 */
#include <errno.h>
#include <stdlib.h>
#include "core/base/nofault.h"
#include "core/file/vector.h"
#include "core/memory/memory.h"
#include "conn.h"

/* Can all bytes of the send be read now? 0, or -1 and EACCES. */
static int look_at(const struct op *op)
{
    uint8_t bytes[GATHER_PIECES];
    struct gather gather;
    bool readable = true;

    gather_begin(&gather, bytes);
    gather.only_looks = true;
    for (uint32_t i = 0; i < op->piece_count && readable; i++)
        readable = gather_look(&gather, op->pieces[i].base, op->pieces[i].length);
    if (readable && gather_end(&gather))
        return 0;
    errno = EACCES;
    return -1;
}

void xs_deferred_end(struct op *op)
{
    if (op->many == NULL)
        return;
    xs_vector_leave(op->many, (int)op->piece_count);
    free(op->many); /* free() preserves errno */
    op->many = NULL;
}

int xs_deferred_begin(struct op *op, const exs_msghdr_t *message)
{
    op->pieces = &op->only;
    op->piece_count = 1;
    op->only = (struct piece){.base = op->out.buffer, .length = op->length};
    if (message != NULL) {
        op->many = xs_vector_pieces(message, EXS_MRF_SEND_DISABLE);
        if (op->many == NULL)
            return -1;
        op->pieces = op->many;
        op->piece_count = (uint32_t)message->exs_iovlen;
    }
    op->out.deferred = true;
    if (look_at(op) == 0)
        return 0;
    xs_deferred_end(op);
    return -1;
}

static bool copy_pieces(const struct op *op)
{
    struct gather gather;

    gather_begin(&gather, op->out.bounce->data);
    for (uint32_t i = 0; i < op->piece_count; i++) {
        const struct piece *piece = &op->pieces[i];

        if (!gather_add(&gather, piece->base, piece->length, xs_memory_lasts(piece->memory)))
            return false;
    }
    return gather_end(&gather);
}

/* Fail the operation; but while work requests are outstanding, wait for them first, because they may hold the bounce
 * buffers that are missing. */
static int give_up(struct conn *conn, struct op *op, int error)
{
    if (conn_awaits(conn))
        return 0;
    op->error = error;
    return -1;
}

int xs_deferred_copy(struct conn *conn, struct op *op)
{
    op->out.bounce = xs_bounce_get(&conn->domain);
    if (op->out.bounce == NULL)
        return give_up(conn, op, ENOMEM);
    if (copy_pieces(op)) {
        op->out.deferred = false;
        return 1;
    }
    xs_bounce_put(&conn->domain, op->out.bounce);
    op->out.bounce = NULL;
    return give_up(conn, op, EFAULT);
}
