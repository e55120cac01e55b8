/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.h - a queue pair: its requester (sends requests), its responder (executes the peer's requests), and functions that
 * the whole engine uses. The context's lock guards a queue pair, and is held when the functions here are called. */
#ifndef SOFT_QP_H
#define SOFT_QP_H

#include <sys/queue.h>
#include "event.h"
#include "mr.h"
#include "recovery.h"
#include "request.h"
#include "wire.h"

#define SOFT_MAX_QP (1 << 20) /* maximum queue pairs of a context */
#define SOFT_MAX_READS 16     /* maximum READs and atomics outstanding in each direction of a queue pair */

struct soft_builder;
struct soft_context;

/* The requester. PSNs have 64 bits (packet.h). The packets from una to next - 1 are sent and not acknowledged; those
 * from next to end - 1 are posted, and must be sent for the first time or again. */
struct soft_requester {
    struct soft_ring ring; /* the send queue */
    uint32_t index;        /* ring index of the work request that contains PSN next */
    uint64_t una;          /* the oldest PSN that is not acknowledged */
    uint64_t next;         /* the next PSN to send */
    uint64_t high;         /* one past the highest PSN that was sent */
    uint64_t end;          /* one past the last PSN that was posted */
    uint64_t asked;        /* one past the last packet that asked for an acknowledgement */
    uint64_t gap;          /* the value of una when a missing response was last requested */
    /* Outstanding READs and atomics, oldest first: one past the last PSN of each, and their number. */
    uint64_t read_end[SOFT_MAX_READS];
    unsigned reads;
    struct soft_recovery recovery; /* loss recovery */
    uint64_t expiry;               /* when the ACK timer expires, ns, or NEVER_NS; a probe may be due earlier */
    unsigned retries, rnr_retries; /* retries used since the last progress */
    bool rnr_wait;                 /* a pause, after an RNR NAK or for the link's pace() */
    uint64_t retransmitted;        /* packets that were sent again, in total */
};

/* A READ or atomic that the responder remembers, so that it can repeat the response. */
struct soft_resource {
    /* PSN of its first response; of the next response to send; one past the last response to send. All responses are
     * sent if cursor == end. */
    uint64_t psn, cursor, end;
    /* PSN where the current series of responses starts: a repeated request may be a part of the READ. */
    uint64_t start;
    uint64_t va;       /* address in the request */
    uint64_t original; /* result of an atomic */
    uint32_t rkey, length, packets;
    uint32_t msn;      /* message sequence number of the response */
    struct ibv_pd *pd; /* protection domain of the request: with XRC that of the shared receive queue */
    /* atomic: false means a READ. again: the responses are sent again, for a repeated request. */
    bool atomic, again;
};

/* What the responder must send besides responses. */
enum soft_answer { SOFT_ANSWER_NONE, SOFT_ANSWER_ACK, SOFT_ANSWER_NAK };

/* The responder. */
struct soft_responder {
    struct soft_ring ring; /* the receive queue */
    uint64_t acked;        /* one past the last PSN that was acknowledged */
    /* The next PSN; one past the highest PSN that arrived too early and was dropped. */
    uint64_t expected, missed;
    uint64_t data;          /* one past the last SEND or WRITE packet, to which an ACK can refer */
    uint32_t msn, data_msn; /* message sequence numbers: the current one, and the one at `data` */
    bool nak_sent;          /* a NAK for the gap at `expected` was sent */
    uint64_t ahead;         /* PSN of the last packet that arrived too early since that NAK */
    enum soft_answer answer;
    uint8_t syndrome; /* of the pending NAK */
    uint64_t nak_psn; /* PSN of the pending NAK, unless it reports a gap, at `expected` */
    unsigned asks;    /* packets whose request for an ACK the pending ACK answers */
    unsigned message; /* within a message: SOFT_OP_SEND or SOFT_OP_WRITE; else 0 */
    bool receiving;   /* this message uses the oldest receive */
    bool established; /* a packet has arrived */
    bool held;        /* *shared is a receive that was taken from the shared receive queue */
    struct soft_recv *shared;
    uint64_t offset; /* bytes of the message received so far */
    /* Address, key and bytes of the current WRITE. */
    uint64_t va;
    uint32_t rkey, length;
    /* The remembered READs and atomics: a ring buffer of max_dest_rd_atomic entries, in the order of PSNs. newest:
     * index of the newest one; active: number of those whose responses are not all sent. */
    struct soft_resource *resources;
    unsigned newest, active;
};

#define SOFT_QP_EX (1u << 1) /* rdma-core's VERBS_QP_EX, in comp_mask */

struct soft_qp {
    struct ibv_qp_ex ibv; /* as large as rdma-core's struct, which begins with an ibv_qp */
    /* rdma-core's verbs_qp has this word here. Without SOFT_QP_EX the queue pair has no ibv_wr_ functions. */
    uint32_t comp_mask;
    void *reserved[4];

    struct soft_builder *builder; /* the list that ibv_wr_start() to ibv_wr_complete() build; or NULL */
    struct soft_context *context;
    struct ibv_qp_cap cap;
    uint8_t transport; /* SOFT_RC, _UC, _UD or _XRC */
    bool reliable;     /* what it sends is acknowledged */
    uint8_t ack;       /* opcode of its acknowledgements */
    /* The XRC domain of the receiving end of an XRC connection, else NULL. The pd, srq and recv_cq of such a queue pair
     * are those of the shared receive queue that the current packet names (xrc.c). */
    struct soft_xrcd *xrcd;
    bool signal_all;       /* sq_sig_all: each request has a completion */
    bool checks_every_key; /* the responder also checks the key of a WRITE of no bytes */
    struct ibv_qp_attr attr;
    /* path_given: soft_set_path() has set the path. path_known: that or modify_qp has set it. */
    bool path_given, path_known;
    struct soft_path path;
    uint32_t mtu;  /* maximum bytes of payload in a packet */
    uint32_t turn; /* maximum packets that the queue pair sends in one turn: those of a burst */

    struct soft_requester req;
    struct soft_responder resp;

    struct soft_events events;
    uint64_t deadline; /* when the ACK timer, a probe or the end of a pause is due, ns, or NEVER_NS */
    size_t heap_at;    /* position in the context's heap of timers, counted from 1; 0: it is not there */
    bool starting;     /* on the context's list `starting` */
    struct soft_qp *starting_next;
    bool timer_pending; /* on the context's list `timer_pending` */
    LIST_ENTRY(soft_qp) later;
    bool working; /* on the context's list `work` */
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
    /* Only links with their own buffers, where a burst may be longer, have packets of more than 4096 bytes. */
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

/* True if the queue pair executes the peer's requests, even if its send queue is in the error state (SQE). */
static inline bool soft_receives(const struct soft_qp *qp)
{
    return 1u << soft_state(qp) &
           (1u << IBV_QPS_RTR | 1u << IBV_QPS_RTS | 1u << IBV_QPS_SQD | 1u << IBV_QPS_SQE);
}

/* Called when memory from which the queue pair sends becomes invalid: its link copies the bytes that it has not
 * sent. */
static inline void soft_settle(const struct soft_qp *qp)
{
    if (qp->path.link != NULL && qp->path.link->settle != NULL)
        qp->path.link->settle(qp->path.link);
}

/* True if no packet of the queue pair is lost. */
static inline bool soft_is_lossless(const struct soft_qp *qp)
{
    return qp->path.link != NULL && qp->path.link->lossless;
}

/* True if the queue pair may have outstanding requests. */
static inline bool soft_sends(const struct soft_qp *qp)
{
    return soft_state(qp) == IBV_QPS_RTS || soft_state(qp) == IBV_QPS_SQD;
}

/* Returns 0, or the errno for a call that names an invalid queue pair. */
int soft_qp_check(const struct ibv_qp *qp);
/* Enters the error state: all work completes with IBV_WC_WR_FLUSH_ERR. */
void soft_qp_fail(struct soft_qp *qp) __attribute__((cold));
/* A request has failed: the queue pair enters the error state, or, on an unreliable transport, only its send queue
 * (SQE). */
void soft_send_queue_fail(struct soft_qp *qp) __attribute__((cold));
/* Adds the completion of a request, if it has one. */
void soft_complete_send(struct soft_qp *qp, const struct soft_send *send, enum ibv_wc_status status);
/* Adds the completion of a receive. The caller has filled in *wc except wr_id and the fields of the queue pair. */
void soft_complete_recv(struct soft_qp *qp, const struct soft_recv *recv, struct ibv_wc *wc, bool solicited);
/* Complete all requests, and all receives, with IBV_WC_WR_FLUSH_ERR. */
void soft_flush_sends(struct soft_qp *qp) __attribute__((cold));
void soft_flush_recvs(struct soft_qp *qp) __attribute__((cold));

static inline struct soft_srq *soft_srq_of(struct soft_qp *qp)
{
    return (struct soft_srq *)soft_ibv(qp)->srq;
}

/* Returns the protection domain of the receives: that of the shared receive queue, if there is one. */
static inline struct ibv_pd *soft_receive_pd(struct soft_qp *qp)
{
    return soft_ibv(qp)->srq != NULL ? soft_ibv(qp)->srq->pd : soft_ibv(qp)->pd;
}

/* Returns the receive of the current message, or of the next one; NULL: none is posted. Takes a receive of a shared
 * receive queue from that queue; it then belongs to the queue pair. */
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

/* Called when the current receive is about to complete. */
static inline void soft_receive_done(struct soft_qp *qp)
{
    if (soft_srq_of(qp) == NULL)
        qp->resp.ring.tail++;
    qp->resp.held = qp->resp.receiving = false;
}

/* verbs/build.c: ibv_wr_start() to ibv_wr_complete(), which build a list of requests in several calls. */
/* Gives the queue pair these functions. 0 or an errno. */
int soft_builder_add(struct soft_qp *qp);
void soft_builder_free(struct soft_qp *qp);

#endif
