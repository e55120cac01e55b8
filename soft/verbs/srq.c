/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * srq.c - shared receive queues: receives for any of several queue pairs, in the order in which they need one.
 */
#include <errno.h>
#include <stdlib.h>
#include "soft/engine/engine.h"
#include "soft/engine/xrc.h"
#include "verbs.h"

static uint32_t waiting_receives(const struct soft_srq *srq)
{
    return srq->ring.head - srq->ring.tail;
}

static struct soft_srq *make_srq(struct ibv_pd *pd, const struct ibv_srq_init_attr *init)
{
    struct soft_srq *srq = calloc(1, sizeof *srq);

    if (srq == NULL)
        return NULL;
    if (!soft_ring_make(&srq->ring, init->attr.max_wr, soft_recv_bytes(init->attr.max_sge))) {
        free(srq);
        return NULL;
    }
    srq->ibv.context = pd->context;
    srq->ibv.srq_context = init->srq_context;
    srq->ibv.pd = pd;
    srq->max_sge = init->attr.max_sge;
    srq->events.element = &srq->ibv;
    pthread_mutex_init(&srq->ibv.mutex, NULL);
    pthread_cond_init(&srq->ibv.cond, NULL);
    return srq;
}

int soft_srq_check(const struct ibv_srq *srq)
{
    return soft_object_check(soft_context_of(srq->context), SOFT_SRQ, srq, srq->handle);
}

/* Frees everything but the struct. */
static void release_srq(struct soft_srq *srq)
{
    pthread_cond_destroy(&srq->ibv.cond);
    pthread_mutex_destroy(&srq->ibv.mutex);
    soft_ring_free(&srq->ring);
}

/* (locked) Checks the objects that it uses, and adds it to the context's objects. 0 or an errno. */
static int attach_srq(struct soft_srq *srq, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
    struct ibv_pd *pd = srq->ibv.pd;
    int error = soft_pd_check(pd);

    if (error == 0 && xrcd != NULL && (error = soft_xrcd_check(xrcd)) == 0)
        error = soft_cq_check(cq);
    if (error != 0)
        return error;
    if (!soft_object_enter(soft_context_of(pd->context), SOFT_SRQ, &srq->ibv, &srq->ibv.handle))
        return ENOMEM;
    ((struct soft_pd *)pd)->users++;
    if (xrcd == NULL)
        return 0;
    srq->xrcd = (struct soft_xrcd *)xrcd;
    srq->cq = (struct soft_cq *)cq;
    srq->cq->users++;
    soft_xrc_enter(srq->xrcd, srq);
    return 0;
}

/* With an XRC domain and a completion queue, or without both. */
static struct ibv_srq *create_srq(struct ibv_pd *pd, const struct ibv_srq_init_attr *init,
                                  struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
    struct soft_srq *srq;
    int error;

    if (init->attr.max_wr < 1 || init->attr.max_wr > SOFT_MAX_WR || init->attr.max_sge > SOFT_MAX_SGE) {
        errno = EINVAL;
        return NULL;
    }
    if ((srq = make_srq(pd, init)) == NULL)
        return NULL;
    soft_lock(pd->context);
    error = attach_srq(srq, xrcd, cq);
    soft_unlock(pd->context);
    if (error == 0)
        return &srq->ibv;
    release_srq(srq);
    free(srq);
    errno = error;
    return NULL;
}

struct ibv_srq *soft_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    return create_srq(pd, init, NULL, NULL);
}

struct ibv_srq *soft_create_srq_ex(struct ibv_context *ibv, struct ibv_srq_init_attr_ex *init)
{
    const uint32_t extended = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    struct ibv_srq_init_attr basic = {.srq_context = init->srq_context, .attr = init->attr};
    enum ibv_srq_type type = init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? init->srq_type : IBV_SRQT_BASIC;

    errno = EINVAL;
    if (!(init->comp_mask & IBV_SRQ_INIT_ATTR_PD) || init->pd == NULL || init->pd->context != ibv)
        return NULL;
    if (type == IBV_SRQT_BASIC)
        return create_srq(init->pd, &basic, NULL, NULL);
    if (type != IBV_SRQT_XRC) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if ((init->comp_mask & extended) != extended || init->xrcd == NULL || init->cq == NULL ||
        init->xrcd->context != ibv || init->cq->context != ibv)
        return NULL;
    return create_srq(init->pd, &basic, init->xrcd, init->cq);
}

