/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event.c - asynchronous events: what happens to a queue pair or queue and is not reported by a completion.
 *
 * Each object stores its own events, so that raising one needs no memory; an event of one kind is stored at most once
 * until it is fetched. async_fd is a doorbell (an eventfd), which is readable while an object has events. EXS's own
 * contexts have none, because EXS does not read these events.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include "soft/engine/engine.h"
#include "verbs.h"
#include "soft/lock.h"

/* (locked) */
static void flag_events(struct soft_context *context)
{
    doorbell_set(&context->async, !TAILQ_EMPTY(&context->events));
}

void soft_event_raise(struct soft_context *context, struct soft_events *events, enum ibv_event_type type)
{
    if (events->pending == 0)
        TAILQ_INSERT_TAIL(&context->events, events, link);
    events->pending |= 1u << type;
    flag_events(context);
}

void soft_events_forget(struct soft_context *context, struct soft_events *events)
{
    if (events->pending != 0)
        TAILQ_REMOVE(&context->events, events, link);
    events->pending = 0;
    flag_events(context);
}

void soft_events_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
                      const struct soft_events *events)
{
    soft_mutex_lock(mutex);
    while (*completed != events->delivered)
        pthread_cond_wait(cond, mutex);
    soft_mutex_unlock(mutex);
}

/* (locked) */
static bool pop_event(struct soft_context *context, struct ibv_async_event *event)
{
    struct soft_events *first = TAILQ_FIRST(&context->events);
    int type;

    if (first == NULL)
        return false;
    type = __builtin_ctz(first->pending);
    event->event_type = (enum ibv_event_type)type;
    event->element.qp = first->element; /* or another object: all are pointers */
    first->delivered++;
    first->pending &= first->pending - 1;
    if (first->pending == 0)
        TAILQ_REMOVE(&context->events, first, link);
    flag_events(context);
    return true;
}

int soft_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
    if (ibv->async_fd < 0 && soft_async_fd(ibv) < 0)
        return -1;
    for (;;) {
        struct pollfd poller = {.fd = ibv->async_fd, .events = POLLIN};
        bool found;
        int flags;

        soft_lock(ibv);
        found = pop_event(soft_context_of(ibv), event);
        soft_unlock(ibv);
        if (found)
            return 0;
        if ((flags = fcntl(ibv->async_fd, F_GETFL)) < 0)
            return -1;
        if (flags & O_NONBLOCK) {
            errno = EAGAIN;
            return -1;
        }
        if (poll(&poller, 1, -1) < 0)
            return -1;
    }
}

static void acknowledge_event(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
    soft_mutex_lock(mutex);
    ++*completed;
    pthread_cond_signal(cond);
    soft_mutex_unlock(mutex);
}

void soft_ack_async_event(struct ibv_async_event *event)
{
    struct ibv_cq *cq = event->element.cq;
    struct ibv_qp *qp = event->element.qp;
    struct ibv_srq *srq = event->element.srq;

    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        acknowledge_event(&cq->mutex, &cq->cond, &cq->async_events_completed);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        acknowledge_event(&qp->mutex, &qp->cond, &qp->events_completed);
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        acknowledge_event(&srq->mutex, &srq->cond, &srq->events_completed);
        break;
    default:
        break; /* of the port or device: no thread waits for it */
    }
}
