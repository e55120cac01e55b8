/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn.h - a connection: one queue pair, and EXS's protocol on it in both directions (protocol.h).
 *
 * The socket owns its connection, and the lock of the socket's home queue guards the connection. All functions here are
 * called with that lock, and are defined in:
 *
 *   conn.c           making and freeing a connection; its counters
 *   life.c           the states and what each permits; how a connection breaks and is drained
 *   work.c           posting work requests, processing completions
 *   tx.c             sending; message.c (message.h) makes work requests of a message, batch.c puts several short sends
 *                    into one, deferred_copy.c copies short sends that wait, bound.c applies the limits of SO_SNDBUF
 *                    and of the timeouts
 *   ending.c         sends that end early (ending.h)
 *   rx.c             receiving; place.c (place.h) chooses the memory
 *   ring.c           ring buffers that grow (ring.h)
 *   control.c        credits and control messages; protocol.c (protocol.h) encodes them
 *   probe.c          keepalive
 *   usable.c         registered memory for an operation's buffer
 *   onesided.c       RDMA READ and WRITE on memory that the peer has exported; export.c exports memory to the peer
 *
 * completions.c and progress.c define the functions for connections in core/queue/upcalls.h. core/sock/ defines the
 * functions that a connection calls: those in upcalls.h, and those of dontwait.c below.
 */
#ifndef XS_CONN_H
#define XS_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include "core/base/handle.h"
#include "core/device/device.h"
#include "core/memory/domain.h"
#include "core/queue/queue.h"
#include "core/queue/socket.h"
#include "ending.h"
#include "protocol.h"
#include "ring.h"

#define RQ_DEPTH 64 /* maximum number of posted receives, which are the peer's credits; see `limits.depth` */
#define RECEIVES_AT_ONCE 8 /* maximum number of receives that one call posts; it posts depth / 8 of them */
#define SQ_DEPTH 64        /* maximum number of outstanding work requests; see `limits.depth` */
#define DEPTH_MIN 16       /* minimum of both: a smaller queue would have only entries that are reserved */
#define SQ_KEPT_BY_DATA 8  /* entries of the send queue that data leaves free, for control messages */
#define ADVERTS_MAX 32     /* maximum number of outstanding advertisements in each direction */
/* Maximum number of sends that one message carries. It is lower on an adapter, where each entry of the send queue has
 * memory for the segments of all of them. */
#define GATHER_MAX 32
#define GATHER_MAX_NIC 16
#define SLOT_SIZE 64 /* bytes of the slot of a control message */
/* Bytes of the ring buffer of a new connection, unless SO_RCVBUF has set another size; minimum and maximum of that
 * size. All are powers of 2. */
#define RECV_RING_SIZE (256 << 10)
#define RECV_RING_MIN (4 << 10)
#define RECV_RING_MAX (64 << 20)
#define BOUNCES_OWN 4  /* bounce buffers that a new connection has */
#define ACK_TIMEOUT 17 /* encodes 0.54 s: 4.096 us * 2^17 */
#define RETRY_COUNT 6  /* retransmissions until the connection breaks; rxe takes 7 for infinite */
/* Maximum number of outstanding advertisements after some have crossed with indirect data, until the peer has used
 * one. */
#define ADVERTS_TRIED 4
#define ADVERTS_SKIP_MAX 64 /* maximum of adverts.skip */
/* Bytes: a shorter STREAM receive is not advertised, because a copy is cheaper than an advertisement. */
#define DIRECT_MIN 4096

struct nic;
struct cq;
struct sock;
struct window;

