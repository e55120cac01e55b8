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

/* A segment of the application's memory, or of a file (sink.h), that a receive fills (place.h); or of memory that a
 * deferred send copies from (deferred_copy.c). */
struct piece {
    uint8_t *base;         /* NULL for a file */
    uint64_t length;       /* bytes */
    struct memory *memory; /* the user's region, counted as in use; NULL: not registered */
};

/* The part of an accept. */
struct op_accept {
    exs_acceptaddr_t *element;
    bool multishot; /* stays pending; each connection gets another operation, without `element` */
};

/* The part of a send, of the end of a stream (exs_shutdown), and of a one-sided operation: those that work requests of
 * this end carry out. */
struct op_out {
    uint8_t *buffer;
    struct ibv_mr *mr;     /* covers the buffer, unless the bytes are copied */
    struct bounce *bounce; /* the copy of a small unregistered buffer */
    struct files *files;   /* sendfile, sendmsg: where the bytes come from; owned by the operation */
    uint64_t acked;        /* bytes, completed by the device */
    union {
        uint64_t number;   /* counts the connection's sends and one-sided operations from 0 */
        uint64_t identity; /* if unreported: the socket's identity */
    };
    union {
        uint64_t queued; /* send: `tx.queued` of the connection at its end, if sends are limited (bound.c) */
        uint64_t remote; /* one-sided: the address in the peer's memory */
    };
    uint32_t rkey;       /* one-sided: the key of `remote` */
    uint32_t requests;   /* work requests outstanding */
    bool all_posted : 1; /* nothing is left to give to the device */
    bool failed : 1;     /* a work request completed with an error */
    /* send: short, and copied only when it becomes the first one to be posted (deferred_copy.c) */
    bool deferred : 1;
    bool last : 1; /* send: the end of the stream follows it */
};

/* The part of a receive. */
struct op_in {
    /* recvfile: the files that the pieces lie in; owns the pieces; owned by the operation */
    struct sink *sink;
    uint8_t *recv_ring; /* where a short message lies in the ring buffer */
    uint8_t *whole;     /* memory for a longer message that goes to several pieces; owned by the operation */
    uint64_t room;      /* bytes that the peer may still write into the advertised memory */
    uint64_t in_piece;  /* the bytes in the first piece that is not full */
    uint32_t piece;     /* the index of that piece */
    bool waitall : 1;
    bool peeks : 1;      /* the data is copied and stays in the ring buffer */
    bool apart : 1;      /* not on the fast path: it peeks, or has a sink */
    bool advertised : 1; /* the peer may write into it */
    /* its advertisement was recalled; the peer only finishes the transfer that it had begun */
    bool recalled : 1;
};

/* Owned by the socket until it completes, then by the queue that holds its event. Guarded by the lock of the socket's
 * home, then by the queue's events.lock. */
struct op {
    STAILQ_ENTRY(op) link;
    exs_event_t event;
    struct queue *pool; /* the queue whose pool it came from; its event goes there unless there is a waiter */
    struct waiter *waiter; /* a blocking caller, or NULL */
    bool unsignaled : 1;   /* no event on success */
    bool silent : 1;       /* no event at all: no queue was named */
    /* the pool is that of the socket's home: started and completed with that queue's lock held */
    bool at_home : 1;
    /* send: it failed without being cancelled, and no other send may start before its event is dequeued (ending.h) */
    bool unreported : 1;
    /* receive, one-sided: completes with `stop` as soon as neither the peer nor the device uses its memory */
    bool stopped : 1;
    int stop;             /* if stopped: an errno */
    int error;            /* send, receive: the errno to complete with */
    uint32_t piece_count; /* of `pieces`; 0: a stand-in of the library, without a user's buffer (rx.c) */
    /* accept, send, receive: ns, when it must end at the latest (limit.c); 0: no limit; NEVER_NS: no limit, but a
     * signal may interrupt it (EXS_INTR) */
    uint64_t deadline;

    /* transfers */
    uint64_t length;        /* bytes */
    uint64_t posted;        /* bytes; send: given to the device; receive: filled */
    struct memory *memory;  /* the user's region, counted as in use; a receive has one for each piece instead */
    struct ibv_mr *one_off; /* registered for this operation alone */

    /* by the kind of the operation */
    union {
        struct op_accept accept;
        struct op_out out;
        struct op_in in;
    };

    /* receive: where the bytes go (place.h); send with out.deferred set: where they come from */
    struct piece *many; /* of exs_recvmsg, exs_sendmsg; owned by the operation */

    /* Undefined if there are no pieces: clearing an operation stops here. */
    struct piece *pieces;
    struct piece only; /* `pieces` if there is one, which most operations have */

    /* If not at_home: the attachment that counts this operation as a use, so that the queue drives the socket until
     * the event (detach.c); or NULL. */
    struct attachment *attachment;
};

STAILQ_HEAD(op_list, op);

/* Returns the errno of an operation that was stopped after `bytes` bytes. A blocking call returns a number of bytes,
 * and so can report only those. */
static inline int op_stopped(const struct op *op, uint64_t bytes)
{
    return op->waiter != NULL && bytes > 0 && op->event.exs_evt_type != EXS_EVT_SENDFILE ? 0 : op->stop;
}

#endif
