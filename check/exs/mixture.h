/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mixture.h - both ends of a connection, in one thread, start operations of all kinds at random, and every operation is
 * recorded.
 *
 * test_mixture.c has the connection's life and its events, mixture_calls.c starts the operations, mixture_log.c
 * compares what one end sent with what the other end received.
 */
#ifndef CHECK_MIXTURE_H
#define CHECK_MIXTURE_H

#include "check/support/support.h"

#define MOST_OPS 4000      /* per connection */
#define PENDING 10         /* operations pending per end and direction */
#define LONGEST (96 * KIB) /* bytes per transfer */
#define PIECES 3

struct op {
    int type, end, flags;
    size_t length, moved; /* bytes */
    int error, told;      /* told: the event's flags, MSG_TRUNC and EXS_EOF */
    bool ended;
    bool unsure;     /* a send that a close has cancelled: it may have arrived */
    uint8_t *memory; /* length bytes; for a file its content, filled in at its end */
    int file;        /* -1: none */
    exs_iovec_t pieces[PIECES];
    exs_msghdr_t message;
    exs_xferfile_t elements[PIECES];
    exs_pollfd_t polled[3];
};

struct mixture {
    struct chance chance;
    struct inbox box[2];
    int type, listener;
    struct address address;
    int socket[2];                                 /* per end; -1: closed */
    bool has_closed[2], has_shut[2], has_ended[2]; /* EXS_EVT_CLOSE, EXS_EVT_SHUTDOWN, EXS_EOF at each end */
    bool may_break;                                /* one end has closed */
    struct op *op[MOST_OPS];
    int ops, pending, receives[2], sends[2], polls;
    uint8_t *region_memory;
    exs_mhandle_t region; /* LONGEST bytes, the source of any send */
    int pipe[2];
};

static inline size_t below(struct mixture *m, size_t limit)
{
    return chance_below(&m->chance, limit);
}

static inline bool is_receive(const struct op *op)
{
    return op->type == EXS_EVT_RECV || op->type == EXS_EVT_RECVMSG || op->type == EXS_EVT_RECVFILE;
}

/* mixture_calls.c: each starts an operation at this end, if the end may have another one. */
void call_transfer(struct mixture *m, int end, bool receives);
void call_receive(struct mixture *m, int end); /* always starts a receive of LONGEST bytes */
void call_read(struct mixture *m, int end);    /* a blocking call with a short timeout */
void call_look(struct mixture *m, int end);
void call_limit(struct mixture *m, int end);
void call_cancel(struct mixture *m, int end);
void call_poll(struct mixture *m);
/* The counter of pending operations of its kind. */
int *op_count(struct mixture *m, const struct op *op);
void op_free(struct op *op);

/* mixture_log.c: compares one direction. `all`: everything that was sent must have arrived. */
void log_compare(struct mixture *m, int from, bool all);

#endif
