/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.h - a queue pair: its sending half, its receiving half, and what all parts of the engine ask of it. */
#ifndef SOFT_QP_H
#define SOFT_QP_H

#include <sys/queue.h>
#include "event.h"
#include "mr.h"
#include "recovery.h"
#include "request.h"
#include "wire.h"

#define SOFT_MAX_QP (1 << 20)
#define SOFT_MAX_READS 16 /* READs and atomics under way at once, each direction of a queue pair */

struct soft_builder;
struct soft_context;

/* The sending half. PSNs una..next are out; next..end are posted and not yet sent (again). */
struct soft_requester {
    struct soft_ring ring;
    uint32_t index;                    /* the work request that next is in */
    uint64_t una;                      /* the oldest that is not acknowledged */
    uint64_t next;                     /* the next to send */
    uint64_t high;                     /* behind the highest ever sent */
    uint64_t end;                      /* behind all that is posted */
    uint64_t asked;                    /* behind the last packet that asked for an acknowledgement */
    uint64_t pauses;                   /* the packet behind which the rest of the window may wait, which asks */
    uint64_t gap;                      /* una, when what is missing there has been asked for once */
    uint64_t read_end[SOFT_MAX_READS]; /* READ requests out: PSN behind each, oldest first */
    unsigned reads;
    struct soft_recovery recovery; /* from losses */
    uint64_t expiry;               /* of the ACK timer, or NEVER_NS; a probe may be due before */
    unsigned retries, rnr_retries; /* used up since the last progress */
    bool rnr_wait;
    uint64_t retransmitted; /* packets sent again, ever */
};

/* A READ or atomic that the responder remembers, in case it is asked again. */
struct soft_resource {
    uint64_t psn, cursor, end; /* first; next to answer; behind the last to answer. Done: cursor == end */
    uint64_t start;            /* where answering began (a repeated request may begin inside) */
    uint64_t va;
    uint64_t original; /* an atomic's result */
    uint32_t rkey, length, packets;
    uint32_t msn;
    struct ibv_pd *pd; /* to compare with */
    bool atomic, again;
};

enum soft_answer { SOFT_ANSWER_NONE, SOFT_ANSWER_ACK, SOFT_ANSWER_NAK };

/* The receiving half. */
struct soft_responder {
    struct soft_ring ring;
    uint64_t acked;            /* behind the last PSN that was acknowledged */
    uint64_t expected, missed; /* next PSN; behind the highest that came too early and was dropped */
    uint64_t data;             /* behind the last SEND or WRITE: what an ACK can acknowledge */
    uint32_t msn, data_msn;    /* and there */
    bool nak_sent;             /* for the gap at expected, */
    uint64_t ahead;            /* and the last packet since that came too early */
    enum soft_answer answer;
    uint8_t syndrome; /* of the NAK */
    uint64_t nak_psn; /* of a NAK that is not about a gap */
    unsigned asks;    /* for the ACK that is owed */
    unsigned message; /* SOFT_OP_SEND or _WRITE while in the middle of one, else 0 */
    bool receiving;   /* the oldest receive is taken by this message */
    bool established; /* something has come */
    bool held;        /* *shared has been taken from the shared queue */
    struct soft_recv *shared;
    uint64_t offset; /* into the message */
    uint64_t va;
    uint32_t rkey, length;
    struct soft_resource *resources; /* max_dest_rd_atomic, a ring in the order of PSNs */
    unsigned newest, active;
};

#define SOFT_QP_EX (1u << 1)

struct soft_qp {
    struct ibv_qp_ex ibv; /* as large as rdma-core's own, of which an ibv_qp is the beginning */
    uint32_t comp_mask;   /* rdma-core looks for it here: without SOFT_QP_EX there are no ibv_wr_ calls */
    void *reserved[4];

    struct soft_builder *builder; /* of ibv_wr_start..ibv_wr_complete, or NULL */
    struct soft_context *context;
    struct ibv_qp_cap cap;
    uint8_t transport;      /* SOFT_RC, _UC, _UD or _XRC */
    bool reliable;          /* what it sends is acknowledged */
    uint8_t ack;            /* opcode of its acknowledgements */
    struct soft_xrcd *xrcd; /* of the receiving end of an extended connection; its pd, srq and recv_cq are those
                             * that the packet at hand names: xrc.c */
    bool signal_all;
    bool checks_every_key; /* of a WRITE of no bytes, too */
    struct ibv_qp_attr attr;
    bool path_given, path_known; /* by soft_set_path; by anyone */
    struct soft_path path;
    uint32_t mtu;  /* bytes */
    uint32_t turn; /* packets of that size in one turn: a train */

