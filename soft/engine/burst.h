/* SPDX-License-Identifier: BSD-2-Clause */
/* burst.h - a context's burst: packets for one path that are built one after the other and then sent by one call of a
 * link. */
#ifndef SOFT_BURST_H
#define SOFT_BURST_H

#include "wire.h"

struct soft_mr;
struct soft_qp;
struct soft_context;

#define SOFT_PIECES 128

/* A segment of payload that is copied from the application's memory or file only when the burst is sent. */
struct soft_piece {
    uint8_t *to;
    const void *from;
    size_t length;
    unsigned packet;
    int file;       /* -1: `from` is memory */
    uint64_t place; /* else the offset in the file */
};

/* The burst that is being built; one for each context, guarded by its lock. */
struct soft_burst {
    /* SOFT_BURST_LONG bytes: for links without their own buffers, and for payload on its way to such a buffer. */
    uint8_t *own;
    uint8_t *bytes;        /* where the burst is built */
    size_t limit;          /* its maximum length */
    size_t length, stride; /* bytes of the whole burst, of its first packet */
    unsigned packets;
    bool closed;                 /* the last packet is shorter than the stride */
    bool left;                   /* at least one burst was sent in this step */
    const struct soft_path *way; /* path of the first packet */
    struct soft_link *link;      /* the link that sends the burst */
    struct soft_owner {
        struct soft_qp *qp;
        uint64_t psn;
        bool answer;
    } * owner; /* SOFT_BURST_PACKETS entries: whose packet each is */
    unsigned pieces;
    struct soft_piece *piece; /* SOFT_PIECES entries */
};

/* For tsan.h: what a thread did before it sent a packet happens before what a thread does that has received it. */
extern char soft_packet_order;

/* Allocates the memory of a burst. False: no memory; the caller then calls soft_burst_end(), which frees the rest. */
bool soft_burst_begin(struct soft_burst *burst);
void soft_burst_end(struct soft_burst *burst);

/* Returns space for a packet of `size` bytes. NULL: the memory of an earlier packet's payload had vanished, or the link
 * is full; the caller must check again what it has to send. psn and answer identify the request or response to fail if
 * its payload vanishes. `way` must stay valid until the burst has been sent. */
uint8_t *soft_burst_add(struct soft_qp *qp, const struct soft_path *way, size_t size, uint64_t psn,
                        bool answer);
/* Adds payload to the packet that was added last. It is copied now, or, if `nofault` is not NULL, when the burst is
 * sent. */
void soft_burst_payload(struct soft_context *context, uint8_t *to, const struct iovec *from, int count,
                        const struct soft_mr *nofault);
/* Sends the burst. False: some payload's memory had vanished, and its queue pair has been notified. */
bool soft_burst_leave(struct soft_context *context);

#endif