/* The stages of a connection (life.c), which change only in this order. */
enum conn_stage {
    CONN_OPENING, /* not established: receives are posted, sends are not permitted */
    CONN_HEARD, /* as CONN_OPENING, and the device was notified that the peer has begun to send (xs_conn_hear()) */
    CONN_OPEN,
    /* The connection failed, or the peer disconnected: nothing more is sent; data that had arrived before is still
     * processed and delivered. */
    CONN_BROKEN,
    /* The device uses no buffer any more, and operations that can't complete otherwise have failed. */
    CONN_DRAINED
};
/* The states of the two directions of a connection. */
enum write_half {
    WRITE_OPEN,
    WRITE_SHUT,         /* new sends are refused; FIN follows those that are pending */
    WRITE_FIN_SENT,     /* FIN was posted */
    WRITE_FIN_ACKED,    /* the device reports that the peer's device has received FIN */
    WRITE_FIN_CONFIRMED /* a control message of the peer says that FIN has arrived (CONTROL_HAS_END) */
};
enum read_half {
    READ_OPEN,
    READ_SHUT,     /* the application has shut down reading */
    READ_ENDED,    /* the peer's FIN has arrived, so no more data will arrive */
    READ_END_ACKED /* this end has confirmed the peer's FIN (CONTROL_HAS_END) */
};
/* How a connection ended. */
enum conn_end {
    END_NONE,    /* it is not broken */
    END_BY_PEER, /* the peer disconnected, or the network or the peer's host failed: ECONNRESET */
    END_LOCAL,   /* this end broke it, so it did not end in order */
    END_FAILED   /* it failed with another errno */
};

/* An advertisement of the peer: the part of a receive buffer that this end may still write to. */
struct advert {
    uint64_t addr, left; /* where the part begins; its bytes */
    uint32_t rkey;
    bool waitall; /* CONTROL_WAITALL */
};

/* Kinds of work requests of the send queue. The first four kinds are messages, which use a credit each. */
enum posted_kind {
    POSTED_CONTROL,
    POSTED_DATA,
    POSTED_SILENT, /* data of a send that has ended: the bytes were copied inline, and it has no event */
    POSTED_FIN,
    POSTED_PART, /* a part of a message's data; the rest of the message follows */
    POSTED_ONESIDED,
    POSTED_PROBE
};

/* A work request that has not completed. */
struct posted {
    enum posted_kind kind;
    bool signaled; /* the device reports its completion; if not, the completion of a later request implies it */
    /* Data: the number of sends after `op` that the message carries as well, each of them whole. */
    uint8_t followers;
    struct op *op;         /* the operation; NULL: a control message, or a send that has ended */
    struct window *window; /* the window of a file that it sends from (file.h); or NULL */
    uint32_t bytes;        /* bytes that the request sends */
    /* Data: the number of bytes that this request reports to the peer. The last request of a message reports all bytes
     * of the message, the others report none. */
    uint32_t told;
};

struct export; /* memory that the peer may access (export.c) */

/* Bits of tx.due: messages that must be sent when there is a credit. */
#define DUE_RECALL 1   /* RECALL: the peer must drop the advertisements of this end */
#define DUE_RECALLED 2 /* RECALLED: this end has dropped the peer's advertisements */
#define DUE_END 4 /* the end of a direct transfer that has begun, unless another send continues the transfer */
#define DUE_RING_WANTED 8 /* RING_WANTED: the peer's ring buffer is too small for the path */
#define DUE_RING 16       /* RING: the peer has asked for a larger ring buffer */

/* The parts of a connection. The lock of the socket's home guards all of them. */

/* The state of a connection (life.c). */
struct conn_state {
    enum conn_stage stage;
    enum write_half writing;
    enum read_half reading;
    enum conn_end end;
    int error; /* the errno for operations, from CONN_BROKEN on; 0 before */
};

/* Limits of the device and of the protocol; set before the connection is established. */
struct conn_limits {
    /* Entries of each queue: SQ_DEPTH (= RQ_DEPTH), or fewer if the device has fewer; a power of 2. */
    uint32_t depth;
    uint32_t max_inline; /* maximum bytes of inline data */
    uint32_t max_gather; /* maximum number of sends that one message may carry; 1: each is sent alone */
    bool immediate;      /* data is sent by WRITE WITH IMMEDIATE, because both ends have it */
};

