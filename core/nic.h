/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nic.h - one device context as one queue uses it: completion channel, completion queues. Guarded by its
 * queue's lock.
 */
#ifndef XS_NIC_H
#define XS_NIC_H

#include <pthread.h>
#include <sys/queue.h>
#define HASH_NONFATAL_OOM 1 /* without memory nothing is added, and the element says so: its hh.tbl is NULL */
#include <uthash.h>
#include "core.h"
#include "device.h"

struct conn;
struct queue;
struct turn;

/* Many connections share a completion queue, as many as fit into it. */
struct cq {
    LIST_ENTRY(cq) link;
    struct ibv_cq *cq;
    int size, used; /* completions: room, and what the connections on it can produce */
    unsigned taken; /* events of the device's that are not acknowledged yet */
};

struct nic {
    LIST_ENTRY(nic) link;
    const struct device *device;
    struct queue *queue;
    struct ibv_context *context;
    struct ibv_comp_channel *channel; /* its calls don't wait */
    struct waitset *waits;            /* the channel's, if its device has such */
    struct ibv_cq *unfinished;        /* the device's, between two harvests */
    LIST_HEAD(, cq) cqs;
    const atomic_bool *rest_wanted; /* the device's: see device.h; and so are */
    const atomic_uint *stirs;       /* these, */
    unsigned stirs_seen;            /* and as it was last */
    uint32_t max_request;           /* bytes, of one work request */
    bool immediate;                 /* it has RDMA WRITE WITH IMMEDIATE */
    int max_cqe;
    uint32_t max_wr;          /* of either queue of a queue pair */
    uint8_t max_reads;        /* RDMA READs under way at once, each direction of a connection */
    pthread_mutex_t map_lock; /* guards the maps of regions of its connections' domains (domain.h) */
    uint32_t conns;
    uint64_t last_name;     /* of the connection that had the last completion, */
    struct conn *last_conn; /* which is this; or 0 and NULL */
    bool gone;              /* its device is, and who has connections on it has been told */
    bool copies_files;      /* it can't register a shared mapping that is only read (Linux before 6.2) */
};

/* The queue's nic for this context, made at first use; the port is that of the connection. NULL and errno.
 * Called with the queue's lock. */
struct nic *xs_nic_get(struct queue *queue, const struct device *device, struct ibv_context *context,
                       uint8_t port);
void xs_nic_free(struct nic *nic);
/* The connection goes, and has no more completions. */
void xs_nic_forget(struct nic *nic, const struct conn *conn);
/* One connection less on it, whose id is there still. The nic may go with it. */
void xs_nic_leave(struct nic *nic);

/* Room for the completions of one more connection. NULL and errno. */
struct cq *xs_nic_cq(struct nic *nic, int completions);
void xs_nic_cq_release(struct cq *cq, int completions);

/* Harvest completions until there are none and events are armed; counts them. Of one completion queue, where
 * the descriptor brings the caller back for the others; or of all. */
void xs_nic_run(struct nic *nic, struct turn *turn);
/* Take the completions that there are, and neither events nor arming; how many. What arrives then need wake
 * nobody: the caller looks again, or rests. */
int xs_nic_look(struct nic *nic);
/* The same of a caller that does not. */
void xs_nic_look_once(struct nic *nic);
/* The application has had its turn: it may sleep now. Until when, as struct device has it. */
uint64_t xs_nic_rest(const struct nic *nic);
/* Did packets come, and nothing complete, since it was last asked? */
bool xs_nic_stirs(struct nic *nic);
bool xs_nic_waits(const struct nic *nic); /* for that */
/* Threads sleep on what its queue waits for, or none does. */
void xs_nic_sleeps(const struct nic *nic, bool sleeps);

#endif
