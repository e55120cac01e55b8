/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn.h - a connection: one queue pair and both directions of EXS's protocol on it (protocol.h).
 *
 * tx.c sends, late.c copies what waited for that, rx.c receives, place.c says where to, control.c holds credits
 * and control messages, probe.c asks whether the peer lives, onesided.c reads and writes what the peer
 * exported, export.c lets the peer do so, conn.c makes and frees, life.c says what may be done when, work.c
 * posts and harvests. All of it is guarded by the lock of the socket's home queue.
 */
#ifndef XS_CONN_H
#define XS_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include "device.h"
#include "domain.h"
#include "handle.h"
#include "op.h"
#include "protocol.h"

#define RQ_DEPTH 64             /* receives posted: credits given to the peer; at most, see depth */
#define RECEIVES_AT_ONCE 8      /* posted by one call; at most, and an eighth of the depth */
#define SQ_DEPTH 64             /* work requests outstanding; at most */
#define DEPTH_MIN 16            /* of either: with less there is no room beside what is kept */
#define SQ_KEPT_BY_DATA 8       /* of these, kept free for control messages */
#define ADVERTS_MAX 32          /* advertisements outstanding, each way */
#define SLOT_SIZE 64            /* bytes, of a control message's place */
#define HIDDEN_SIZE (256 << 10) /* bytes, of the hidden circular buffer, where nobody says; these are */
#define HIDDEN_MIN (4 << 10)    /* the least and the most, powers of 2 */
#define HIDDEN_MAX (64 << 20)
#define BOUNCES_OWN 4  /* bounce buffers that a connection has from the first */
#define ACK_TIMEOUT 17 /* the device's code of 0.54 s: 4.096 us * 2^17 */
#define RETRY_COUNT 6  /* times it sends again, before the peer is gone; 7 is for ever to rxe */
#define DIRECT_MIN                                                                                             \
    4096 /* bytes: a STREAM receive shorter than this is not advertised; a copy is cheaper                     \
          * than an advertisement */

struct nic;
struct cq;
struct sock;
struct window;

/* The life of a connection (life.c), which only goes forward. */
enum conn_state {
    CONN_OPENING, /* not established: receives are posted, nothing may be sent */
    CONN_OPEN,
    CONN_BROKEN, /* or the peer left: nothing more is sent; what had arrived is still harvested and delivered */
    CONN_DRAINED /* the device is done with every buffer: what nothing can serve any more has failed */
};
/* And of its two halves. */
enum write_half {
    WRITE_OPEN,
    WRITE_SHUT,     /* no more sends are taken; FIN goes behind those that there are */
    WRITE_FIN_SENT, /* to the device */
    WRITE_FIN_ACKED /* the peer has all of it */
};
enum read_half {
    READ_OPEN,
    READ_SHUT, /* we want no more */
    READ_ENDED /* the peer's FIN has come: no more will */
};

struct advert {          /* of the peer: where we may write */
    uint64_t addr, left; /* bytes */
    uint32_t rkey;
    bool waitall;
};

/* The first four are messages, of which each takes a credit. */
enum posted_kind {
    POSTED_CONTROL,
    POSTED_DATA,
    POSTED_SILENT, /* data whose operation is over: its bytes were copied, and nobody is told of it */
    POSTED_FIN,
    POSTED_PART, /* of data, whose message comes behind it */
    POSTED_ONESIDED,
    POSTED_PROBE
};

struct posted { /* a work request that has not completed */
    enum posted_kind kind;
    bool signaled; /* it has a completion of its own */
    struct op *op;
    struct window *window; /* the piece of a file that it sends */
    uint32_t bytes;
    uint32_t told; /* bytes that the peer knows of when it is done: the whole message, or 0 before its last
                      request */
};

struct export; /* memory that the peer may use (export.c) */

#define DUE_RECALL 1   /* forget our advertisements */
#define DUE_RECALLED 2 /* the peer's were forgotten */
#define DUE_END 4      /* the transfer that has begun has ended, unless it goes on after all */

struct conn {
    struct sock *sock;
    const struct device *device;
    struct rdma_cm_id *id;
    struct nic *nic;
    struct cq *cq;
    struct ibv_qp *qp;
    LIST_ENTRY(conn) touched; /* had a completion in this round (nic.c) */
    bool is_touched;