/* The memory that the connection owns (conn.c). */
struct conn_memory {
    uint8_t *start;      /* begins with RQ_DEPTH receive slots and ends with the initial ring buffer */
    size_t size;         /* bytes */
    uint8_t *send_slots; /* SQ_DEPTH slots for control messages that are sent */
    struct ibv_mr *mr;   /* registration of the memory before the ring buffer */
    struct bounce bounces[BOUNCES_OWN];
};

/* The queue pair's receive queue. */
struct recv_queue {
    uint32_t posted;    /* posted receives that have not completed */
    uint32_t next_slot; /* the receive slot that completes next */
    /* Receives that completed and were not posted again, which is done for several at once. */
    uint32_t consumed;
};

/* Credits: the receives that each end has posted for messages of the other. */
struct credits {
    uint32_t available;  /* messages that this end may send */
    uint32_t unreturned; /* receives that were posted again and not reported to the peer */
};

/* The queue pair's send queue. */
struct send_queue {
    struct posted posted[SQ_DEPTH]; /* ring buffer: the work requests that have not completed */
    uint32_t head, tail;            /* how many work requests have completed; how many were posted */
    uint32_t signaled; /* the value of `tail` just after the last signaled work request was posted */
};

/* Keepalive (probe.c). */
struct keepalive {
    uint32_t unanswered; /* probes in a row without an answer */
    uint32_t activity;   /* number of completions at the last probe */
};

/* Sending. */
struct transmit {
    struct op_list sends; /* sends that have not completed, in order */
    struct op *current;   /* the first send that is not all posted, or NULL */
    uint64_t started;     /* number of sends and one-sided operations since the connection was made */
    /* While the stream is torn (ending.h): the number of the first send that was started since then. */
    uint64_t torn_at;
    /* Bytes of all sends that were counted since the connection was made, if they are limited (bound.c). */
    uint64_t queued;
    uint64_t position; /* bytes of the stream that were sent */
    /* Bytes since the connection was made: written to the peer's ring buffer; acknowledged as copied out of it. */
    uint64_t ring_sent, ring_acked;
    uint32_t phase; /* the phase of this direction (protocol.h) */
    /* Sends that are held (batch.c); some of them may have been posted with the completion of another request. While
     * that is not 0, the connection is in the list `held` of its queue. */
    uint32_t held;
    LIST_ENTRY(conn) held_link;
    bool nonblocking; /* the current send must not wait for an advertisement (MSG_DONTWAIT) */
    uint8_t due;      /* DUE_ */
};

/* The advertisements of the peer that this end has not used up. */
struct peer_adverts {
    struct advert list[ADVERTS_MAX]; /* ring buffer */
    uint32_t head, count;            /* index of the first one; their number */
    bool begun;                      /* the first one has been written to, and its transfer has not ended */
    /* Waiting for an advertisement (tx.c). */
    uint64_t waiter;     /* the number of the last long send that waited */
    uint64_t wait_until; /* time until which a long send waits, ns; 0: none waits */
    /* Backoff. skip: advertisements that must arrive before a long send waits again; backoff: the value of `skip` after
     * the last wait that timed out; a wait that succeeds halves it. */
    uint32_t skip, backoff;
};

/* One-sided operations. */
struct onesided {
    struct op_list ops;                  /* operations that have not completed, in order */
    struct op *current;                  /* the first operation that is not all posted, or NULL */
    uint8_t max_reads_out, max_reads_in; /* maximum number of outstanding RDMA READs of this end; of the peer */
    uint32_t reads;                      /* outstanding RDMA READs of this end */
    LIST_HEAD(export_list, export) exports; /* memory that the peer may access */
    uint64_t bytes_read, bytes_written;     /* totals since the connection was made */
};

