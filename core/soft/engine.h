/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h - the objects of the embedded device and how the parts of its transport engine call each other.
 *
 * Every object belongs to one context and is guarded by that context's lock, except the event counts of a
 * completion queue, which its own mutex guards as in rdma-core. All functions here are called with the lock
 * held. Nothing here allocates after an object has been created.
 *
 * A queue pair that has something to send is on the context's work list; soft_step gives each in turn a
 * bounded go. Packets are built in the context's train, which leaves when it is full or the step ends.
 */
#ifndef SOFT_ENGINE_H
#define SOFT_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/uio.h>
#include "packet.h"
#include "verbs.h"
#include "wire.h"

#define SOFT_MAX_MESSAGE (1u << 30)
#define SOFT_GRH_BYTES 40 /* before the payload of a received datagram */
#define SOFT_MAX_QP (1 << 20)
#define SOFT_MAX_WR 65536
#define SOFT_MAX_SGE 32
#define SOFT_MAX_INLINE 1024
#define SOFT_MAX_CQE (1 << 22)
#define SOFT_MAX_MR (1 << 23)
#define SOFT_MAX_READS 16 /* READs and atomics under way at once, each direction of a queue pair */

#define SOFT_WINDOW_START 64 /* packets that a requester may have under way; half after a loss */
#define SOFT_WINDOW_MIN 16
#define SOFT_WINDOW_MAX 128

struct soft_qp;
struct soft_context;

/* ---- Packets on their way out: train.c -------------------------------------------------------- */

#define SOFT_PIECES 128

/* Payload of the train that has yet to be fetched from the application's memory. */
struct soft_piece {
    uint8_t *to;
    const void *from;
    size_t length;
    unsigned packet;
};

/* The packets put together so far; one for each context. */
struct soft_train {
    uint8_t *bytes; /* SOFT_TRAIN_MAX */
    size_t length, stride;
    unsigned packets;
    bool closed;    /* by a packet shorter than the stride */
    bool gathering; /* process_vm_readv of ourselves is permitted */
    struct soft_path path;
    const struct soft_path *way; /* where path was copied from */
    struct {
        struct soft_qp *qp;
        uint64_t psn;
        bool answer;
    } owner[SOFT_TRAIN_PACKETS];
    unsigned pieces;
    struct soft_piece piece[SOFT_PIECES];
};

/* Room for a packet of `size` bytes, or NULL when an earlier packet's memory turned out to be gone: look
 * again at what there is to do. psn and answer say whose payload it is, should that happen. `way` stays as it
 * is until the train has left. */
uint8_t *soft_train_add(struct soft_qp *qp, const struct soft_path *way, size_t size, uint64_t psn,
                        bool answer);
/* Payload for the packet added last: taken now, or, since its memory is fragile, when the train leaves. */
void soft_train_payload(struct soft_context *context, uint8_t *to, const struct iovec *from, int count,
                        bool fragile);
/* Send what there is. False: some payload's memory was gone, and its queue pair has been told. */
bool soft_train_leave(struct soft_context *context);
bool soft_train_may_gather(void);

/* ---- Asynchronous events: event.c -------------------------------------------------------------- */

/* What has happened to an object and has not been fetched. Part of the object. */
struct soft_events {
    void *element;      /* the ibv_cq, ibv_qp or ibv_srq */
    uint32_t pending;   /* a bit for each enum ibv_event_type */
    uint32_t delivered; /* fetched; destroying waits until as many have been acknowledged */
    TAILQ_ENTRY(soft_events) link;
};

void soft_event_raise(struct soft_context *context, struct soft_events *events, enum ibv_event_type type);
void soft_events_forget(struct soft_context *context, struct soft_events *events);
/* Until all that were fetched have been acknowledged. Not with the context locked. */
void soft_events_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
                      const struct soft_events *events);

/* ---- Memory: mr.c, sge.c ---------------------------------------------------------------------- */

struct soft_pd {
    struct ibv_pd ibv;
    unsigned users; /* memory regions, queue pairs, shared receive queues, address handles */
};

struct soft_mr {
    struct ibv_mr ibv;
    int type;     /* 0: IBV_MR_TYPE_MR. Where rdma-core keeps it, for code that looks behind an ibv_mr, */
    int access;   /* and so is this */
    bool fragile; /* its pages may go without our knowing: a file's, or shared memory */
    uint64_t iova, shift; /* its first byte's address to the network; memory is at that address + shift */
};

/* Where an address of the network is in memory. */
static inline void *soft_mr_at(const struct soft_mr *mr, uint64_t address)
{
    return (void *)(uintptr_t)(address + mr->shift);
}

/* The region that this key names, when it covers the range and allows the access; else NULL. */
struct soft_mr *soft_mr_check(struct soft_context *context, struct ibv_pd *pd, uint32_t key, uint64_t address,
                              uint64_t length, int access);
