/* SPDX-License-Identifier: BSD-2-Clause */
/* train.h - the packets of a context on their way out, until they leave together. */
#ifndef SOFT_TRAIN_H
#define SOFT_TRAIN_H

#include "wire.h"

struct soft_mr;
struct soft_qp;
struct soft_context;

#define SOFT_PIECES 128

/* Payload of the train that has yet to be fetched from the application's memory, or its file. */
struct soft_piece {
    uint8_t *to;
    const void *from;
    size_t length;
    unsigned packet;
    int file;       /* -1: memory, */
    uint64_t place; /* or where in it */
};

/* The packets put together so far; one for each context. */
struct soft_train {
    uint8_t *own;          /* SOFT_TRAIN_LONG bytes, for links without room of their own, and what is fetched */
    uint8_t *bytes;        /* where it is put together, */
    size_t limit;          /* and how long it may get */
    size_t length, stride; /* of all of it, of the first packet */
    unsigned packets;
    bool closed;                 /* by a packet shorter than the stride */
    bool left;                   /* it, or one before it, in this turn of sending */
    const struct soft_path *way; /* where to: the first packet's */
    struct soft_link *link;      /* what carries it */
    struct soft_owner {
        struct soft_qp *qp;
        uint64_t psn;
        bool answer;
    } * owner; /* SOFT_TRAIN_PACKETS of them */
    unsigned pieces;
    struct soft_piece *piece; /* SOFT_PIECES of them */
};

/* For tsan.h: what a thread did before it sent a packet is ordered before what another does that has received it. */
extern char soft_packet_order;

/* Its memory. False: there is none; what there is soft_train_end frees. */
bool soft_train_begin(struct soft_train *train);
void soft_train_end(struct soft_train *train);

/* Room for a packet of `size` bytes, or NULL when an earlier packet's memory turned out to be gone, or the
 * link is full: look again at what there is to do. psn and answer say whose payload it is, should that happen.
 * `way` stays as it is until the train has left. */
uint8_t *soft_train_add(struct soft_qp *qp, const struct soft_path *way, size_t size, uint64_t psn,
                        bool answer);
/* Payload for the packet added last: taken now, or, since a region of it is fragile, when the train leaves. */
void soft_train_payload(struct soft_context *context, uint8_t *to, const struct iovec *from, int count,
                        const struct soft_mr *fragile);
/* Send what there is. False: some payload's memory was gone, and its queue pair has been told. */
bool soft_train_leave(struct soft_context *context);

#endif