/* Receiving. */
struct receive {
    struct op_list recvs; /* receives that have not completed, in order */
    uint64_t started;     /* number of receives since the connection was made */
    uint64_t position;    /* bytes of the stream that have arrived */
    uint32_t phase;       /* the phase of the peer's direction (protocol.h) */
    uint32_t slots;       /* bitmap: slots of the ring buffer that receives of a SEQPACKET use (place.c) */
    bool filling; /* the first receive has got a part of a direct transfer, and the next message continues it */
    bool ended;   /* a receive has completed with the end of the stream, so no later one may get bytes */
};

/* The ring buffer into which the peer writes bytes that have no advertisement. The peer knows it as struct
 * peer_ring. */
struct recv_ring {
    /* The initial ring buffer, at the end of the connection's memory, or the larger one in its place. */
    uint8_t *data;
    uint64_t size; /* bytes, a power of 2 */
    uint64_t mask; /* size - 1 */
    /* Bytes of indirect data since the connection was made: arrived, copied out, acknowledged. */
    uint64_t in, out, acked;
    /* Number of bytes that are copied out and not acknowledged, from which on an ACK is sent. */
    uint64_t ack_due;
    uint64_t iova; /* the address by which the peer knows the first byte of the initial ring buffer */
    struct ibv_mr *initial_mr; /* registration of the initial ring buffer */
    /* Registration of the larger ring buffer in its place (ring.c); NULL: there is none. */
    struct ibv_mr *grown_mr;
    struct next_ring next;
};

/* The advertisements of this end that the peer has not used up. */
struct adverts {
    uint32_t max;   /* maximum number of advertisements that the peer holds; 0 while they are recalled */
    uint32_t count; /* number of receives that are advertised, which are the first ones of rx.recvs */
    bool used;      /* the peer has used an advertisement since the last one crossed with indirect data */
    bool recalling; /* RECALL was sent, and the peer has not answered */
    /* Backoff on a long path, whose ring buffer has grown. After an advertisement has crossed with indirect data, none
     * is sent until ring.in has reached resume_at: until `skip` times the size of the ring buffer has arrived. */
    uint32_t skip;
    uint64_t resume_at;
    uint64_t stale; /* number of advertisements that were dropped because they crossed with indirect data */
};

/* A connection. */
struct conn {
    struct sock *sock;
    const struct device *device;
    struct rdma_cm_id *id;
    struct nic *nic;
    struct cq *cq;
    struct ibv_qp *qp;
    LIST_ENTRY(conn) touched; /* list of connections with new completions (completions.c) */
    bool is_touched;          /* it is in that list */

    /* Names the connection in work requests, because a completion may arrive after the connection was freed. */
    void *handle;

    struct conn_state state;
    struct conn_limits limits;
    struct domain domain; /* the protection domain, and memory that is registered in it (domain.h) */
    struct conn_memory memory;

    struct recv_queue rq;
    struct credits credits;
    struct send_queue sq;
    struct keepalive keepalive;

    struct hello peer;
    struct peer_ring peer_ring;
    struct path path;
    struct transmit tx;
    struct peer_adverts peer_adverts;
    struct onesided onesided;

    struct receive rx;
    struct recv_ring ring;
    struct adverts adverts;
};

/* ---- conn.c ------------------------------------------------------------------------------ */