    struct domain domain;                /* where all that its device uses is registered */
    uint8_t *memory;                     /* of its own (conn.c); it begins with RQ_DEPTH receive slots */
    uint8_t *send_slots;                 /* SQ_DEPTH of them, in `memory` */
    uint8_t *hidden;                     /* the hidden buffer, at the end of `memory` */
    uint64_t hidden_iova;                /* by what address the peer knows its first byte */
    uint64_t hidden_size;                /* its bytes, a power of 2 */
    uint64_t hidden_mask;                /* hidden_size - 1 */
    uint64_t ack_due;                    /* bytes copied out of it, but not told, that make an ACK due */
    struct ibv_mr *local_mr, *hidden_mr; /* `memory` up to the hidden buffer, and that */
    struct bounce bounces[BOUNCES_OWN];  /* in `memory`, too */
    uint32_t max_inline;
    uint32_t depth; /* of either queue: RQ_DEPTH and SQ_DEPTH, or what the device has; a power of 2 */
    bool immediate; /* data goes by WRITE WITH IMMEDIATE: both ends have it */

    enum conn_state state;
    enum write_half writing;
    enum read_half reading;
    bool noted;         /* opening: the device was told that the peer has begun to send */
    bool end_told;      /* that the peer's FIN has come */
    bool end_arrived;   /* the peer has said that of ours */
    bool spoilt;        /* this end has broken it, so it is no leaving of the peer's */
    int error;          /* why it is broken, from CONN_BROKEN on; 0 before */
    uint32_t received;  /* posted receives not yet completed */
    uint32_t next_slot; /* the receive slot that completes next */
    void *handle;       /* the name of the connection in work requests: its completions may outlive it */

    /* credits */
    uint32_t credits; /* messages that we may send */
    uint32_t
        emptied;   /* receives that have completed and are not yet posted anew, which is done a few at once */
    uint32_t owed; /* receives posted anew that the peer was not told of */

    /* work requests outstanding */
    struct posted posted[SQ_DEPTH];
    uint32_t sq_head, sq_tail; /* counts */
    uint32_t sq_signaled;      /* as the tail was behind the last that has a completion of its own */
    uint32_t silence; /* times in a row that it was thought of, and nothing came of what is under way */
    uint32_t life;    /* signs of life that there were when the peer was last thought of (probe.c) */

    /* sending */
    struct op_list sends; /* not completed, in order */
    struct op *sending;   /* the first of them that is not all posted, or NULL */
    struct advert adverts[ADVERTS_MAX];
    uint32_t advert_head, advert_count;
    uint64_t torn_at; /* while the stream is torn (ending.h): the number of the first send that was started since */
    uint64_t queued;  /* bytes of sends, up to the end of the last; where they are bounded (bound.c) */
    uint32_t tx_phase;
    uint64_t tx_position; /* bytes of the stream sent */
    struct hello peer;
    uint64_t hidden_sent,
        hidden_acked;       /* bytes ever written to the peer's hidden buffer, and ever copied out there */
    uint64_t advert_for;    /* the number of the last long send that waited for an advertisement, */
    uint64_t advert_due;    /* ns, when a long send waits no longer for an advertisement; 0: none does */
    uint32_t doubt, doubts; /* advertisements until one may wait; that many, when it was last in vain */
    bool advert_begun;      /* the first advertisement holds the beginning of a transfer */
    bool at_once;           /* what is sent now waits for no advertisement: it may not wait (dontwait.c) */
    uint8_t due;            /* what is to be said once, when there is a credit for it: DUE_ above */

    /* one-sided */
    struct op_list onesided;                /* not completed, in order */
    struct op *onesided_next;               /* the first of them that is not all posted, or NULL */
    uint64_t started;                       /* sends and one-sided operations, ever */
    uint8_t max_reads_out, max_reads_in;    /* RDMA READs under way at once: ours, the peer's */
    uint32_t reads;                         /* ours under way */
    LIST_HEAD(export_list, export) exports; /* what the peer may use */

