/* SPDX-License-Identifier: BSD-2-Clause */
/* usable.c - makes the buffers of operations usable for the device. */
#include <errno.h>
#include "core/base/nofault.h"
#include "core/memory/memory.h"
#include "core/queue/queue.h"
#include "conn.h"

inline int xs_make_usable(struct conn *conn, struct op *op, exs_mhandle_t mhandle, int access)
{
    int forbidden = access == 0 ? EXS_MRF_SEND_DISABLE : EXS_MRF_RECV_DISABLE;

    if (xs_memory_use(mhandle, op->out.buffer, op->length, forbidden, &op->memory) < 0)
        return -1;
    if (op->length == 0)
        return 0;
    if (op->memory != NULL) {
        op->out.mr = xs_memory_mr(op->memory, &conn->domain, MEMORY_LOCAL);
        return op->out.mr != NULL ? 0 : -1;
    }
    if (op->length > BOUNCE_SIZE) {
        op->one_off = xs_register(&conn->domain, op->out.buffer, op->length, access);
        return op->one_off != NULL ? 0 : -1;
    }
    op->out.bounce = xs_bounce_get(&conn->domain);
    if (op->out.bounce == NULL)
        return -1;
    if (access == 0 && !nofault_take(op->out.bounce->data, op->out.buffer, op->length)) {
        xs_bounce_put(&conn->domain, op->out.bounce);
        errno = EACCES;
        return -1;
    }
    return 0;
}

void xs_undo(struct op *op, struct waiter *waiter)
{
    int saved = errno;

    if (op->memory != NULL)
        xs_memory_unuse(op->memory);
    if (waiter != NULL)
        xs_queue_unref(waiter->home);
    xs_op_cancel(op);
    errno = saved;
}
