/* SPDX-License-Identifier: BSD-2-Clause */
/* rig.h - two connected queue pairs of one device, a (requester) and b (responder), and functions for cases. */
#ifndef VERBS_RIG_H
#define VERBS_RIG_H

#include "words.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

#define MEMORY_SIZE 16384
#define PATIENCE 10000 /* timeout for an expected event, milliseconds */
#define RIG_QKEY 0x11223344

struct rig_end {
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq; /* for send and receive queue */
    char *memory;      /* MEMORY_SIZE bytes */
    struct ibv_mr *mr; /* of `memory`, with all access rights */
    struct ibv_qp *qp;
};

/* All objects are created once and freed at the end of the process. A case may set the fields from `srq` on before it
 * creates a pair. */
struct rig {
    struct ibv_context *context;
    struct ibv_port_attr port;
    int gid_index;
    union ibv_gid gid;
    struct ibv_pd *pd;
    struct rig_end a, b; /* requester, responder */
    struct ibv_srq *srq; /* of b's queue pair, or NULL */
    struct ibv_ah *ah;   /* of a datagram pair: to this port */
    unsigned access;     /* rights of both queue pairs */
    uint8_t reads;       /* RDMA READs and atomics that a may have in flight */
    uint8_t answers;     /* RDMA READs and atomics that b accepts at a time */
    uint8_t rnr_retry, retry, timeout;
    uint32_t depth, sges, inline_data;
    bool selective; /* only sends with IBV_SEND_SIGNALED have a completion */
};

void rig_open(struct rig *r, const char *device);
struct ibv_cq *rig_cq(struct rig *r, struct rig_end *end, int entries);
/* Creates the completion channel, the memory and the completion queue of an end. */
void rig_end_open(struct rig *r, struct rig_end *end);
void rig_qp(struct rig *r, struct rig_end *end, enum ibv_qp_type type, struct ibv_srq *srq);
/* Creates both queue pairs and connects them; their state is RTS. */
void rig_pair(struct rig *r, enum ibv_qp_type type);
/* Like rig_pair(), but b's queue pair stays in RESET, so that a gets no response. */
void rig_half(struct rig *r);

/* Attributes for the next state of a queue pair of this type. */
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