/* Are all of them within regions that allow the access? */
bool soft_sge_check(struct soft_context *context, struct ibv_pd *pd, const struct ibv_sge *sge, int count,
                    int access);
/* The memory of bytes offset..offset+length of a list, checked: how many pieces, or -1. *fragile (unless NULL)
 * becomes true when a region among them is. */
int soft_sge_slice(struct soft_context *context, struct ibv_pd *pd, const struct ibv_sge *sge, int count,
                   uint64_t offset, uint64_t length, int access, struct iovec slice[SOFT_MAX_SGE],
                   bool *fragile);
uint64_t soft_sge_length(const struct ibv_sge *sge, int count);
void soft_scatter(const struct iovec *to, int count, const uint8_t *from);

/* ---- Address handles: ah.c -------------------------------------------------------------------- */

struct soft_ah {
    struct ibv_ah ibv;
    struct ibv_ah_attr attr;
};

/* ---- Completion: cq.c, channel.c -------------------------------------------------------------- */

struct soft_channel {
    struct ibv_comp_channel
        ibv;   /* fd: `wait`; in a context with names, whose programs know nothing of us, `event` */
    int event; /* eventfd */
    int wait;  /* an epoll of `event` and all that soft_watch was given */
    bool raised;
    unsigned outside; /* events in a row that were there when soft_get_cq_event was called */
    TAILQ_HEAD(, soft_cq) pending;
    LIST_ENTRY(soft_channel) link;
};

enum soft_arm { SOFT_UNARMED, SOFT_ARM_SOLICITED, SOFT_ARM_ANY };

struct soft_cq {
    struct ibv_cq_ex ibv; /* as large as rdma-core's own, of which an ibv_cq is the beginning */
    struct ibv_wc *ring;  /* cqe entries */
    unsigned head, count; /* the oldest; how many */
    bool overrun;
    enum soft_arm armed;
    bool awaited;          /* armed, by somebody who will sleep where he can't see packets */
    unsigned events;       /* on the channel's list, not yet fetched */
    uint32_t delivered;    /* fetched; destroying waits until as many have been acknowledged */
    unsigned users;        /* queue pairs, once for each direction */
    struct ibv_wc current; /* the one that ibv_start_poll or ibv_next_poll took */
    struct soft_events async;
    TAILQ_ENTRY(soft_cq) link;
};

/* False: it was full, and is now broken. */
bool soft_cq_add(struct soft_cq *cq, const struct ibv_wc *wc, bool solicited);
void soft_channel_notify(struct soft_channel *channel, struct soft_cq *cq);
void soft_channel_forget(struct soft_channel *channel, struct soft_cq *cq);
/* Does whoever waits for events here sleep on the descriptor, rather than in soft_get_cq_event? */
bool soft_channel_sleeps_outside(const struct soft_channel *channel);
/* Make the descriptor readable exactly while there are events. */
void soft_channel_settle(struct soft_channel *channel);
int soft_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- Work requests ---------------------------------------------------------------------------- */

struct soft_send {
    uint64_t wr_id;
    uint64_t psn;     /* the first */
    uint32_t packets; /* PSNs */
    uint32_t length;
    enum ibv_wr_opcode opcode;
    enum ibv_wc_status status; /* why it can't be carried out */
    uint32_t rkey;
    uint32_t imm; /* as on the wire */
    uint64_t va;
    uint64_t swap_add, compare;
    uint8_t base; /* opcode on the wire, of a first packet */
    bool signaled, fence, solicited, with_imm, is_inline;
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
};

/* The oldest receive, copied into *taken. False: there is none. */
bool soft_srq_take(struct soft_srq *srq, struct soft_recv *taken);
int soft_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* All of the list or none of it; the errno of the first that is refused. */
int soft_post_list(struct ibv_qp *qp, struct ibv_send_wr *list);
int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- Queue pairs ------------------------------------------------------------------------------ */

/* The sending half. PSNs una..next are out; next..end are posted and not yet sent (again). */
struct soft_requester {
    struct soft_ring ring;
    uint32_t index;                    /* the work request that next is in */
    uint64_t una;                      /* the oldest that is not acknowledged */
    uint64_t next;                     /* the next to send */
    uint64_t high;                     /* behind the highest ever sent */
    uint64_t end;                      /* behind all that is posted */
    uint64_t asked;                    /* behind the last packet that asked for an acknowledgement */
    uint64_t gap;                      /* una, when what is missing there has been asked for once */
    uint64_t read_end[SOFT_MAX_READS]; /* READ requests out: PSN behind each, oldest first */
    unsigned reads;
    uint32_t window, grown;        /* packets; PSNs acknowledged since it grew */
    unsigned retries, rnr_retries; /* used up since the last progress */
    bool rnr_wait;
};

