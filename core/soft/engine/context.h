/* SPDX-License-Identifier: BSD-2-Clause */
/* context.h - a context of the device: its lock, and all that the engine keeps between two steps. */
#ifndef SOFT_CONTEXT_H
#define SOFT_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include "core/doorbell.h"
#include "core/mutex.h"
#include "cq.h"
#include "event.h"
#include "keys.h"
#include "objects.h"
#include "qp.h"
#include "shuffle.h"
#include "train.h"
#include "wire.h"

LIST_HEAD(soft_qp_list, soft_qp);
TAILQ_HEAD(soft_work_list, soft_qp);

struct soft_context {
    struct mutex lock;
    struct soft_wire *wire;
    struct soft_clock *clock;
    bool opened;  /* the wire's open succeeded */
    uint64_t now; /* of the clock, while now_known */
    bool now_known;

    struct soft_train train;
    struct soft_work_list work;
    struct soft_work_list waiting;  /* within a step: those that wait for what their user is about to send */
    unsigned vain_polls;            /* in a row: nothing had completed */
    bool patient;                   /* an ACK may wait for what the application is about to send */
    uint64_t looks_at; /* ns: its user looks again then, who has been told of a timer; NEVER_NS: of none */
    atomic_bool waits; /* there is something to do before its user sleeps, since the last step; a hint to those
                          * who don't have the lock: pairs with nothing */

    int came;          /* packets from peers of ours, at the last look for completions, */
    atomic_uint stirs; /* and how many such looks have found those alone: a hint that pairs with nothing */

    struct soft_qp_list qps;
    struct soft_qp_list *buckets; /* by queue pair number */
    size_t qp_count, bucket_count;
    uint32_t first_qpn, last_qpn; /* that it gives */
    uint32_t qpns_given;          /* in all, also those that are gone */
    struct soft_shuffle qpns;     /* of the numbers from first_qpn on */
    struct soft_shuffle srqns;    /* of shared receive queues, in XRC's domains: */
    uint32_t srqns_given;
    LIST_HEAD(, soft_xrcd) xrcds;
    LIST_HEAD(, soft_group) groups; /* of multicast: group.h */
    unsigned group_count;

    struct soft_timer {
        uint64_t at; /* not later than the queue pair's deadline */
        struct soft_qp *qp;
    } * heap; /* a binary heap by `at` */
    size_t heap_count, heap_room;
    struct soft_qp *starting;       /* whose timers start when this step's packets have left */
    LIST_HEAD(, soft_qp) unhurried; /* whose timers start when somebody asks for the next deadline */

    struct soft_keys keys;    /* of the memory regions */
    struct soft_keys windows; /* of the memory windows, by blocks of keys: mw.h */

    atomic_bool slept_on; /* somebody sleeps who sees to packets and timers himself; pairs with nothing */
    atomic_uint awaited;  /* completion queues that are: counted before the wire's `awaits` takes the service's
                          * lock, which pairs with the service thread's look */
    LIST_HEAD(, soft_channel) channels;
    struct soft_channel *inside; /* whose events the thread that holds the lock is about to fetch */
    int *watched;
    int watched_count;
    TAILQ_HEAD(, soft_events) events; /* of all objects that have some */
    struct doorbell async;            /* its descriptor is async_fd: up while there are some */
    struct soft_objects objects;      /* of all kinds */

    uint64_t guid, node_guid; /* of the context itself; what it says is the device's */
    struct soft_names names;
    struct soft_counters counters;
    struct verbs_context verbs; /* last: grows at its front */
};

/* Registered memory is about to be the application's again. */
static inline void soft_settle_all(const struct soft_context *context)
{
    if (context->wire->settle != NULL)
        context->wire->settle(context->wire);
}

static inline struct soft_context *soft_context_of(struct ibv_context *context)
{
    return (struct soft_context *)((char *)context - offsetof(struct soft_context, verbs.context));
}

#endif
