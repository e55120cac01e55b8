/* SPDX-License-Identifier: BSD-2-Clause */
/* burst.h - a context's burst: packets for one path that are built one after the other, and then passed to a link in
 * one call. All functions here are called with the context's lock. */
#ifndef SOFT_BURST_H
#define SOFT_BURST_H

#include "wire.h"

struct soft_mr;
struct soft_qp;
struct soft_context;

#define SOFT_PIECES 128 /* maximum segments of a burst that are copied when the burst is sent */

/* A segment of payload that is copied from the application's memory or file only when the burst is sent. */
struct soft_piece {
    uint8_t *to;      /* its bytes in the burst */
    const void *from; /* the memory, if `file` is -1 */
    size_t length;
    unsigned packet; /* index in the burst of the packet that it belongs to */
    int file;        /* descriptor of the file; -1: the segment is memory */
    uint64_t place;  /* offset in the file, bytes */
};

/* The burst that is being built; one for each context, guarded by the context's lock. */
struct soft_burst {
    /* The engine's buffer for a burst. For links that have no buffers, and for payload that is copied to a link's
     * buffer in a second step. */
    uint8_t *own;
    uint8_t *bytes; /* where the burst is built: in `own` or in the link's buffer */
    size_t limit;   /* maximum bytes of the burst */
    /* Bytes of the whole burst, and of its first packet. All packets have the length of the first; only the last may be
     * shorter. */
    size_t length, stride;
    unsigned packets;
    bool closed;                 /* the last packet is shorter than `stride`, so no further one can be added */
    bool left;                   /* at least one burst was sent in this step of the engine */
    const struct soft_path *way; /* path of all packets of the burst */
    struct soft_link *link;      /* the link that sends the burst */
    /* For each packet, its queue pair and PSN, and whether it is a response. SOFT_BURST_PACKETS entries. */
    struct soft_owner {
        struct soft_qp *qp;
        uint64_t psn;
        bool answer;
    } * owner;
    unsigned pieces;
    struct soft_piece *piece; /* SOFT_PIECES entries, the first `pieces` in use, in the order of the packets */
};

/* For the thread sanitizer (tsan.h): the actions of a thread before it sends a packet happen before the actions of the
 * thread that receives the packet. */
extern char soft_packet_order;

/* Allocates the memory of a burst. False: some memory could not be allocated; the caller must call soft_burst_end() in
 * either case. */
bool soft_burst_begin(struct soft_burst *burst);
void soft_burst_end(struct soft_burst *burst);

/* Returns space for a packet of `size` bytes, and first sends the burst if the packet can't be added to it. NULL: the
 * memory of an earlier packet's payload has vanished, or the link is full; the caller must check again what it has to
 * send. `psn` and `answer` identify the request, or the response, that fails if the payload of this packet vanishes.
 * `way` must stay valid until the burst has been sent. */
uint8_t *soft_burst_add(struct soft_qp *qp, const struct soft_path *way, size_t size, uint64_t psn,
                        bool answer);
/* Adds payload to the packet that was added last: `count` segments, stored from `to` on. The payload is copied now. If
 * `nofault` is not NULL, it is in this region, whose memory may vanish, and is copied when the burst is sent. A link
 * that has gather() sends long segments without a copy. */
void soft_burst_payload(struct soft_context *context, uint8_t *to, const struct iovec *from, int count,
                        const struct soft_mr *nofault);
/* Sends the burst. False: the memory of some payload has vanished. The packets with this payload, and later packets of
 * their queue pairs, were not sent, and their requests or responses have failed. */
bool soft_burst_leave(struct soft_context *context);

#endif
