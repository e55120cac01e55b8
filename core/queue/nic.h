/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nic.h - a device context as one queue uses it: a completion channel and completion queues ("nic"). The queue owns the
 * nic, and the queue's lock guards it and must be held to call any function here.
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

/* A completion queue. Connections share it, as long as the completions of all of them fit. */
struct cq {
    LIST_ENTRY(cq) link;
    struct ibv_cq *cq;
    int size, used; /* its capacity; the maximum number of completions that its connections can produce */
    unsigned taken; /* events of the device that are not acknowledged yet */
};

struct nic {
    LIST_ENTRY(nic) link;
    const struct device *device;
    struct queue *queue;
    struct ibv_context *context;
    struct ibv_comp_channel *channel; /* nonblocking */
    struct waitset *waits;            /* the channel's wait set; NULL: the channel has a descriptor instead */
    struct ibv_cq *unfinished;        /* kept between two calls of the device's harvest() (struct harvest) */
    LIST_HEAD(, cq) cqs;
    struct poll_state *poll; /* that of the context; or `no_poll_state`, if the device has none */
    struct poll_state no_poll_state;
    unsigned activity_seen;   /* the value of poll->activity at the last xs_nic_has_activity() */
    uint32_t max_request;     /* maximum bytes of one work request */
    bool immediate;           /* RDMA WRITE WITH IMMEDIATE is available */
    int max_cqe;              /* maximum entries of a completion queue */
    uint32_t max_wr;          /* maximum entries of the send queue, and of the receive queue, of a queue pair */
    uint32_t max_sge;         /* maximum memory segments of one work request */
    uint8_t max_reads;        /* maximum number of outstanding RDMA READs in each direction of a connection */
    pthread_mutex_t map_lock; /* guards the maps of regions of its connections' domains (domain.h) */
    uint32_t conns;           /* connections that use the nic */
    /* The connection of the last completion, and its name (conn_name()); or NULL and 0. */
    uint64_t last_name;
    struct conn *last_conn;
    bool gone;         /* the device was removed, and all its connections were broken */
    bool copies_files; /* the device can't register a shared read-only mapping (Linux before 6.2) */
};

/* Returns the queue's nic for this context, and makes it at first use. `port` is the device's port that the connection
 * uses. NULL and errno on failure. */
struct nic *xs_nic_get(struct queue *queue, const struct device *device, struct ibv_context *context,
                       uint8_t port);
void xs_nic_free(struct nic *nic);
/* Called when the connection is being freed: from now on its completions are ignored. */
void xs_nic_forget(struct nic *nic, const struct conn *conn);
/* Counts one connection less, whose id must still exist. May free the nic (struct device, `contexts_end`). */
void xs_nic_leave(struct nic *nic);

/* Reserves room for this number of completions, those of one more connection, and returns the completion queue. NULL
 * and errno on failure. */
struct cq *xs_nic_cq(struct nic *nic, int completions);
/* Gives the reserved room back. */
void xs_nic_cq_release(struct cq *cq, int completions);

/* Processes completions, and counts them in *turn. With BY_EDGE it continues until there are none and the completion
 * queues are armed. Otherwise it processes those of one completion queue; if other completion queues have some, the
 * descriptor stays readable. */
void xs_nic_run(struct nic *nic, struct turn *turn);
/* Polls for completions once, without reading events or arming. Returns their number. Packets that arrive later need
 * not wake any thread: the caller must poll again or call xs_nic_flush(). */
int xs_nic_look(struct nic *nic);
/* Like xs_nic_look(), for a caller that neither polls again nor flushes: later packets wake a waiter. */
void xs_nic_look_once(struct nic *nic);
/* Called when the caller may sleep next: has the device send the packets that it holds back (struct device,
 * `stop_polling`). Returns the time when the device's next timer expires (ns), or NEVER_NS. */
uint64_t xs_nic_flush(const struct nic *nic);
/* Returns true if a poll since the last call has found packets and no completion (struct poll_state, `activity`). */
bool xs_nic_has_activity(struct nic *nic);
/* Returns true if xs_nic_flush() must be called before a thread sleeps (struct poll_state, `flush_wanted`). */
bool xs_nic_waits(const struct nic *nic);
/* Informs the device whether threads sleep on the queue's wait sets (struct poll_state, `asleep`). */
void xs_nic_sleeps(const struct nic *nic, bool sleeps);

#endif