/* Makes a connection for the socket's id, with queue pair, buffers and posted receives. NULL and errno on failure. */
struct conn *xs_conn_new(struct sock *sock, struct rdma_cm_id *id, const struct device *device);
/* Returns the size, in bytes, of the initial ring buffer of a connection of this socket. */
uint32_t xs_recv_ring_size(const struct sock *sock);
/* Returns true if TCP detects that the peer's host has failed. If false, probe.c must detect it. */
static inline bool conn_is_by_tcp(const struct conn *conn)
{
    return conn->device->is_by_tcp != NULL && conn->device->is_by_tcp(conn->id);
}
/* Frees a connection whose queue pair is drained, or was never connected. */
void xs_conn_free(struct conn *conn);
/* Returns the parameters for rdma_connect() or rdma_accept(); their private data is the hello, stored in `hello`. */
struct rdma_conn_param xs_conn_param(const struct conn *conn, uint8_t hello[HELLO_SIZE]);
/* Applies the peer's limits of outstanding RDMA READs: how many it wants to post, and how many it serves. */
void xs_conn_reads(struct conn *conn, uint8_t wanted, uint8_t served);
/* Returns the maximum number of advertisements that the peer holds. */
static inline uint32_t conn_adverts_max(const struct conn *conn)
{
    return conn->peer.adverts < ADVERTS_MAX ? conn->peer.adverts : ADVERTS_MAX;
}
/* Applies the peer's hello: credits, ring buffer, flags. */
void xs_conn_peer(struct conn *conn, const struct hello *peer);
/* Returns the connection of a work request; NULL if it was freed. */
struct conn *xs_conn_of(uint64_t wr_id);
/* The id of a work request is the connection's name (its handle) and, in bits that handles do not use, RECEIVE_BIT or
 * the index in `posted`. */
#define RECEIVE_BIT (UINT64_C(1) << 63)
#define ENTRY_SHIFT HANDLE_BITS
static inline uint64_t conn_name(uint64_t wr_id)
{
    return wr_id & ~(RECEIVE_BIT | (uint64_t)(SQ_DEPTH - 1) << ENTRY_SHIFT);
}
void xs_conn_reset(void); /* forgets all connections, in a forked child */
/* Posts receives for `count` slots from this one on, RECEIVES_AT_ONCE at most. Returns false if the device refused
 * them. */
bool xs_conn_post_receives(struct conn *conn, uint32_t slot, uint32_t count);

/* ---- life.c ------------------------------------------------------------------------------ */

/* Called when the connection is established: enters CONN_OPEN, unless the connection has broken before. */
void xs_conn_opened(struct conn *conn);
/* If the connection is opening and a message has arrived, notifies the device that the peer has established the
 * connection. */
void xs_conn_hear(struct conn *conn);
/* Breaks the connection: the queue pair goes to the error state, and operations complete with this errno when it is
 * drained. */
void xs_conn_fail(struct conn *conn, int error) __attribute__((cold));
/* Like xs_conn_fail() with ECONNRESET, for a reason at this end, so that the connection did not end in order. */
void xs_conn_fail_locally(struct conn *conn) __attribute__((cold));
/* Called after completions: drains a broken connection if the device holds none of its buffers any more. */
void xs_conn_drain(struct conn *conn);
/* Returns true from CONN_BROKEN on. */
static inline bool conn_broken(const struct conn *conn)
{
    return conn->state.stage >= CONN_BROKEN;
}
/* Returns the errno of an operation whose connection broke. */
int xs_conn_errno(const struct conn *conn);
/* Returns true if the peer's FIN has arrived, and the connection is not broken, or broke only because the peer
 * disconnected after that. */
static inline bool xs_conn_ended_in_order(const struct conn *conn)
{
    return conn->state.reading >= READ_ENDED && conn->state.end <= END_BY_PEER;
}
/* Returns true if one-sided operations, or sends with bytes that have not reached the peer, are pending. Ignores a
 * pending shutdown. `end_is_out`: FIN was sent, and so were all sends before it, which are therefore ignored. */
bool xs_conn_is_sending(const struct conn *conn, bool end_is_out);
/* Returns true if a receive can complete without the peer: there are bytes in the ring buffer, or the stream has
 * ended. */
bool xs_conn_is_served(const struct conn *conn);
/* Return 0 if a send or a receive may be started, or an errno. */
int xs_conn_may_send(const struct conn *conn);
int xs_conn_may_receive(const struct conn *conn);

/* ---- work.c ------------------------------------------------------------------------------ */

/* Processes a completion of the connection. */
void xs_conn_completion(struct conn *conn, const struct ibv_wc *wc);
/* Called when the device was removed: breaks the connection and completes all posted work requests as flushed.
 * xs_conn_run() must be called next, and drains the connection. */
