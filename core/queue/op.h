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

    /* accept: stays pending; each connection gets another operation, without `element` */
    bool multishot : 1;
    /* send: short, and copied only when it becomes the first one to be posted (deferred_copy.c) */
    bool late : 1;
    bool all_posted : 1; /* send: nothing is left to give to the device */
    bool failed : 1;     /* send: a work request completed with an error */
    /* send: it failed without being cancelled, and no other send may start before its event is dequeued (ending.h) */
    bool unreported : 1;
    bool last : 1;       /* send: the end of the stream follows it */
    bool waitall : 1;    /* receive */
    bool peeks : 1;      /* receive: the data is copied and stays in the ring buffer */
    bool apart : 1;      /* receive: not on the fast path: it peeks, or has a sink */
    bool advertised : 1; /* receive: the peer may write into it */
    /* receive: its advertisement was recalled; the peer only finishes the transfer that it had begun */
    bool recalled : 1;
    /* receive, one-sided: completes with `stop` as soon as neither the peer nor the device uses its memory */
    bool stopped : 1;
    uint32_t requests; /* send: work requests outstanding */
    int error;         /* send, receive: the errno to complete with */
    union {
        uint32_t rkey; /* one-sided: the key of `remote`, until it is stopped */
        int stop;      /* if stopped: an errno */
    };

    union {
        exs_acceptaddr_t *element; /* accept */
        uint8_t *buffer;           /* send, one-sided */
    };
    /* transfers; bytes */
    uint64_t length;
    uint64_t posted; /* send: given to the device; receive: filled */
    union {
        uint64_t acked; /* send, one-sided: completed by the device */
        uint64_t room;  /* receive: bytes that the peer may still write into the advertised memory */
    };
    union {
        struct ibv_mr *mr;  /* send, one-sided: covers the buffer, unless the bytes are copied */
        uint8_t *recv_ring; /* receive: where a short message lies in the ring buffer */
    };
    struct memory *memory;  /* the user's region, counted as in use; a receive has one for each piece instead */
    struct ibv_mr *one_off; /* registered for this operation alone */
    struct bounce *bounce;  /* the copy of a small unregistered buffer */
    union {
        struct files *files; /* sendfile, sendmsg: where the bytes come from; owned by the operation */
        /* recvfile: the files that the pieces lie in; owns the pieces; owned by the operation */
        struct sink *sink;
    };
    union {
        uint64_t number;   /* send, one-sided: counts the connection's sends and one-sided operations from 0 */
        uint64_t identity; /* if unreported: the socket's identity */
    };
    union {
        uint64_t remote; /* one-sided: the address in the peer's memory */
        /* accept, send, receive: ns, when it must end at the latest (limit.c); 0: no limit; NEVER_NS: no limit, but a
         * signal may interrupt it (EXS_INTR) */
        uint64_t deadline;
    };

    /* receive: where the bytes go (place.h); send with `late` set: where they come from */
    union {
        uint64_t in_piece; /* receive: the bytes in the first piece that is not full */
        /* send: `queued` of the connection at the end of this send, if sends are limited (bound.c) */
        uint64_t queued;
    };
    uint32_t piece;       /* receive: the index of the first piece that is not full */
    uint32_t piece_count; /* 0: a stand-in of the library, without a user's buffer (rx.c) */
    struct piece *many;   /* of exs_recvmsg, exs_sendmsg; owned by the operation */
    uint8_t *whole;       /* memory for a longer message that goes to several pieces; owned by the operation */

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
