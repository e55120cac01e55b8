/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * op.h - an operation, from its start to its one event.
 *
 * An operation contains its event, so a queue always has room for the event of an operation that was started.
 * Operations come from the pool of a queue (queue.h) and return to it when the event was dequeued or delivered.
 */
#ifndef XS_OP_H
#define XS_OP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <exs.h>

struct bounce;
struct files;
struct attachment;
struct ibv_mr;
struct memory;
struct queue;
struct sink;
struct waiter;

/* A piece: a segment of the application's memory or of a file (sink.h) that a receive fills (place.h), or a segment of
 * memory that a deferred send copies from (deferred_copy.c). */
struct piece {
    uint8_t *base;         /* NULL for a file */
    uint64_t length;       /* bytes */
    struct memory *memory; /* the user's region, a reference; NULL: the memory is not registered */
};

/* The members that only an accept has. */
struct op_accept {
    exs_acceptaddr_t *element; /* the application's element, which the accept fills */
    /* The accept stays pending; each connection is reported by another operation, without `element`. */
    bool multishot;
};

/* The members that an operation has which work requests of this end carry out: a send, the end of a stream
 * (exs_shutdown), or a one-sided operation. */
struct op_out {
    uint8_t *buffer;       /* the application's buffer */
    struct ibv_mr *mr;     /* the registration of the buffer, unless the bytes are copied */
    struct bounce *bounce; /* the bounce buffer with the copy of a small unregistered buffer; or NULL */
    struct files *files;   /* exs_sendfile, exs_sendmsg: the source of the bytes; owned by the operation */
    uint64_t acked;        /* bytes that the device has completed */
    union {
        /* Its number among the sends and one-sided operations of the connection, counted from 0. */
        uint64_t number;
        uint64_t identity; /* while it is unreported: the identity of the socket's descriptor (fds.h) */
    };
    union {
        /* send: the value of tx.queued of the connection after this send was counted, if sends are limited (bound.c) */
        uint64_t queued;
        uint64_t remote; /* one-sided: the address in the peer's memory */
    };
    uint32_t rkey;       /* one-sided: the key for `remote` */
    uint32_t requests;   /* outstanding work requests */
    bool all_posted : 1; /* all bytes were given to the device */
    bool failed : 1;     /* a work request completed with an error */
    /* send: a short send that is copied only when it becomes the first one to be posted (deferred_copy.c) */
    bool deferred : 1;
    bool last : 1; /* send: the end of the stream follows it */
};

/* The members that only a receive has. */
struct op_in {
    /* exs_recvfile: the files of the pieces, and the owner of the pieces; owned by the operation. */
    struct sink *sink;
    uint8_t *recv_ring;  /* the slot of the ring buffer for a short message (place.c); or NULL */
    uint8_t *whole;      /* memory for a longer message that goes to several pieces; owned by the operation */
    uint64_t room;       /* bytes that the peer may still write into the advertised memory */
    uint64_t in_piece;   /* bytes that are in the first piece that is not full */
    uint32_t piece;      /* index of the first piece that is not full */
    bool waitall : 1;    /* MSG_WAITALL */
    bool peeks : 1;      /* MSG_PEEK: the data is copied and stays in the ring buffer */
    bool apart : 1;      /* it peeks or has a sink, so it does not use the fast path of rx.c */
    bool advertised : 1; /* it is advertised to the peer, which may write into its memory */
    /* Its advertisement was recalled; the peer only finishes the transfer that it has begun. */
    bool recalled : 1;
};

/* Owned by the socket until the operation completes, then by the queue that holds its event. The lock of the socket's
 * home guards it, and then the queue's events.lock. A comment that begins with "send:", "receive:" and the like
 * describes a member that only operations of this kind use. */
struct op {
    STAILQ_ENTRY(op) link;
    exs_event_t event;
    struct queue *pool; /* the queue whose pool it came from; its event goes there unless there is a waiter */
    struct waiter *waiter; /* a blocking caller, or NULL */
    bool unsignaled : 1;   /* no event on success */
    bool silent : 1;       /* no event at all, because the call named no queue */
    /* `pool` is the socket's home: the operation was started, and is completed, with that queue's lock held. */
    bool at_home : 1;
    /* send: it has failed without being cancelled, and no other send may start before its event is dequeued
     * (ending.h) */
    bool unreported : 1;
    /* receive, one-sided: it completes with the errno `stop` as soon as neither the peer nor the device uses its
     * memory */
    bool stopped : 1;
    int stop;
    int error; /* send, receive: the errno that it will complete with */
    /* Number of `pieces`. 0 in a receive: the library has made it, and it has no buffer of the application (rx.c). */
    uint32_t piece_count;
    /* accept, send, receive: the time at which it ends at the latest, ns (limit.c); 0: no limit; NEVER_NS: no limit,
     * but a signal may interrupt it (EXS_INTR) */
    uint64_t deadline;

    /* Members of transfers. */
    uint64_t length;        /* number of bytes to transfer */
    uint64_t posted;        /* send, one-sided: bytes given to the device; receive: bytes received */
    struct memory *memory;  /* the user's region, a reference; a receive has one for each piece instead */
    struct ibv_mr *one_off; /* a registration for this operation alone; or NULL */

    /* The kind of the operation decides which member is used. */
    union {
        struct op_accept accept;
        struct op_out out;
        struct op_in in;
    };

    /* The pieces: where the bytes of a receive go (place.h), and where those of a send with out.deferred come from. */
    struct piece *many; /* exs_recvmsg, exs_sendmsg: the array of pieces; owned by the operation */

    /* Clearing an operation stops here, so `pieces` and `only` are undefined if piece_count is 0. */
    struct piece *pieces;
    struct piece only; /* `pieces` points here if there is one piece, as in most operations */

    /* If not at_home: the attachment that counts this operation as a use, so that the queue drives the socket until
     * the event (detach.c); or NULL. */
    struct attachment *attachment;
};

STAILQ_HEAD(op_list, op);

/* Returns the errno for the event of an operation that was stopped after `bytes` bytes. For a blocking call it is 0 if
 * there are any, because the call returns their number and can't report an errno, too. */
static inline int op_stopped(const struct op *op, uint64_t bytes)
{
    return op->waiter != NULL && bytes > 0 && op->event.exs_evt_type != EXS_EVT_SENDFILE ? 0 : op->stop;
}

#endif