    /* receiving */
    struct op_list recvs;
    uint64_t receives;    /* started, ever */
    uint32_t adverts_max; /* that the peer keeps; 0 while they are recalled */
    uint32_t advertised;  /* the first so many of recvs */
    uint32_t places;      /* bits: those of the hidden buffer that receives of a SEQPACKET have */
    uint32_t rx_phase;
    uint64_t rx_position;                        /* bytes of the stream that arrived */
    uint64_t hidden_in, hidden_out, hidden_told; /* bytes ever: arrived, copied out, acknowledged */
    bool recalling;      /* the peer is asked to forget our advertisements, and has not answered */
    bool filling;        /* the first receive holds the beginning of a transfer */
    bool receives_ended; /* a receive was ended by the end: after it no other may have bytes */

    uint64_t bytes_read, bytes_written; /* by one-sided operations, ever */
    uint64_t stale_adverts;             /* dropped, since they crossed with indirect data */
};

LIST_HEAD(conn_list, conn);

/* ---- conn.c ------------------------------------------------------------------------------ */

/* Queue pair, buffers and posted receives for the socket's id. NULL and errno. */
struct conn *xs_conn_new(struct sock *sock, struct rdma_cm_id *id, const struct device *device);
/* Of the hidden buffer of a connection that this socket gets, bytes. */
uint32_t xs_hidden_size(const struct sock *sock);
/* Does TCP notice that the peer's host is gone? Where not, probe.c has to. */
static inline bool conn_is_by_tcp(const struct conn *conn)
{
    return conn->device->is_by_tcp != NULL && conn->device->is_by_tcp(conn->id);
}
void xs_conn_free(struct conn *conn); /* the queue pair is drained, or was never connected */
/* What to connect or accept with; its private data is packed into hello. */
struct rdma_conn_param xs_conn_param(const struct conn *conn, uint8_t hello[HELLO_SIZE]);
/* What the one who connects asked for, for the answer: RDMA READs that it wants to have under way, and that it
 * serves. */
void xs_conn_reads(struct conn *conn, uint8_t wanted, uint8_t served);
/* How many advertisements the peer keeps. */
static inline uint32_t conn_adverts_max(const struct conn *conn)
{
    return conn->peer.adverts < ADVERTS_MAX ? conn->peer.adverts : ADVERTS_MAX;
}
/* What the peer's hello said: credits and its hidden buffer. */
void xs_conn_peer(struct conn *conn, const struct hello *peer);
/* The connection of a work request; NULL when it is gone. */
struct conn *xs_conn_of(uint64_t wr_id);
/* Of a work request's id, besides the connection's name: a receive; or which of `posted` it is. */
#define RECEIVE_BIT (UINT64_C(1) << 63)
#define ENTRY_SHIFT HANDLE_BITS
static inline uint64_t conn_name(uint64_t wr_id)
{
    return wr_id & ~(RECEIVE_BIT | (uint64_t)(SQ_DEPTH - 1) << ENTRY_SHIFT);
}
void xs_conn_reset(void); /* forget all, in a forked child */
/* The receives of so many slots from this one on, RECEIVES_AT_ONCE at most. False: the device refused them. */
bool xs_conn_post_receives(struct conn *conn, uint32_t slot, uint32_t count);

/* ---- life.c ------------------------------------------------------------------------------ */

/* It is established, unless it broke before. */
void xs_conn_opened(struct conn *conn);
/* While it is opening something of the peer's may have come. */
void xs_conn_hear(struct conn *conn);
/* Break it: the queue pair goes to error, and operations complete with this errno when it is drained. */
void xs_conn_fail(struct conn *conn, int error) __attribute__((cold));
/* Break it with ECONNRESET, for a reason of this end's own. */
void xs_conn_spoil(struct conn *conn) __attribute__((cold));
/* After completions: drained, once the device holds nothing of a broken one any more. */
void xs_conn_drain(struct conn *conn);
static inline bool conn_broken(const struct conn *conn)
{
    return conn->state >= CONN_BROKEN;
}
/* What an operation gets when its connection broke. */
int xs_conn_errno(const struct conn *conn);
/* The peer has ended its half in order, and what broke after that was its leaving. */
static inline bool xs_conn_ended_in_order(const struct conn *conn)
{
    return conn->reading == READ_ENDED && (conn->error == 0 || conn->error == ECONNRESET) && !conn->spoilt;
}
/* Not all has ended that was to reach the peer. The end of the stream is nothing that was sent, and where it is out,
 * all that stands before it is. */