void xs_conn_flush(struct conn *conn) __attribute__((cold));
/* Called when the last work requests will have no completion: completes them as successful if the peer's credits prove
 * that they have arrived, else as flushed. */
void xs_conn_end_sends(struct conn *conn) __attribute__((cold));
/* Fills receives, and sends the control messages and data that can be sent now. Called after completions and connection
 * events. */
void xs_conn_run(struct conn *conn);
/* The parts of xs_conn_run() that are needed after a send or one-sided operation was started, and after a receive was
 * started. */
void xs_conn_run_sends(struct conn *conn);
void xs_conn_run_recvs(struct conn *conn);
/* Posts the consumed receives again, and counts them in `credits.unreturned`. */
void xs_conn_post_anew(struct conn *conn);
/* Returns true if `bytes` bytes of this operation, which may be NULL, can be posted inline: the device copies them at
 * once. */
bool xs_conn_may_inline(const struct conn *conn, const struct op *op, uint32_t bytes);
/* Posts one work request. Returns false if that failed, which breaks the connection. */
bool xs_conn_post(struct conn *conn, struct ibv_send_wr *wr, const struct posted *posted);
/* Like xs_conn_post(), for several work requests. */
bool xs_conn_post_list(struct conn *conn, struct ibv_send_wr *wr, const struct posted *posted, int count);
/* Returns true if a signaled work request is outstanding, so that the caller may wait for its completion. */
static inline bool conn_awaits(const struct conn *conn)
{
    return (int32_t)(conn->sq.signaled - conn->sq.head) > 0;
}
/* Returns the number of free entries of the send queue. */
static inline uint32_t conn_sq_free(const struct conn *conn)
{
    return conn->limits.depth - (conn->sq.tail - conn->sq.head);
}

/* ---- ring.c ------------------------------------------------------------------------------- */

/* Returns true if the path is long: its round trip is so long that waiting for an advertisement does not pay. */
static inline bool path_is_long(const struct conn *conn)
{
    return conn->path.trips == PATH_TRIPS && conn->path.is_measured;
}
/* Returns the maximum number of bytes that the peer may have in the ring buffer. */
static inline uint64_t ring_most(const struct conn *conn)
{
    return conn->ring.next.is_used ? conn->ring.next.size : conn->ring.size;
}

/* ---- control.c --------------------------------------------------------------------------- */

/* Adds credits that the peer returned. Returns false if they exceed its receives, which breaks the connection. */
bool xs_credits_received(struct conn *conn, uint32_t credits);
/* Sends a control message, which also returns all credits that this end owes. Returns false if `kept` or fewer credits
 * are available, the send queue is full, or posting failed. */
bool xs_control_send(struct conn *conn, struct control *control, uint32_t kept, enum posted_kind kind);
/* Posts a control message; the caller has checked the credits and the send queue. Returns false if posting failed,
 * which breaks the connection. */
bool xs_control_post(struct conn *conn, struct control *control, const struct posted *posted);
/* Sends the credits and acknowledgements that are due, and FIN after the last data. */
void xs_control_run(struct conn *conn);
/* Handles a control message that has arrived. */
void xs_control_received(struct conn *conn, const uint8_t *message, size_t length);
/* Called when the peer has violated the protocol: breaks the connection with ECONNRESET and logs `what`. */
void xs_violation(struct conn *conn, const char *what) __attribute__((cold));

/* ---- probe.c ----------------------------------------------------------------------------- */

/* Starts the keepalive timer, or restarts it after a change of options. */
void xs_probe_start(struct conn *conn);
/* Passes on TCP_USER_TIMEOUT (how long sent data may stay unacknowledged), if the device has this option. */
void xs_conn_limit_outage(const struct conn *conn);
/* Called when the keepalive timer has expired: probes an idle peer, or breaks the connection with ETIMEDOUT if too many
 * probes in a row were not acknowledged. */
void xs_probe(struct conn *conn);

/* ---- usable.c ------------------------------------------------------------------------------ */

