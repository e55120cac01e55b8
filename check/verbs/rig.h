/* SPDX-License-Identifier: BSD-2-Clause */
/* rig.h - two queue pairs of one device that talk to each other, and what a case does with them. */
#ifndef VERBS_RIG_H
#define VERBS_RIG_H

#include "words.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

#define MEMORY_SIZE 16384
#define PATIENCE 10000 /* milliseconds for what must come */
#define RIG_QKEY 0x11223344

struct rig_end {
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq; /* of both its queues */
    char *memory;      /* MEMORY_SIZE bytes */
    struct ibv_mr *mr; /* all of it, with every access */
    struct ibv_qp *qp;
};

/* Everything is made once and left to the end of the process. A case may set what stands after `port` before it
 * asks for a pair. */
struct rig {
    struct ibv_context *context;
    struct ibv_port_attr port;
    int gid_index;
    union ibv_gid gid;
    struct ibv_pd *pd;
    struct rig_end a, b; /* the one that asks, the one that answers */
    struct ibv_srq *srq; /* of b's queue pair, or NULL */
    struct ibv_ah *ah;   /* to this port, of a datagram pair */
    unsigned access;     /* of both queue pairs */
    uint8_t reads;       /* RDMA READs and atomics in flight */
    uint8_t answers;     /* and those that b answers at once */
    uint8_t rnr_retry, retry, timeout;
    uint32_t depth, sges, inline_data;
    bool selective; /* a send completes only if it says IBV_SEND_SIGNALED */
};

void rig_open(struct rig *r, const char *device);
struct ibv_cq *rig_cq(struct rig *r, struct rig_end *end, int entries);
/* Its completion channel, its memory, its completion queue. */
void rig_end_open(struct rig *r, struct rig_end *end);
void rig_qp(struct rig *r, struct rig_end *end, enum ibv_qp_type type, struct ibv_srq *srq);
/* Both ends, in RTS, connected to each other. */
void rig_pair(struct rig *r, enum ibv_qp_type type);
/* The same, but that b's end is not there: nothing answers a. */
void rig_half(struct rig *r);

/* What a queue pair of that type wants for its next state. */
struct change {
    struct ibv_qp_attr attr;
    int mask;
};
struct change rig_init(const struct rig *r, enum ibv_qp_type type);
struct change rig_rtr(const struct rig *r, enum ibv_qp_type type, uint32_t peer);
struct change rig_rts(const struct rig *r, enum ibv_qp_type type);
void rig_move(struct ibv_qp *qp, struct change change);
void rig_state(struct ibv_qp *qp, enum ibv_qp_state state);
struct ibv_ah_attr rig_path(const struct rig *r);

#endif
