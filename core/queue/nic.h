/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nic.h - a device context as one queue uses it: a completion channel and completion queues. Owned by the queue, and
 * guarded by its lock, which must be held to call any function here.
 */
#ifndef XS_NIC_H
#define XS_NIC_H

#include <pthread.h>
#include <sys/queue.h>
#define HASH_NONFATAL_OOM 1 /* without memory nothing is added, and the element's hh.tbl is NULL */
#include <uthash.h>
#include "core/base/poll_state.h"
#include "core/device/device.h"

struct conn;
struct queue;
struct turn;

/* A completion queue; as many connections share it as it has room for. */
struct cq {
    LIST_ENTRY(cq) link;
    struct ibv_cq *cq;
    int size, used; /* completions: the capacity, and the maximum that its connections can produce */
    unsigned taken; /* events of the device that are not acknowledged yet */
};

struct nic {
    LIST_ENTRY(nic) link;
    const struct device *device;
    struct queue *queue;
    struct ibv_context *context;
    struct ibv_comp_channel *channel; /* nonblocking */
    struct waitset *waits;            /* the channel's; NULL: it has a descriptor */
    struct ibv_cq *unfinished;        /* kept for the device's harvest() between two calls, see device.h */
    LIST_HEAD(, cq) cqs;
    struct poll_state *poll; /* of the context; or no_poll_state, if the device has none */
    struct poll_state no_poll_state;
    unsigned activity_seen; /* the value of poll->activity at the last xs_nic_has_activity() */
    uint32_t max_request;   /* bytes, of one work request */
    bool immediate;         /* RDMA WRITE WITH IMMEDIATE is available */
    int max_cqe;
    uint32_t max_wr;          /* of the send queue and of the receive queue of a queue pair */
    uint32_t max_sge;         /* memory segments of one work request */
    uint8_t max_reads;        /* maximum number of outstanding RDMA READs in each direction of a connection */
    pthread_mutex_t map_lock; /* guards the maps of regions of its connections' domains (domain.h) */
    uint32_t conns;           /* connections that use the nic */
    uint64_t last_name;       /* the name (conn_name()) of the connection that had the last completion, */
    struct conn *last_conn;   /* and that connection; or 0 and NULL */
    bool gone;                /* the device was removed, and all its connections were broken */
    bool copies_files;        /* it can't register a shared read-only mapping (Linux before 6.2) */
};

/* Returns the queue's nic for this context, made at first use; `port` is the connection's. NULL and errno on failure.
 */
struct nic *xs_nic_get(struct queue *queue, const struct device *device, struct ibv_context *context,
                       uint8_t port);
void xs_nic_free(struct nic *nic);
/* The connection is being freed: its completions are ignored from now on. */
void xs_nic_forget(struct nic *nic, const struct conn *conn);
/* Counts one connection less, whose id must still exist. May free the nic (struct device, `contexts_end`). */
void xs_nic_leave(struct nic *nic);

/* Returns a completion queue and reserves room in it for the completions of one more connection. NULL and errno on
 * failure. */
struct cq *xs_nic_cq(struct nic *nic, int completions);
void xs_nic_cq_release(struct cq *cq, int completions);

/* Processes completions, and counts them in *turn. With BY_EDGE it continues until there are none and the completion
 * queues are armed; else it processes those of one completion queue, since the descriptor is still readable for the
 * others. */
void xs_nic_run(struct nic *nic, struct turn *turn);
/* Polls for completions once, without reading events or arming. Returns their number. Packets that arrive later need
 * not wake any thread: the caller must poll again or call xs_nic_flush(). */
int xs_nic_look(struct nic *nic);
/* Like xs_nic_look(), for a caller that neither polls again nor flushes: later packets wake a waiter. */
void xs_nic_look_once(struct nic *nic);
/* The caller may sleep now: the device sends what it held back (struct device, `stop_polling`). Returns when its next timer
 * expires (ns), or NEVER_NS. */
uint64_t xs_nic_flush(const struct nic *nic);
/* Returns true if packets arrived and nothing completed, since the last call. */
bool xs_nic_has_activity(struct nic *nic);
bool xs_nic_waits(const struct nic *nic); /* returns true if the device waits for xs_nic_flush() */
/* Tells the device whether threads sleep on the queue's wait sets. */
void xs_nic_sleeps(const struct nic *nic, bool sleeps);

#endif
