/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mixture.h - two ends of a connection, in one thread, that do everything at once and at random, and an account
 * of each operation.
 *
 * The parts: test_mixture.c has the connection's life and its events, mixture_calls.c what is asked for,
 * mixture_log.c compares what one end sent with what the other received.
 */
#ifndef CHECK_MIXTURE_H
#define CHECK_MIXTURE_H

#include "check/support/support.h"

#define MOST_OPS 4000      /* of one connection */
#define PENDING 10         /* of one end, each way */
#define LONGEST (96 * KIB) /* bytes of one transfer */
#define PIECES 3

struct op {
    int type, end, flags;
    size_t length, moved; /* bytes */
    int error, told;      /* MSG_TRUNC, EXS_EOF */
    bool ended;
    bool unsure;     /* a send that a close ended: it may have arrived */
    uint8_t *memory; /* length bytes; of a file its bytes, when it has ended */
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
    int socket[2];                                 /* of each end; -1: closed */
    bool has_closed[2], has_shut[2], has_ended[2]; /* EXS_EVT_CLOSE, EXS_EVT_SHUTDOWN, EXS_EOF of each end */
    bool may_break;                                /* one of them has closed */
    struct op *op[MOST_OPS];
    int ops, pending, receives[2], sends[2], polls;
    uint8_t *region_memory;
    exs_mhandle_t region; /* of LONGEST bytes, for whatever is sent */
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

/* mixture_calls.c: calls at this end, where it may make them. */
void call_transfer(struct mixture *m, int end, bool receives);
void call_receive(struct mixture *m, int end); /* that, for certain, of LONGEST bytes */
void call_read(struct mixture *m, int end);    /* which waits a little */
void call_look(struct mixture *m, int end);
void call_limit(struct mixture *m, int end);
void call_cancel(struct mixture *m, int end);
void call_poll(struct mixture *m);
/* How many of its kind are pending. */
int *op_count(struct mixture *m, const struct op *op);
void op_free(struct op *op);

/* mixture_log.c: from this end to the other. `all`: nothing is missing at the end of it. */
void log_compare(struct mixture *m, int from, bool all);

#endif
