/* SPDX-License-Identifier: BSD-2-Clause */
/* event.h - asynchronous events of queue pairs, completion queues and shared receive queues. An event is pending until
 * the application has fetched it. The context's lock guards the events. */
#ifndef SOFT_EVENT_H
#define SOFT_EVENT_H

#include <pthread.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>

struct soft_context;

/* The events of one object; a member of the object's struct. */
struct soft_events {
    void *element;    /* the object: an ibv_cq, ibv_qp or ibv_srq */
    uint32_t pending; /* a bit for each enum ibv_event_type */
    /* Events that were fetched; destroying the object waits until all of them are acknowledged. */
    uint32_t delivered;
    TAILQ_ENTRY(soft_events) link;
};

/* Adds an event, unless one of this type is pending. Called with the context's lock. */
void soft_event_raise(struct soft_context *context, struct soft_events *events, enum ibv_event_type type);
/* Drops the pending events. Called with the context's lock. */
void soft_events_forget(struct soft_context *context, struct soft_events *events);
/* Waits until all fetched events have been acknowledged: until *completed, which `mutex` guards and `cond` announces,
 * is events->delivered. The caller must not hold the context's lock. */
void soft_events_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
                      const struct soft_events *events);

#endif