int soft_get_srq_num(struct ibv_srq *ibv, uint32_t *number)
{
    const struct soft_srq *srq = (const struct soft_srq *)ibv;
    int error;

    soft_lock(ibv->context);
    error = soft_srq_check(ibv);
    if (error == 0 && srq->xrcd == NULL)
        error = EOPNOTSUPP;
    if (error == 0)
        *number = srq->number;
    soft_unlock(ibv->context);
    return error;
}

/* (locked) */
static int detach_srq(struct soft_srq *srq)
{
    struct soft_context *context = soft_context_of(srq->ibv.context);
    int error = soft_srq_check(&srq->ibv);

    if (error != 0)
        return error;
    if (srq->users > 0)
        return EBUSY;
    if (srq->xrcd != NULL) {
        soft_xrc_leave(srq);
        srq->cq->users--;
    }
    soft_events_forget(context, &srq->events);
    ((struct soft_pd *)srq->ibv.pd)->users--;
    soft_object_retire(context, srq->ibv.handle);
    return 0;
}

int soft_destroy_srq(struct ibv_srq *ibv)
{
    struct soft_srq *srq = (struct soft_srq *)ibv;
    int error;

    soft_lock(ibv->context);
    error = detach_srq(srq);
    soft_unlock(ibv->context);
    if (error != 0)
        return errno = error;
    soft_events_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed, &srq->events);
    release_srq(srq);
    soft_object_free(soft_context_of(ibv->context), srq);
    return 0;
}

/* (locked) Replaces the ring by one for this number of receives; keeps those that are posted. 0 or an errno. */
static int resize_srq(struct soft_srq *srq, uint32_t size)
{
    struct soft_ring grown = {0};

    if (size < 1 || size > SOFT_MAX_WR || size < waiting_receives(srq))
        return EINVAL;
    if (!soft_ring_make(&grown, size, srq->ring.stride))
        return ENOMEM;
    for (uint32_t index = srq->ring.tail; index != srq->ring.head; index++)
        memcpy(soft_ring_at(&grown, grown.head++), soft_ring_at(&srq->ring, index), srq->ring.stride);
    soft_ring_free(&srq->ring);
    srq->ring = grown;
    return 0;
}

int soft_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int attr_mask)
{
    struct soft_srq *srq = (struct soft_srq *)ibv;
    bool resizes = attr_mask & IBV_SRQ_MAX_WR, limits = attr_mask & IBV_SRQ_LIMIT;
    int error;

    if (attr_mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
        return EINVAL;
    soft_lock(ibv->context);
    error = soft_srq_check(ibv);
    if (error == 0 && (limits ? attr->srq_limit : srq->limit) > (resizes ? attr->max_wr : srq->ring.size))
        error = EINVAL;
    else if (error == 0 && resizes)
        error = resize_srq(srq, attr->max_wr);
    if (error == 0 && limits)
        srq->limit = attr->srq_limit;
    soft_unlock(ibv->context);
    return error;
}

int soft_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
    const struct soft_srq *srq = (const struct soft_srq *)ibv;
    int error;

    soft_lock(ibv->context);
    error = soft_srq_check(ibv);
    if (error == 0)
        *attr =
            (struct ibv_srq_attr){.max_wr = srq->ring.size, .max_sge = srq->max_sge, .srq_limit = srq->limit};
    soft_unlock(ibv->context);
    return error;
}

bool soft_srq_take(struct soft_srq *srq, struct soft_recv *taken)
{
    if (waiting_receives(srq) == 0)
        return false;
    memcpy(taken, soft_ring_at(&srq->ring, srq->ring.tail++), srq->ring.stride);
    if (waiting_receives(srq) < srq->limit) {
        srq->limit = 0; /* once, until the limit is set again */
        soft_event_raise(soft_context_of(srq->ibv.context), &srq->events, IBV_EVENT_SRQ_LIMIT_REACHED);
    }
    return true;
}

int soft_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct soft_srq *srq = (struct soft_srq *)ibv;
    int error = 0;

    soft_lock(ibv->context);
    for (; wr != NULL && error == 0; wr = wr->next) {
        if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge)
            error = EINVAL;
        else if (waiting_receives(srq) >= srq->ring.size)
            error = ENOMEM;
        else
            soft_recv_fill(soft_ring_at(&srq->ring, srq->ring.head++), wr);
        if (error != 0)
            *bad = wr;
    }
    soft_unlock(ibv->context);
    return error;
}
