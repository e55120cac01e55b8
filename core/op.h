/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * op.h - an operation from its start to its one event.
 *
 * An operation is also the storage of its event, so a queue can never be too full to take one: whoever could
 * start the operation will get its event. Operations come from the pool of a queue.
 */
#ifndef XS_OP_H
#define XS_OP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <exs.h>

struct bounce;
struct files;
struct guest;
struct ibv_mr;
struct memory;
struct queue;
struct sink;
struct waiter;

struct piece {     /* of the application's memory, or of a file (sink.h), that a receive fills (place.h); or of
                    * memory that a late send copies (late.c) */
    uint8_t *base; /* of a file NULL */
    uint64_t length;       /* bytes */
    struct memory *memory; /* the user's region, counted as in use; NULL: not registered */
};

/* Owned by the socket it works on until it is completed, then by the queue that its event waits on. */
struct op {
    STAILQ_ENTRY(op) link;
    exs_event_t event;
    struct queue *pool;    /* whose pool it came from, and where its event goes unless there is a waiter */
    struct waiter *waiter; /* a blocking caller, or NULL */
    bool unsignaled : 1;   /* no event on success */
    bool silent : 1;       /* no event at all: no queue was named */
    bool at_home : 1;      /* its socket lives on its pool's queue: begun and ended with that one's lock */

    bool multishot : 1;  /* accept: never spent; each connection has an operation of its own, without element */
    bool late : 1;       /* send: short, and copied when its turn comes (late.c) */
    bool all_posted : 1; /* send: nothing more to give to the device */
    bool failed : 1;     /* send: the device could not do one of the work requests */
    bool untold : 1;     /* send: it failed by itself, and no other is started before its event is dequeued */
    bool last : 1;       /* send: shut down writing behind it */
    bool waitall : 1;    /* receive */
    bool peeks : 1;      /* receive: what is here is copied, and stays */
    bool apart : 1;      /* receive: it does more than fill memory: it peeks, or has a sink */
    bool advertised : 1; /* receive: the peer may write into it */
    bool recalled : 1;   /* of these: only until the end of the transfer that has begun */
    bool stopped : 1; /* receive, one-sided: complete with `stop` as soon as peer and device are done with it */
    uint32_t requests; /* send: work requests outstanding */
    int error;         /* send, receive: what to complete with */
    union {
        uint32_t rkey; /* one-sided: the key to `remote`, until it is stopped */
        int stop;      /* of one that is stopped: an errno */
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
        uint64_t room;  /* receive: that it may yet write where it was told to */
    };
    union {
        struct ibv_mr *mr; /* send, one-sided: covers the buffer, unless it is to be copied */
        uint8_t *hidden;   /* receive: the place of a short message in the hidden buffer */
    };
    struct memory *memory;  /* the user's region, counted as in use; a receive's are its pieces' */
    struct ibv_mr *one_off; /* registered for this operation alone */
    struct bounce *bounce;  /* the copy of a small unregistered buffer */
    union {
        struct files *files; /* sendfile: where the bytes come from */
        struct sink *sink;   /* recvfile: the files that its pieces lie in; its own, and theirs */
    };
    union {
        uint64_t number;   /* send, one-sided: which of the connection's, from the first */
        uint64_t identity; /* of one that is untold: its socket's */
    };
    union {
        uint64_t remote;   /* one-sided: the address at the peer */
        uint64_t deadline; /* accept, send, receive: ns, when it is to end at the latest (limit.c); 0: never.
                            * NEVER_NS: when a signal comes */
    };

    /* receives: where the bytes go (place.h); of a send that is late: where they come from, without places */
    union {
        uint64_t in_piece; /* receive: the bytes in the first piece that is not full, */
        uint64_t queued;   /* send: the bytes of sends up to its end, where they are bounded (bound.c) */
    };
    uint32_t piece;       /* receive: which is this one */
    uint32_t piece_count; /* 0: its user was told already (rx.c) */
    struct piece *many;   /* of exs_recvmsg, exs_sendmsg; the operation's, to free */
    uint8_t *whole;       /* the place of a longer one for several pieces; the operation's, to free */

    /* Where there are pieces; whatever it was, where there are none. */
    struct piece *pieces;
    struct piece only; /* of most of them */

    /* Not at home: the attachment that counts the operation, so that its queue drives the socket until the event
     * (detach.c); or NULL. */
    struct guest *guest;
};

STAILQ_HEAD(op_list, op);

/* What one completes with that was stopped when so many bytes had been moved. A call that blocks, and returns
 * bytes, has only those to tell of them. */
static inline int op_stopped(const struct op *op, uint64_t bytes)
{
    return op->waiter != NULL && bytes > 0 && op->event.exs_evt_type != EXS_EVT_SENDFILE ? 0 : op->stop;
}

#endif