/* Makes the operation's buffer usable for the device: by the user's region, by a copy in a bounce buffer, or by a
 * registration for this operation alone. `access`: 0 if the device will read the buffer, so that its bytes may be
 * copied now; IBV_ACCESS_LOCAL_WRITE if it will write to it. Returns 0, or -1 and errno. */
int xs_make_usable(struct conn *conn, struct op *op, exs_mhandle_t mhandle, int access);
/* Called after xs_make_usable(): returns the address from which the device reads the bytes of a send or one-sided
 * operation, and sets *lkey to their key, or to 0 if there are no bytes. */
static inline uint8_t *op_memory(const struct op *op, uint32_t *lkey)
{
    const struct ibv_mr *mr = op->out.bounce != NULL ? op->out.bounce->mr
                              : op->one_off != NULL  ? op->one_off
                                                     : op->out.mr;

    *lkey = mr != NULL ? mr->lkey : 0;
    return op->out.bounce != NULL ? op->out.bounce->data : op->out.buffer;
}
/* Cancels an operation that could not be started, and drops its references. Keeps errno. */
void xs_undo(struct op *op, struct waiter *waiter);

/* ---- tx.c -------------------------------------------------------------------------------- */

/* Posts as much of the pending sends and one-sided operations as possible now, and completes those that are done. */
void xs_tx_run(struct conn *conn);
/* Handles an advertisement that has arrived. */
void xs_tx_advert(struct conn *conn, const struct control *control);
/* Called when the socket's timer has expired: a send that has waited long enough for an advertisement continues without
 * one. */
void xs_tx_look(struct conn *conn);
/* Called when the peer recalls its advertisements: drops them, except one whose transfer has begun. */
void xs_tx_recall(struct conn *conn);
/* Handles the completion of a work request of sends. */
void xs_tx_completed(struct conn *conn, const struct posted *posted);
/* Completes the sends before the first one that is not done, because sends complete in order. */
void xs_tx_finish_done(struct conn *conn);
/* If a direct transfer has begun and no send can continue it, sends the end of the transfer, for which the peer's
 * receive waits. If the message can't be sent now, it is due (DUE_END). */
void xs_tx_end(struct conn *conn);
/* Completes the first send, which is `op` and whose memory the device does not use any more. */
void xs_tx_finish(struct conn *conn, struct op *op, int error);

/* Undoes xs_make_usable(): releases the bounce buffer or registration, which the device does not use any more. */
void xs_tx_release(struct conn *conn, struct op *op);

/* ---- batch.c ------------------------------------------------------------------------------- */

/* Called after a send was added to the connection. Returns true if the send is held; then the caller must not post
 * it. */
bool xs_batch_hold(struct conn *conn, const struct op *op);
/* Removes the connection from its home's list `held`. Called when its held sends are about to be posted, and before it
 * is freed. */
void xs_batch_release(struct conn *conn);
/* Posts the sends that are held. */
void xs_batch_send_held(struct conn *conn);
/* Called when the device has failed this work request: marks its send and the followers as failed. */
void xs_batch_failed(const struct posted *posted) __attribute__((cold));
/* Adds `change` to the number of outstanding work requests of each follower. */
void xs_batch_count(const struct posted *posted, int change);

/* ---- sock/dontwait.c ----------------------------------------------------------------------- */

/* Posts the sends that are held, and polls for completions; called before the two functions below. */
void xs_dontwait_look(const struct sock *sock);
/* Return 0 if a receive or a send that is started now can transfer bytes without waiting, or -1 and EAGAIN. */
int xs_dontwait_recv(const struct conn *conn);
int xs_dontwait_send(const struct conn *conn);
/* Called after a send with MSG_DONTWAIT was started: ends it with the bytes that could be posted. */
void xs_dontwait_sent(struct conn *conn);

/* ---- bound.c: limits of bytes and of time ------------------------------------------------------ */