bool xs_conn_is_sending(const struct conn *conn, bool end_is_out);
/* Something can be received without the peer: bytes of the hidden buffer, or the end. */
bool xs_conn_is_served(const struct conn *conn);
/* May an operation of this kind be started? 0, or the errno of why not. */
int xs_conn_may_send(const struct conn *conn);
int xs_conn_may_receive(const struct conn *conn);

/* ---- work.c ------------------------------------------------------------------------------ */

void xs_conn_completion(struct conn *conn, const struct ibv_wc *wc);
/* The device is gone: break it, and have all that is posted come back. Then it is drained when it is run. */
void xs_conn_flush(struct conn *conn) __attribute__((cold));
/* The device says no more of what was sent last. Who was to have it has it, if his credits say so. */
void xs_conn_end_sends(struct conn *conn) __attribute__((cold));
/* Do all that can be done now: control messages, data. After completions and connection events. */
void xs_conn_run(struct conn *conn);
/* No more of it than an operation can have made possible that was started: one that sends, reads or writes; one
 * that receives. */
void xs_conn_run_sends(struct conn *conn);
void xs_conn_run_recvs(struct conn *conn);
/* Post the receives anew that were emptied: they are owed. */
void xs_conn_post_anew(struct conn *conn);
/* Will so many bytes of this operation, or of none, be copied when they are posted? */
bool xs_conn_may_inline(const struct conn *conn, const struct op *op, uint32_t bytes);
/* Give one work request to the device; false: the connection was broken by it. */
bool xs_conn_post(struct conn *conn, struct ibv_send_wr *wr, const struct posted *posted);
/* The same of several, in one call. */
bool xs_conn_post_list(struct conn *conn, struct ibv_send_wr *wr, const struct posted *posted, int count);
/* Does the device owe a completion? Only then anybody may wait for one. */
static inline bool conn_awaits(const struct conn *conn)
{
    return (int32_t)(conn->sq_signaled - conn->sq_head) > 0;
}
static inline uint32_t conn_sq_free(const struct conn *conn)
{
    return conn->depth - (conn->sq_tail - conn->sq_head);
}

/* ---- control.c --------------------------------------------------------------------------- */

/* The peer has posted so many receives anew; false: more than it can have, which breaks the connection. */
bool xs_credits_received(struct conn *conn, uint32_t credits);
/* Send a control message with all credits owed; false when there is no credit or no room now. */
bool xs_control_send(struct conn *conn, struct control *control, uint32_t kept, enum posted_kind kind);
/* The work request of that, whose credit and room are there; false: the connection was broken by it. */
bool xs_control_post(struct conn *conn, struct control *control, const struct posted *posted);
/* Credits and acknowledgements that are due, FIN behind the last data. */
void xs_control_run(struct conn *conn);
void xs_control_received(struct conn *conn, const uint8_t *message, size_t length);
/* The peer broke the protocol by this: believe nothing more of it. */
void xs_violation(struct conn *conn, const char *what) __attribute__((cold));

/* ---- probe.c ----------------------------------------------------------------------------- */

/* See to it that the peer is asked, when it is idle, whether it is still there. */
void xs_probe_start(struct conn *conn);
/* The time has come to think of the peer. */
void xs_probe(struct conn *conn);

/* ---- transfer.c ---------------------------------------------------------------------------- */

/* Make the operation's buffer usable for the device: the user's region, a bounce buffer, or a registration for
 * this one. access: 0 to read what is there now, IBV_ACCESS_LOCAL_WRITE to fill it. -1 and errno. */
