/* SPDX-License-Identifier: BSD-2-Clause */
/* request.h - work requests in the rings of send queues, receive queues and shared receive queues (srq.c). */
#ifndef SOFT_REQUEST_H
#define SOFT_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "event.h"
#include "wire.h"

#define SOFT_MAX_MESSAGE (1u << 30) /* maximum bytes of a message */
#define SOFT_GRH_BYTES 40           /* bytes of the GRH that precedes the payload of a received datagram */
#define SOFT_MAX_WR 65536           /* maximum work requests of a queue */
#define SOFT_MAX_INLINE 1024        /* maximum bytes of inline data */

struct soft_cq;
struct soft_qp;
struct soft_xrcd;

/* The value of `base` of a request that sends no packet (bind, local invalidate); it is not an opcode. In such a
 * request `status` is an error, so that the requester stops at it; `rkey` is the window's key. For a bind, `imm` is the
 * region's key, `va` and `compare` are start and length of the range, and `swap_add` is the access. */
#define SOFT_LOCAL 0x40

/* A posted send request. */
struct soft_send {
    uint64_t wr_id;
    uint64_t psn;     /* the first PSN */
    uint32_t packets; /* number of PSNs */
    uint32_t length;
    enum ibv_wr_opcode opcode;
    enum ibv_wc_status status; /* an error found when it was posted, or IBV_WC_SUCCESS */
    uint32_t rkey;
    uint32_t imm; /* immediate data in network byte order; for a SEND with invalidate, the key */
    uint64_t va;
    uint64_t swap_add, compare;
    uint32_t srqn; /* XRC: number of the peer's shared receive queue */
    uint8_t base;  /* opcode of the first packet, or SOFT_LOCAL */
    uint8_t last;  /* opcode of the last packet of a SEND or WRITE */
    uint8_t flags; /* IBV_SEND_ */
    bool with_imm;
    uint8_t sges;
    union {
        struct ibv_sge sge[1]; /* max_send_sge elements */
        uint8_t bytes[1];      /* or max_inline_data bytes */
    } data;
};

/* The destination of a datagram. Stored in the last bytes of the request's entry in the ring. */
struct soft_destination {
    struct soft_path path;
    uint32_t qpn, qkey;
};

/* A posted receive. */
struct soft_recv {
    uint64_t wr_id;
    int sges;
    struct ibv_sge sge[1]; /* max_recv_sge elements */
};

/* A ring buffer of work requests. */
struct soft_ring {
    uint8_t *slots;
    size_t stride;       /* bytes of a slot */
    uint32_t size, mask; /* maximum number of requests; number of slots, a power of 2, minus 1 */
    /* Indices of the next request to be posted, and of the oldest one; they wrap at 2^32. */
    uint32_t head, tail;
};

static inline void *soft_ring_at(const struct soft_ring *ring, uint32_t index)
{
    return ring->slots + (size_t)(index & ring->mask) * ring->stride;
}

static inline struct soft_destination *soft_destination_of(const struct soft_ring *ring, struct soft_send *send)
{
    return (struct soft_destination *)((uint8_t *)send + ring->stride) - 1;
}

/* Allocates a ring for this number of requests of this size in bytes. False: no memory. */
bool soft_ring_make(struct soft_ring *ring, uint32_t requests, size_t bytes);
/* Frees the slots. Does nothing to a ring that is all zero. */
void soft_ring_free(struct soft_ring *ring);
/* Returns the bytes of a receive with this number of elements. */
size_t soft_recv_bytes(uint32_t sges);
/* Copies the application's receive. */
void soft_recv_fill(struct soft_recv *recv, const struct ibv_recv_wr *wr);

/* A shared receive queue. A receive that a queue pair has taken belongs to that queue pair. */
struct soft_srq {
    struct ibv_srq ibv;
    void *reserved[4]; /* rdma-core's struct is longer */
    struct soft_ring ring;
    uint32_t max_sge;
    uint32_t limit; /* IBV_EVENT_SRQ_LIMIT_REACHED is raised when fewer receives are posted; 0: never */
    unsigned users; /* queue pairs that use it */
    struct soft_events events;
    /* For XRC: the domain, the completion queue of its receives, and the number by which the peer names it. */
    struct soft_xrcd *xrcd;
    struct soft_cq *cq;
    uint32_t number;
    LIST_ENTRY(soft_srq) link;
};

/* Returns 0, or the errno for a call that names an invalid shared receive queue. Called with the context's lock. */
int soft_srq_check(const struct ibv_srq *srq);
/* Moves the oldest receive to *taken. False: the queue is empty. Called with the context's lock. */
bool soft_srq_take(struct soft_srq *srq, struct soft_recv *taken);
/* ibv_post_srq_recv(). */
int soft_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* verbs/mw.c, for requests that send no packet. soft_local_refuse() returns an errno if the request is invalid, else 0;
 * soft_local_keep() copies it to its slot. */
int soft_local_refuse(const struct soft_qp *qp, const struct ibv_send_wr *wr);
void soft_local_keep(struct soft_send *send, const struct ibv_send_wr *wr);
/* Posts all requests of the list, or none if one is invalid; returns the errno of the first invalid one, or 0. */
int soft_post_list(struct ibv_qp *qp, struct ibv_send_wr *list);
/* ibv_post_send() and ibv_post_recv(). */
int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