/* Update sends_bounded and receives_bounded of the socket, after an option was changed. */
void xs_sends_bound_changed(struct sock *sock);
void xs_receives_bound_changed(struct sock *sock);
/* Called if sends_bounded, for a send that is about to start: counts its bytes, and sets its deadline. Returns 0, or -1
 * and EAGAIN if it would exceed the limit. */
int xs_send_bound(struct sock *sock, struct op *op, const struct ask *ask);
/* Called if receives_bounded, for a receive that is about to start: sets its deadline. */
void xs_receive_bound(struct sock *sock, struct op *op, const struct ask *ask);

/* Counts the bytes of the pending sends again, after sends were removed or cut off, or when a limit is set. */
void xs_sends_count(struct conn *conn);

/* ---- deferred_copy.c ------------------------------------------------------------------------------- */

/* Defers the copy of a short send that waits behind other sends, until it is the first one to be posted. Its bytes are
 * in the segments of `message` or, if that is NULL, in an unregistered buffer. Returns 0, or -1 and errno: EACCES if
 * some bytes can't be read, or an errno of xs_vector_pieces(). */
int xs_deferred_begin(struct op *op, const exs_msghdr_t *message);
/* Copies a deferred send to a bounce buffer. Returns 1; or 0: the caller must try again after a completion; or -1, with
 * the errno in op->error: ENOMEM, or EFAULT if the memory was unmapped since the send was started (this breaks the
 * connection). */
int xs_deferred_copy(struct conn *conn, struct op *op);
/* Drops the references to the operation's pieces, if it has any. Keeps errno. */
void xs_deferred_end(struct op *op);

/* ---- onesided.c --------------------------------------------------------------------------- */

/* Returns true for an RDMA READ, false for an RDMA WRITE. */
bool xs_onesided_is_read(const struct op *op);
/* Posts the next work request of the first operation that is not all posted. Returns false if that is not possible
 * now. */
bool xs_onesided_post(struct conn *conn);
/* Handles the completion of a work request of an operation. */
void xs_onesided_completed(struct conn *conn, const struct posted *posted, enum ibv_wc_status status);
/* Completes the operations before the first one that is not done. If `error` is not 0, completes all of them with it;
 * the device does not use their memory any more. */
void xs_onesided_finish(struct conn *conn, int error);

/* ---- export.c ----------------------------------------------------------------------------- */

/* Exports memory and sets *token. Returns 0, or -1 and errno. */
int xs_export_add(struct conn *conn, exs_mhandle_t mhandle, void *addr, size_t length, int access,
                  exs_token_t *token);
/* Ends the export of this token. Returns 0, or -1 and EINVAL. */
int xs_export_drop(struct conn *conn, const exs_token_t *token);
/* Ends all exports. */
void xs_export_end_all(struct conn *conn);

/* ---- conn.c: counters ----------------------------------------------------------------------- */

/* Adds the connection's counters to *stats. */
void xs_stats_add(exs_stats_t *stats, const struct conn *conn);

/* ---- rx.c -------------------------------------------------------------------------------- */

/* Copies data from the ring buffer to receives. Completes the receives that are done or can get no more data, and
 * advertises the others. */
void xs_rx_run(struct conn *conn);
/* Called while a close waits for sends: discards data that arrives when no receive is pending. */
void xs_rx_discard(struct conn *conn);
/* Asks the peer to drop the advertisements of this end. */
void xs_rx_recall(struct conn *conn);
/* Called when the peer has dropped the advertisements. */
void xs_rx_recalled(struct conn *conn);
/* Marks a receive as stopped: it ends with this errno, unless it completes before. If the receive is advertised,
 * recalls the advertisements. */
void xs_rx_stop(struct conn *conn, struct op *op, int error);
/* Completes the stopped receives that the peer can't write into; the others complete later. */
void xs_rx_end_stopped(struct conn *conn);
/* Handles data that has arrived, which the immediate value `imm` describes. */
void xs_rx_data(struct conn *conn, uint32_t imm);

#endif