/* A READ or atomic that the responder remembers, in case it is asked again. */
struct soft_resource {
    uint64_t psn, cursor, end; /* first; next to answer; behind the last to answer. Done: cursor == end */
    uint64_t start;            /* where answering began (a repeated request may begin inside) */
    uint64_t va;
    uint64_t original; /* an atomic's result */
    uint32_t rkey, length, packets;
    uint32_t msn;
    bool atomic, again;
};

enum soft_answer { SOFT_ANSWER_NONE, SOFT_ANSWER_ACK, SOFT_ANSWER_NAK };

/* The receiving half. */
struct soft_responder {
    struct soft_ring ring;
    uint64_t acked;            /* behind the last PSN that was acknowledged */
    uint64_t expected, missed; /* next PSN; behind the highest that came too early and was dropped */
    uint32_t msn;
    bool nak_sent; /* for the gap at expected */
    enum soft_answer answer;
    uint8_t syndrome; /* of the NAK */
    uint64_t nak_psn; /* of a NAK that is not about a gap */
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
    uint8_t transport; /* SOFT_RC, _UC or _UD */
    bool signal_all;
    struct ibv_qp_attr attr;
    bool path_given, path_known; /* by soft_set_path; by anyone */
    struct soft_path path;
    uint32_t mtu; /* bytes */

    struct soft_requester req;
    struct soft_responder resp;

    struct soft_events events;
    uint64_t deadline; /* of the ACK or RNR timer, or SOFT_NEVER */
    size_t heap_at;    /* 1-based place in the context's heap, 0: not there */
    bool starting;     /* on the context's list of that */
    struct soft_qp *starting_next;
    bool working; /* on the work list */
    TAILQ_ENTRY(soft_qp) work;
    LIST_ENTRY(soft_qp) link, bucket;
};