    struct soft_requester req;
    struct soft_responder resp;

    struct soft_events events;
    uint64_t deadline; /* of the ACK or RNR timer, or NEVER_NS */
    size_t heap_at;    /* 1-based place in the context's heap, 0: not there */
    bool starting;     /* on the context's list of that */
    struct soft_qp *starting_next;
    bool unhurried; /* on the list of those whose timers start when somebody asks */
    LIST_ENTRY(soft_qp) later;
    bool working; /* on the work list */
    TAILQ_ENTRY(soft_qp) work;
    LIST_ENTRY(soft_qp) link, bucket;
    LIST_HEAD(, soft_mw) windows; /* of type 2, that it has bound */
    unsigned groups;              /* of multicast, that it is attached to */
};

static inline struct soft_qp *soft_qp_of(struct ibv_qp *qp)
{
    return (struct soft_qp *)qp;
}

/* As InfiniBand has them, and not those of a link that has room of its own. */
static inline bool soft_is_short(uint32_t mtu)
{
    return mtu <= 4096;
}

static inline void soft_set_mtu(struct soft_qp *qp, uint32_t mtu)
{
    qp->mtu = mtu;
    qp->turn = (soft_is_short(mtu) ? SOFT_TRAIN_MAX : SOFT_TRAIN_LONG) / mtu;
}

static inline struct ibv_qp *soft_ibv(struct soft_qp *qp)
{
    return &qp->ibv.qp_base;
}

static inline enum ibv_qp_state soft_state(const struct soft_qp *qp)
{
    return qp->ibv.qp_base.state;
}

/* Does it take packets in? (Also when its send queue alone is in error.) */
static inline bool soft_receives(const struct soft_qp *qp)
{
    return 1u << soft_state(qp) &
           (1u << IBV_QPS_RTR | 1u << IBV_QPS_RTS | 1u << IBV_QPS_SQD | 1u << IBV_QPS_SQE);
}

/* The memory of what it has sent is the application's again: its link keeps copies of what has not left yet. */
static inline void soft_settle(const struct soft_qp *qp)
{
    if (qp->path.link != NULL && qp->path.link->settle != NULL)
        qp->path.link->settle(qp->path.link);
}

/* Does all that is sent arrive? */
static inline bool soft_is_lossless(const struct soft_qp *qp)
{
    return qp->path.link != NULL && qp->path.link->lossless;
}

/* May it have requests under way? */
static inline bool soft_sends(const struct soft_qp *qp)
{
    return soft_state(qp) == IBV_QPS_RTS || soft_state(qp) == IBV_QPS_SQD;
}

/* 0, or the errno with which a call is refused that names it. (locked) */
int soft_qp_check(const struct ibv_qp *qp);
/* To the error state: all work completes, flushed. */
void soft_qp_fail(struct soft_qp *qp) __attribute__((cold));
/* A request has failed: to the error state, or where there is no connection to lose only the send queue. */
void soft_send_queue_fail(struct soft_qp *qp) __attribute__((cold));
void soft_complete_send(struct soft_qp *qp, const struct soft_send *send, enum ibv_wc_status status);
/* Of *wc all but the request's and the queue pair's own is filled in. */
void soft_complete_recv(struct soft_qp *qp, const struct soft_recv *recv, struct ibv_wc *wc, bool solicited);
void soft_flush_sends(struct soft_qp *qp) __attribute__((cold));
void soft_flush_recvs(struct soft_qp *qp) __attribute__((cold));

static inline struct soft_srq *soft_srq_of(struct soft_qp *qp)
{
    return (struct soft_srq *)soft_ibv(qp)->srq;
}

/* Whose keys a receive's are. */
static inline struct ibv_pd *soft_receive_pd(struct soft_qp *qp)
{
    return soft_ibv(qp)->srq != NULL ? soft_ibv(qp)->srq->pd : soft_ibv(qp)->pd;
}

/* The receive that the next message goes to, or that the present one has taken; NULL: none is there. */
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

/* It is about to complete. */
static inline void soft_receive_done(struct soft_qp *qp)
{
    if (soft_srq_of(qp) == NULL)
        qp->resp.ring.tail++;
    qp->resp.held = qp->resp.receiving = false;
}

/* build.c: the calls that put a list of requests together piece by piece. 0 or an errno. */
int soft_builder_add(struct soft_qp *qp);
void soft_builder_free(struct soft_qp *qp);

#endif