int xs_make_usable(struct conn *conn, struct op *op, exs_mhandle_t mhandle, int access);
/* Where the bytes of a send or a one-sided operation are then, and the key to them; 0 to none. */
static inline uint8_t *op_memory(const struct op *op, uint32_t *lkey)
{
    const struct ibv_mr *mr = op->bounce != NULL ? op->bounce->mr : op->one_off != NULL ? op->one_off : op->mr;

    *lkey = mr != NULL ? mr->lkey : 0;
    return op->bounce != NULL ? op->bounce->data : op->buffer;
}
/* An operation that could not be started: as if it had never been. errno stays. */
void xs_undo(struct op *op, struct waiter *waiter);

/* ---- tx.c -------------------------------------------------------------------------------- */

void xs_tx_run(struct conn *conn);
void xs_tx_advert(struct conn *conn, const struct control *control);
void xs_tx_look(struct conn *conn); /* the socket's deadline passed: who waits for an advertisement may go on */
/* Forget the advertisements, but the one that holds the beginning of a transfer. */
void xs_tx_recall(struct conn *conn);
void xs_tx_completed(struct conn *conn, const struct posted *posted);
/* Operations complete in order: those in front that are all done. */
void xs_tx_finish_done(struct conn *conn);
/* The transfer that the first advertisement holds the beginning of goes on with no operation: who receives it
 * waits for its end. Tell him, if that can be done now. */
void xs_tx_end(struct conn *conn);
/* Complete the first operation, which is op; the device is done with it. */
void xs_tx_finish(struct conn *conn, struct op *op, int error);

/* The device is done with the operation's buffer: give back what was got for it. */
void xs_tx_release(struct conn *conn, struct op *op);

/* ---- dontwait.c ---------------------------------------------------------------------------- */

/* Before the next two: harvest what has come. */
void xs_dontwait_look(const struct sock *sock);
/* Would a receive, a send, that is started now, have something to do at once? 0, or -1 and EAGAIN. */
int xs_dontwait_recv(const struct conn *conn);
int xs_dontwait_send(const struct conn *conn);
/* One has been started: end it with what could be done. */
void xs_dontwait_sent(struct conn *conn);

/* ---- bound.c ------------------------------------------------------------------------------- */

/* Count the bytes that are pending anew. */
void xs_sends_count(struct conn *conn);

/* ---- late.c ------------------------------------------------------------------------------- */

/* A short send whose bytes nobody registered, or of pieces (message; else NULL), waits behind others: to be
 * copied when its turn comes. -1 and errno: EACCES, some of it can't be read; or as xs_vector_pieces has them.
 */
int xs_late_begin(struct op *op, const exs_msghdr_t *message);
/* Its turn has come. 1: copied; 0: not before something has completed; -1: op->error says why not. */
int xs_late_copy(struct conn *conn, struct op *op);
/* The operation's pieces are not used any more; of one without, nothing. errno stays. */
void xs_late_end(struct op *op);

/* ---- onesided.c --------------------------------------------------------------------------- */

bool xs_onesided_is_read(const struct op *op);
/* Post the next work request of the first operation that is not all posted; false: not now. */
bool xs_onesided_post(struct conn *conn);
void xs_onesided_completed(struct conn *conn, const struct posted *posted, enum ibv_wc_status status);
/* Complete those in front that are all done; with an errno all of them, which the device is done with. */
void xs_onesided_finish(struct conn *conn, int error);

/* ---- export.c ----------------------------------------------------------------------------- */

void xs_export_end_all(struct conn *conn);

/* ---- stats.c ------------------------------------------------------------------------------ */

/* What the connection has counted. */
void xs_stats_add(exs_stats_t *stats, const struct conn *conn);

/* ---- rx.c -------------------------------------------------------------------------------- */

void xs_rx_run(struct conn *conn);
/* A close waits for sends: take what comes when all receives are done, and throw it away. */
void xs_rx_discard(struct conn *conn);
/* Have the peer forget our advertisements. */
void xs_rx_recall(struct conn *conn);
/* It has. */
void xs_rx_recalled(struct conn *conn);
/* Have a receive complete with this errno as soon as the peer can't be writing into it any more, if nothing
 * completes it before: when xs_rx_end_stopped is called, or later. */
void xs_rx_stop(struct conn *conn, struct op *op, int error);
void xs_rx_end_stopped(struct conn *conn);
void xs_rx_data(struct conn *conn, uint32_t imm);

#endif