static inline struct soft_qp *soft_qp_of(struct ibv_qp *qp)
{
    return (struct soft_qp *)qp;
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

/* May it have requests under way? */
static inline bool soft_sends(const struct soft_qp *qp)
{
    return soft_state(qp) == IBV_QPS_RTS || soft_state(qp) == IBV_QPS_SQD;
}

/* To the error state: all work completes, flushed. */
void soft_qp_fail(struct soft_qp *qp);
/* A request has failed: to the error state, or where there is no connection to lose only the send queue. */
void soft_send_queue_fail(struct soft_qp *qp);
void soft_complete_send(struct soft_qp *qp, const struct soft_send *send, enum ibv_wc_status status);
void soft_complete_recv(struct soft_qp *qp, const struct soft_recv *recv, const struct ibv_wc *wc,
                        bool solicited);
void soft_flush_sends(struct soft_qp *qp);
void soft_flush_recvs(struct soft_qp *qp);

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

/* ---- The engine ------------------------------------------------------------------------------- */

/* requester.c: send up to a train of requests; is there more that could go? */
bool soft_requester_go(struct soft_qp *qp);
bool soft_requester_ready(const struct soft_qp *qp);
bool soft_requester_drained(const struct soft_qp *qp); /* nothing of what has begun is under way */
void soft_requester_drain(struct soft_qp *qp);         /* tell, if it is and somebody asked */
void soft_requester_back(struct soft_qp *qp);          /* to the oldest unacknowledged packet */
void soft_requester_lost(struct soft_qp *qp);          /* and slower: a packet was lost */
void soft_requester_fault(struct soft_qp *qp, uint64_t psn, enum ibv_wc_status status);
void soft_request_done(struct soft_qp *qp); /* the oldest one */
/* Which memory these bytes of a request's payload are. -1: its key or bounds are wrong. */
int soft_send_slice(const struct soft_qp *qp, struct soft_send *send, uint64_t offset, uint32_t length,
                    struct iovec slice[SOFT_MAX_SGE], bool *fragile);
static inline bool soft_send_answered(const struct soft_send *send) /* by data, not by an ACK */
{
    return send->base == SOFT_READ_REQUEST || send->base == SOFT_CMP_SWAP || send->base == SOFT_FETCH_ADD;
}

/* completer.c */
void soft_completer_input(struct soft_qp *qp, const struct soft_packet *packet);
void soft_completer_overflow(struct soft_qp *qp);

/* responder.c: requests; answer.c: what goes back */
void soft_responder_input(struct soft_qp *qp, const struct soft_packet *packet);
void soft_responder_execute(struct soft_qp *qp, const struct soft_packet *packet);
void soft_responder_fail(struct soft_qp *qp, uint64_t psn, uint8_t syndrome, enum ibv_wc_status status);
bool soft_answer_go(struct soft_qp *qp);
bool soft_answer_can_wait(const struct soft_qp *qp);
void soft_answer_nak(struct soft_qp *qp, uint64_t psn, uint8_t syndrome);
void soft_answer_ack(struct soft_qp *qp);
void soft_answer_overflow(struct soft_qp *qp);
bool soft_resource_add(struct soft_qp *qp, const struct soft_packet *packet);
void soft_resource_drop(struct soft_qp *qp, uint64_t psn);
struct soft_resource *soft_resource_find(struct soft_qp *qp, uint64_t psn, const struct soft_packet *packet);
void soft_resource_answer(struct soft_qp *qp, struct soft_resource *resource, uint64_t psn, uint32_t packets);

/* unreliable.c and datagram.c: receiving without acknowledging */
void soft_uc_input(struct soft_qp *qp, const struct soft_packet *packet);
void soft_uc_abandon(struct soft_qp *qp); /* the message that is coming in */
void soft_refuse_message(struct soft_qp *qp, enum ibv_wc_status status);
void soft_ud_input(struct soft_qp *qp, const struct soft_packet *packet, const struct soft_path *path);
bool soft_ud_put(struct soft_qp *qp, struct soft_send *send);

/* timer.c */
void soft_timer_set(struct soft_qp *qp, uint64_t deadline);
/* Wait for an ACK from when the packets of this step have left, which soft_timer_started is told. */
void soft_timer_start(struct soft_qp *qp);
void soft_timer_started(struct soft_context *context);
bool soft_timer_reserve(struct soft_context *context, size_t qps);
void soft_timer_forget(struct soft_qp *qp);
uint64_t soft_timer_next(struct soft_context *context);

/* step.c */
void soft_work(struct soft_qp *qp); /* it may have something to send */
void soft_idle(struct soft_qp *qp); /* it is going away */
void soft_step(struct soft_context *context);
/* As soft_progress; but ACKs of a few packets may wait if the application comes back soon: it has been given
 * something, will very likely answer, and then both go together. With soft_settle they wait no longer. */
void soft_progress_patiently(struct soft_context *context);
void soft_settle(struct soft_context *context);
uint64_t soft_now(struct soft_context *context);

/* table.c */
struct soft_qp *soft_qp_find(struct soft_context *context, uint32_t qpn);
bool soft_qp_enter(struct soft_context *context, struct soft_qp *qp);
void soft_qp_leave(struct soft_context *context, struct soft_qp *qp);

/* path.c */
void soft_path_copy(struct soft_path *to, const struct soft_path *from);
bool soft_path_matches(const struct soft_path *own, const struct soft_path *came);
/* The way to queue pair qpn (of a connection, or of a datagram). False: the address handle leads nowhere. */
bool soft_path_from_ah(const struct soft_context *context, struct soft_path *path, const struct ibv_ah_attr *ah,
                       uint32_t qpn);

/* ---- The context ------------------------------------------------------------------------------ */

LIST_HEAD(soft_qp_list, soft_qp);
TAILQ_HEAD(soft_work_list, soft_qp);

struct soft_context {
    pthread_mutex_t lock;
    struct soft_wire *wire;
    struct soft_clock *clock;
    bool opened;  /* the wire's open succeeded */
    uint64_t now; /* of the clock, while now_known */
    bool now_known;

    struct soft_train train;
    struct soft_work_list work;
    unsigned vain_polls; /* in a row: nothing had completed */
    bool patient;        /* an ACK may wait for what the application is about to send */

    struct soft_qp_list qps;
    struct soft_qp_list *buckets; /* by queue pair number */
    size_t qp_count, bucket_count;
    uint32_t first_qpn, last_qpn, next_qpn;

    struct soft_timer {
        uint64_t at; /* not later than the queue pair's deadline */
        struct soft_qp *qp;
    } * heap; /* a binary heap by `at` */
    size_t heap_count, heap_room;
    struct soft_qp *starting; /* whose timers start when this step's packets have left */

    struct soft_mr **mrs; /* by index of the key */
    uint32_t *mr_next;    /* free indices: the next free one */
    uint8_t *mr_generation;
    uint32_t mr_room, mr_free_first, mr_free_last;

    atomic_uint awaited; /* completion queues that are */
    LIST_HEAD(, soft_channel) channels;
    struct soft_channel *inside; /* whose events the thread that holds the lock is about to fetch */
    int *watched;
    int watched_count;
    TAILQ_HEAD(, soft_events) events; /* of all objects that have some */
    bool events_raised;               /* async_fd is readable */
    unsigned objects;                 /* of all kinds: a context with any can't be closed */

    uint64_t guid, node_guid; /* of the context itself; what it says is the device's */
    struct soft_names names;
    struct soft_counters counters;
    void *refusal;              /* what stands in for rdma-core's private part */
    struct verbs_context verbs; /* last: grows at its front */
};

static inline struct soft_context *soft_context_of(struct ibv_context *context)
{
    return (struct soft_context *)((char *)context - offsetof(struct soft_context, verbs.context));
}

#endif
