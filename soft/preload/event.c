/* SPDX-License-Identifier: BSD-2-Clause */
/* event.c - the symbols of libibverbs for completion queues, completion channels and asynchronous events. */
#include "preload.h"

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    return dispatch(context, soft_create_comp_channel, ibv_create_comp_channel, context);
}

static int our_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    return home_reaped(soft_destroy_comp_channel(channel));
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    return dispatch(channel->context, our_destroy_comp_channel, ibv_destroy_comp_channel, channel);
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                    struct ibv_comp_channel *channel, int vector)
{
    return dispatch(context, soft_create_cq, ibv_create_cq, context, cqe, cq_context, channel, vector);
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    return dispatch(cq->context, soft_resize_cq, ibv_resize_cq, cq, cqe);
}

static int our_destroy_cq(struct ibv_cq *cq)
{
    return home_reaped(soft_destroy_cq(cq));
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
    return dispatch(cq->context, our_destroy_cq, ibv_destroy_cq, cq);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    return dispatch(channel->context, soft_get_cq_event, ibv_get_cq_event, channel, cq, cq_context);
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    dispatch(cq->context, soft_ack_cq_events, ibv_ack_cq_events, cq, count);
}

/* ---- Asynchronous events ---- */

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    return dispatch(context, soft_get_async_event, ibv_get_async_event, context, event);
}

/* The context of an event: that of the object in it. NULL: the event is about a port or device. */
static const struct ibv_context *context_of(const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return event->element.cq->context;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return event->element.qp->context;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return event->element.srq->context;
    default:
        return NULL;
    }
}

/* Events about a port or device need no acknowledgement, whichever device reported them. */
EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    const struct ibv_context *context = context_of(event);

    if (context != NULL)
        dispatch(context, soft_ack_async_event, ibv_ack_async_event, event);
}
