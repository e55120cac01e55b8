/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.h - a queue pair: its requester (sends requests), its responder (executes the peer's), and helpers of the whole
 * engine. */
#ifndef SOFT_QP_H
#define SOFT_QP_H

#include <sys/queue.h>
#include "event.h"
#include "mr.h"
#include "recovery.h"
#include "request.h"
#include "wire.h"

#define SOFT_MAX_QP (1 << 20)
#define SOFT_MAX_READS 16 /* Maximum READs and atomics outstanding in each direction of a queue pair. */

struct soft_builder;
struct soft_context;

/* The sending half. PSNs are 64 bits wide (packet.h). una..next are sent and not acknowledged; next..end are posted,
 * and not yet sent, or to be sent again. */
struct soft_requester {
    struct soft_ring ring;
    uint32_t index; /* the work request that contains PSN next */
    uint64_t una;   /* the oldest PSN that is not acknowledged */
    uint64_t next;  /* the next PSN to send */
    uint64_t high;  /* one past the highest PSN ever sent */
    uint64_t end;   /* one past the last PSN posted */
    uint64_t asked; /* one past the last packet that asked for an acknowledgement */
    uint64_t gap;   /* The value of una for which a missing response was already requested. */
    /* Outstanding READs and atomics: one past the last PSN of each, oldest first. */
    uint64_t read_end[SOFT_MAX_READS];
    unsigned reads;
    struct soft_recovery recovery; /* loss recovery */
    uint64_t expiry; /* When the ACK timer expires, ns, or NEVER_NS; a probe may be due earlier. */
    unsigned retries, rnr_retries; /* retries used since the last progress */
    bool rnr_wait;
    uint64_t retransmitted; /* packets sent again in total */
};

/* A READ or atomic that the responder remembers, so that it can repeat the response. */
struct soft_resource {
    /* First PSN; next response to send; one past the last response to send. cursor == end: all sent. */
    uint64_t psn, cursor, end;
    uint64_t start; /* First PSN of this series of responses (a repeated request may start inside the READ). */
    uint64_t va;
    uint64_t original; /* result of an atomic */
    uint32_t rkey, length, packets;
    uint32_t msn;
    struct ibv_pd *pd; /* Protection domain of the request (XRC). */
    bool atomic, again;
};

enum soft_answer { SOFT_ANSWER_NONE, SOFT_ANSWER_ACK, SOFT_ANSWER_NAK };

/* The receiving half. */
struct soft_responder {
    struct soft_ring ring;
    uint64_t acked; /* one past the last PSN that was acknowledged */
    /* The next PSN; one past the highest PSN that arrived too early and was dropped. */
    uint64_t expected, missed;
    uint64_t data;          /* One past the last SEND or WRITE packet: what an ACK can acknowledge. */
    uint32_t msn, data_msn; /* message sequence numbers: current, and at `data` */
    bool nak_sent;          /* a NAK for the gap at `expected` was sent */
    uint64_t ahead;         /* the last packet that arrived too early since that NAK */
    enum soft_answer answer;
    uint8_t syndrome; /* of the NAK */
    uint64_t nak_psn; /* PSN of a NAK that is not about a gap */
    unsigned asks;    /* ACK requests that the pending ACK answers */
    unsigned message; /* SOFT_OP_SEND or SOFT_OP_WRITE within a message, else 0 */
    bool receiving;   /* this message uses the oldest receive */
    bool established; /* a packet has arrived */
    bool held;        /* *shared holds a receive that was taken from the SRQ */
    struct soft_recv *shared;
    uint64_t offset; /* bytes of the message received so far */
    uint64_t va;
    uint32_t rkey, length;
    struct soft_resource *resources; /* A ring of max_dest_rd_atomic entries, in the order of PSNs. */
    unsigned newest, active;
};

#define SOFT_QP_EX (1u << 1)

struct soft_qp {
    struct ibv_qp_ex ibv; /* As large as rdma-core's struct, which begins with an ibv_qp. */
    uint32_t comp_mask; /* rdma-core reads this word here: without SOFT_QP_EX there are no ibv_wr_ functions. */
    void *reserved[4];

    struct soft_builder *builder; /* of ibv_wr_start()..ibv_wr_complete(), or NULL */
    struct soft_context *context;
    struct ibv_qp_cap cap;
    uint8_t transport; /* SOFT_RC, _UC, _UD or _XRC */
    bool reliable;     /* what it sends is acknowledged */
    uint8_t ack;       /* opcode of its acknowledgements */
    /* Set on the receiving end of an XRC connection. Its pd, srq and recv_cq are those that the current packet names
     * (xrc.c). */
    struct soft_xrcd *xrcd;
    bool signal_all;
    bool checks_every_key; /* also the key of a WRITE of no bytes */
    struct ibv_qp_attr attr;
    bool path_given, path_known; /* The path was set by soft_set_path(); it was set by that or by modify_qp. */
    struct soft_path path;
    uint32_t mtu;  /* bytes of payload in a packet */
    uint32_t turn; /* packets of this size in one turn: a burst */

    struct soft_requester req;
    struct soft_responder resp;

    struct soft_events events;
    uint64_t deadline; /* When the ACK timer, a probe or a pause is due, ns, or NEVER_NS. */
    size_t heap_at;    /* Position in the context's heap, counted from 1; 0: not there. */
    bool starting;     /* on the context's list `starting` */
    struct soft_qp *starting_next;
    bool timer_pending; /* on the context's list `timer_pending` */
    LIST_ENTRY(soft_qp) later;
    bool working; /* on the work list */
    TAILQ_ENTRY(soft_qp) work;
    LIST_ENTRY(soft_qp) link, bucket;
    LIST_HEAD(, soft_mw) windows; /* bound memory windows of type 2 */
    unsigned groups;              /* multicast groups it is attached to */
};

static inline struct soft_qp *soft_qp_of(struct ibv_qp *qp)
{
    return (struct soft_qp *)qp;
}

static inline void soft_set_mtu(struct soft_qp *qp, uint32_t mtu)
{
    qp->mtu = mtu;
    /* Only links with buffers of their own have packets of more than 4096 bytes. */
    qp->turn = (mtu <= 4096 ? SOFT_BURST_MAX : SOFT_BURST_LONG) / mtu;
}

static inline struct ibv_qp *soft_ibv(struct soft_qp *qp)
{
    return &qp->ibv.qp_base;
}

static inline enum ibv_qp_state soft_state(const struct soft_qp *qp)
{
    return qp->ibv.qp_base.state;
}

/* True if it processes requests, also if only its send queue is in the error state. */
static inline bool soft_receives(const struct soft_qp *qp)
{
    return 1u << soft_state(qp) &
           (1u << IBV_QPS_RTR | 1u << IBV_QPS_RTS | 1u << IBV_QPS_SQD | 1u << IBV_QPS_SQE);
}

/* Memory from which it sends becomes invalid: its link copies what it has not sent yet. */
static inline void soft_settle(const struct soft_qp *qp)
{
    if (qp->path.link != NULL && qp->path.link->settle != NULL)
        qp->path.link->settle(qp->path.link);
}

/* True if all that it sends arrives. */
static inline bool soft_is_lossless(const struct soft_qp *qp)
{
    return qp->path.link != NULL && qp->path.link->lossless;
}

/* True if it may have outstanding requests. */
static inline bool soft_sends(const struct soft_qp *qp)
{
    return soft_state(qp) == IBV_QPS_RTS || soft_state(qp) == IBV_QPS_SQD;
}

/* 0, or the errno for a call that names an invalid queue pair. (locked) */
int soft_qp_check(const struct ibv_qp *qp);
/* Enters the error state: all work completes with IBV_WC_WR_FLUSH_ERR. */
void soft_qp_fail(struct soft_qp *qp) __attribute__((cold));
/* A request has failed: the queue pair enters the error state, or, on an unreliable transport, only its send queue
 * (SQE). */
void soft_send_queue_fail(struct soft_qp *qp) __attribute__((cold));
void soft_complete_send(struct soft_qp *qp, const struct soft_send *send, enum ibv_wc_status status);
/* The caller has filled in *wc except wr_id and the fields of the queue pair. */
void soft_complete_recv(struct soft_qp *qp, const struct soft_recv *recv, struct ibv_wc *wc, bool solicited);
void soft_flush_sends(struct soft_qp *qp) __attribute__((cold));
void soft_flush_recvs(struct soft_qp *qp) __attribute__((cold));

static inline struct soft_srq *soft_srq_of(struct soft_qp *qp)
{
    return (struct soft_srq *)soft_ibv(qp)->srq;
}

/* The protection domain whose keys the receives use. */
static inline struct ibv_pd *soft_receive_pd(struct soft_qp *qp)
{
    return soft_ibv(qp)->srq != NULL ? soft_ibv(qp)->srq->pd : soft_ibv(qp)->pd;
}

/* The receive of the current message, or of the next one; NULL: none is posted. A receive of an SRQ is taken from it
 * here, and from then on belongs to the queue pair. */
static inline struct soft_recv *soft_receive_next(struct soft_qp *qp)
{
    struct soft_srq *srq = soft_srq_of(qp);
    const struct soft_ring *ring = &qp->resp.ring;

    if (srq == NULL)
        return ring->tail == ring->head ? NULL : soft_ring_at(ring, ring->tail);
    if (!qp->resp.held)
        qp->resp.held = soft_srq_take(srq, qp->resp.shared);
    return qp->resp.held ? qp->resp.shared : NULL;
}

/* The current receive is about to complete. */
static inline void soft_receive_done(struct soft_qp *qp)
{
    if (soft_srq_of(qp) == NULL)
        qp->resp.ring.tail++;
    qp->resp.held = qp->resp.receiving = false;
}

/* verbs/build.c: ibv_wr_start()..ibv_wr_complete(), which build a list of requests in several calls. 0 or an errno. */
int soft_builder_add(struct soft_qp *qp);
void soft_builder_free(struct soft_qp *qp);

#endif
