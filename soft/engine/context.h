/* SPDX-License-Identifier: BSD-2-Clause */
/* context.h - a device context: its lock, and the engine's state. The lock guards all fields, except where a comment
 * says otherwise. */
#ifndef SOFT_CONTEXT_H
#define SOFT_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include "core/base/doorbell.h"
#include "core/base/mutex.h"
#include "core/base/poll_state.h"
#include "cq.h"
#include "event.h"
#include "keys.h"
#include "objects.h"
#include "qp.h"
#include "shuffle.h"
#include "burst.h"
#include "wire.h"

LIST_HEAD(soft_qp_list, soft_qp);
TAILQ_HEAD(soft_work_list, soft_qp);

/* A context, allocated by soft_open() and freed by soft_close(). */
struct soft_context {
    struct mutex lock;
    struct soft_wire *wire;
    struct soft_clock *clock;
    bool opened;  /* the wire's open() succeeded */
    uint64_t now; /* time of the clock, valid while now_known */
    bool now_known;

    struct soft_burst burst;
    struct soft_work_list work; /* queue pairs that may have something to send */
    /* Within a step: queue pairs that have only an ACK to send, which is delayed, so that it can go with data of the
     * application. */
    struct soft_work_list waiting;
    unsigned empty_polls; /* consecutive polls without a completion */
    bool delays_acks;     /* within soft_progress_delaying_acks(): this step may delay ACKs */
    /* The time by which the application will poll again, because soft_stop_polling() has told it to, ns; NEVER_NS: it
     * was told that no timer runs. */
    uint64_t polls_by;
    struct poll_state poll; /* its flush_wanted is updated at the end of each step */

    int packets_found; /* packets from connected peers that the last soft_progress_delaying_acks() has received */

    struct soft_qp_list qps;
    struct soft_qp_list *buckets; /* hash table by queue pair number */
    size_t qp_count, bucket_count;
    uint32_t first_qpn, last_qpn; /* the range of numbers for new queue pairs */
    uint32_t qpns_given;          /* numbers given out in total */
    struct soft_shuffle qpns;     /* order of the numbers from first_qpn on */
    struct soft_shuffle srqns;    /* order of the numbers of shared receive queues (XRC) */
    uint32_t srqns_given;         /* numbers of shared receive queues given out in total */
    LIST_HEAD(, soft_xrcd) xrcds;
    LIST_HEAD(, soft_group) groups; /* multicast groups: group.h */
    unsigned group_count;

    /* Timers of queue pairs: a binary heap ordered by `at`. heap_room: entries allocated. */
    struct soft_timer {
        uint64_t at; /* ns; not later than the queue pair's deadline */
        struct soft_qp *qp;
    } * heap;
    size_t heap_count, heap_room;
    /* List of queue pairs whose ACK timers start when this step's packets have been sent. */
    struct soft_qp *starting;
    /* Queue pairs whose ACK timers start when soft_deadline() is next called. */
    LIST_HEAD(, soft_qp) timer_pending;

    struct soft_keys keys;    /* memory regions by key */
    struct soft_keys windows; /* memory windows by block of keys (mw.h) */

    /* Number of completion queues for which the wire's awaits() was called. Incremented before awaits() takes the
     * service thread's lock, which pairs with the service thread's load under that lock. */
    atomic_uint awaited;
    LIST_HEAD(, soft_channel) channels;
    /* The channel whose events the thread that holds the context's lock is about to fetch: an event of this channel
     * needs no wake-up. NULL: none. */
    struct soft_channel *inside;
    /* The descriptors that soft_watch() has added, which each new channel watches, too. */
    int *watched;
    int watched_count;
    TAILQ_HEAD(, soft_events) events; /* objects with asynchronous events */
    struct doorbell async;            /* the eventfd behind async_fd: readable while `events` is not empty */
    struct soft_objects objects;      /* all objects by handle */

    uint64_t guid, node_guid; /* the context's own random GUID; the GUID that the device reports */
    struct soft_names names;
    struct soft_counters counters;
    struct verbs_context verbs; /* last member: rdma-core extends this struct at its front */
};

/* Called when registered memory is about to become invalid: the links copy the bytes that they have not sent from
 * it. */
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
