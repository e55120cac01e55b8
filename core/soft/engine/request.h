/* SPDX-License-Identifier: BSD-2-Clause */
/* request.h - work requests as they wait in the rings of send and receive queues, shared ones (srq.c) too. */
#ifndef SOFT_REQUEST_H
#define SOFT_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "event.h"
#include "wire.h"

#define SOFT_MAX_MESSAGE (1u << 30)
#define SOFT_GRH_BYTES 40 /* before the payload of a received datagram */
#define SOFT_MAX_WR 65536
#define SOFT_MAX_INLINE 1024

struct soft_cq;
struct soft_qp;
struct soft_xrcd;

/* The base of what the device carries out by itself: no opcode. Such a request's status is an error up to its
 * turn; rkey is the window's key; of a bind imm is the region's key, va and compare are the range, swap_add is
 * the access. */
#define SOFT_LOCAL 0x40

struct soft_send {
    uint64_t wr_id;
    uint64_t psn;     /* the first */
    uint32_t packets; /* PSNs */
    uint32_t length;
    enum ibv_wr_opcode opcode;
    enum ibv_wc_status status; /* why it can't be carried out */
    uint32_t rkey;
    uint32_t imm; /* as on the wire; of a SEND that invalidates, the key */
    uint64_t va;
    uint64_t swap_add, compare;
    uint32_t srqn; /* of an extended connection: the peer's shared receive queue */
    uint8_t base;  /* opcode on the wire, of a first packet; SOFT_LOCAL: none */
    uint8_t last;  /* and of a SEND's or WRITE's last one */
    uint8_t flags; /* IBV_SEND_ */
    bool with_imm;
    uint8_t sges;
    union {
        struct ibv_sge sge[1]; /* max_send_sge, */
        uint8_t bytes[1];      /* or max_inline_data */
    } data;
};

/* Where a datagram goes: behind the rest of its work request, in the last bytes of its place in the ring. */
struct soft_destination {
    struct soft_path path;
    uint32_t qpn, qkey;
};

struct soft_recv {
    uint64_t wr_id;
    int sges;
    struct ibv_sge sge[1]; /* max_recv_sge */
};

/* A ring of work requests; the indices only grow. */
struct soft_ring {
    uint8_t *slots;
    size_t stride;
    uint32_t size, mask; /* what was asked for; places - 1 */
    uint32_t head, tail; /* next to post; oldest */
};

static inline void *soft_ring_at(const struct soft_ring *ring, uint32_t index)
{
    return ring->slots + (size_t)(index & ring->mask) * ring->stride;
}

static inline struct soft_destination *soft_destination_of(const struct soft_ring *ring, struct soft_send *send)
{
    return (struct soft_destination *)((uint8_t *)send + ring->stride) - 1;
}

/* Room for so many requests of so many bytes. */
bool soft_ring_make(struct soft_ring *ring, uint32_t requests, size_t bytes);
void soft_ring_free(struct soft_ring *ring); /* also of one that was never made, but cleared */
/* Bytes of a receive of so many elements. */
size_t soft_recv_bytes(uint32_t sges);
void soft_recv_fill(struct soft_recv *recv, const struct ibv_recv_wr *wr);

/* A receive queue for many queue pairs. What it gives to one is that one's. */
struct soft_srq {
    struct ibv_srq ibv;
    void *reserved[4]; /* rdma-core's has more behind it */
    struct soft_ring ring;
    uint32_t max_sge;
    uint32_t limit; /* the event when fewer are left; 0: none */
    unsigned users; /* queue pairs */
    struct soft_events events;
    struct soft_xrcd *xrcd; /* of one for extended connections, and these: its completions', */
    struct soft_cq *cq;
    uint32_t number; /* by which the peer names it, */
    LIST_ENTRY(soft_srq) link;
};

/* 0, or the errno with which a call is refused that names it. (locked) */
int soft_srq_check(const struct ibv_srq *srq);
/* The oldest receive, copied into *taken. False: there is none. */
bool soft_srq_take(struct soft_srq *srq, struct soft_recv *taken);
int soft_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* verbs/mw.c: a request that sends nothing: an errno when it is refused; and into its place. */
int soft_local_refuse(const struct soft_qp *qp, const struct ibv_send_wr *wr);
void soft_local_keep(struct soft_send *send, const struct ibv_send_wr *wr);
/* All of the list or none of it; the errno of the first that is refused. */
int soft_post_list(struct ibv_qp *qp, struct ibv_send_wr *list);
int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
