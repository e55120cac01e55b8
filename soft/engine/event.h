/* SPDX-License-Identifier: BSD-2-Clause */
/* event.h - asynchronous events: pending events of each object, until the application has fetched them. Guarded by the
 * context's lock. */
#ifndef SOFT_EVENT_H
#define SOFT_EVENT_H

#include <pthread.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>

struct soft_context;

/* Part of the object. */
struct soft_events {
    void *element;      /* the ibv_cq, ibv_qp or ibv_srq */
    uint32_t pending;   /* a bit for each enum ibv_event_type */
    uint32_t delivered; /* Fetched events; destroying waits until the same number was acknowledged. */
    TAILQ_ENTRY(soft_events) link;
};

/* raise: adds an event, unless one of its type is pending. forget: drops the pending ones. (locked) */
void soft_event_raise(struct soft_context *context, struct soft_events *events, enum ibv_event_type type);
void soft_events_forget(struct soft_context *context, struct soft_events *events);
/* Waits until all fetched events have been acknowledged. The context's lock must not be held. */
void soft_events_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
                      const struct soft_events *events);

#endif
