/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table.c - a hash table from queue pair numbers to queue pairs.
 *
 * Numbers are given out in a secret order (shuffle.h), so that a peer that knows one cannot guess others. Their low
 * bits therefore spread well over the buckets. A number that becomes free is used again after all others.
 */
#include <stdlib.h>
#include "engine.h"

#define FIRST_BUCKETS 64

bool soft_is_qpn(uint32_t number)
{
    return number >= SOFT_QPN_MIN && number <= SOFT_QPN_MAX;
}

static struct soft_qp_list *bucket_of(struct soft_context *context, uint32_t qpn)
{
    return &context->buckets[qpn & (context->bucket_count - 1)];
}

struct soft_qp *soft_qp_find(struct soft_context *context, uint32_t qpn)
{
    struct soft_qp *qp;

    if (context->qp_count == 0)
        return NULL;
    LIST_FOREACH (qp, bucket_of(context, qpn), bucket) {
        if (qp->ibv.qp_base.qp_num == qpn)
            return qp;
    }
    return NULL;
}

static bool grow_table(struct soft_context *context)
{
    size_t count = context->bucket_count == 0 ? FIRST_BUCKETS : context->bucket_count * 2;
    struct soft_qp_list *buckets = calloc(count, sizeof *buckets);
    struct soft_qp *qp;

    if (buckets == NULL)
        return false;
    free(context->buckets);
    context->buckets = buckets;
    context->bucket_count = count;
    LIST_FOREACH (qp, &context->qps, link) {
        LIST_INSERT_HEAD(bucket_of(context, qp->ibv.qp_base.qp_num), qp, bucket);
    }
    return true;
}

/* There is a free number, because the caller has checked that not all are in use. */
static uint32_t new_number(struct soft_context *context)
{
    uint32_t number;

    do {
        number = context->first_qpn + soft_shuffle(&context->qpns, context->qpns_given++);
    } while (number > context->last_qpn || soft_qp_find(context, number) != NULL);
    return number;
}

bool soft_qp_enter(struct soft_context *context, struct soft_qp *qp)
{
    if (context->qp_count >= SOFT_MAX_QP || context->qp_count > context->last_qpn - context->first_qpn ||
        !soft_timer_reserve(context, context->qp_count + 1))
        return false;
    if (context->qp_count >= context->bucket_count && !grow_table(context))
        return false;
    qp->ibv.qp_base.qp_num = new_number(context);
    LIST_INSERT_HEAD(bucket_of(context, qp->ibv.qp_base.qp_num), qp, bucket);
    LIST_INSERT_HEAD(&context->qps, qp, link);
    context->qp_count++;
    return true;
}

void soft_qp_leave(struct soft_context *context, struct soft_qp *qp)
{
    LIST_REMOVE(qp, bucket);
    LIST_REMOVE(qp, link);
    context->qp_count--;
}
