/* SPDX-License-Identifier: BSD-2-Clause */
/* qattr.c - exs_qstatus and exs_qmodify: the state of a queue, and its attributes that an application may change. */
#include <errno.h>
#include "core/base/entry.h"
#include "core/base/log.h"
#include "queue.h"
#include "wait.h"

static int count_ops(const struct op_list *list)
{
    const struct op *op;
    int count = 0;

    STAILQ_FOREACH (op, list, link)
        count++;
    return count;
}

/* A consistent snapshot. */
static exs_qstatus_t status_of(struct queue *queue)
{
    exs_qstatus_t status = {0};

    mutex_lock(&queue->lock);
    mutex_lock(&queue->events.lock);
    status.exs_attr.exs_depth = queue->pool.depth;
    status.exs_events = count_ops(&queue->events.list) + count_ops(&queue->own.done);
    status.exs_pending = xs_queue_own_pending(queue);
    status.exs_sockets = xs_queue_own_socks(queue);
    mutex_unlock(&queue->events.lock);
    xs_queue_unlock(queue);
    xs_spin_tell(&queue->spin, &status.exs_attr);
    return status;
}

int exs_qstatus(exs_qhandle_t qhandle, exs_qstatus_t *status)
{
    if (xs_enter(__func__) < 0)
        return -1;
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return xs_no_queue(qhandle);
    if (status != NULL)
        *status = status_of(queue);
    xs_queue_put(queue);
    return status != NULL ? 0 : xs_nowhere("status");
}

/* Check everything before anything is changed. */
static int check_values(int attributes, const exs_qattr_t *values)
{
    const int known = EXS_QATTR_DEPTH | EXS_QATTR_WAIT;

    if (attributes == 0 || attributes & ~known)
        return xs_invalid("attributes is 0x%x: EXS_QATTR_DEPTH, EXS_QATTR_WAIT, or both", (unsigned)attributes);
    if (values == NULL) {
        xs_invalid("values is NULL");
        errno = EFAULT;
        return -1;
    }
    if (attributes & EXS_QATTR_DEPTH && xs_check_depth(values->exs_depth) < 0)
        return -1;
    if ((attributes & EXS_QATTR_WAIT) == 0 || values->exs_wait == EXS_WAIT_NOTIFY ||
        values->exs_wait == EXS_WAIT_BUSY_POLL)
        return 0;
    if (values->exs_wait != EXS_WAIT_ADAPTIVE)
        return xs_invalid("exs_wait is %d: must be EXS_WAIT_NOTIFY, _ADAPTIVE or _BUSY_POLL", values->exs_wait);
    if (values->exs_wait_us < 1 || values->exs_wait_us > EXS_WAIT_US_MAX)
        return xs_invalid("exs_wait_us is %d: from 1 to EXS_WAIT_US_MAX, %d", values->exs_wait_us,
                          EXS_WAIT_US_MAX);
    return 0;
}

static int change_attributes(struct queue *queue, int attributes, const exs_qattr_t *values)
{
    if (attributes & EXS_QATTR_DEPTH && !xs_ops_reach(queue, values->exs_depth)) {
        errno = ENOMEM;
        return -1;
    }
    if (attributes & EXS_QATTR_WAIT)
        xs_spin_set(&queue->spin, values);
    return 0;
}

int exs_qmodify(exs_qhandle_t qhandle, int attributes, const exs_qattr_t *values)
{
    if (xs_enter(__func__) < 0)
        return -1;
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return xs_no_queue(qhandle);
    int result = check_values(attributes, values) == 0 ? change_attributes(queue, attributes, values) : -1;

    xs_queue_put(queue);
    return result;
}
