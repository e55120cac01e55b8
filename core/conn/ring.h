/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h - ring buffers that grow with the bandwidth-delay product of the path. See ring.c. Part of conn.h. */
#ifndef XS_RING_H
#define XS_RING_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct control;
struct ibv_mr;

#define RING_MAX (16 << 20)           /* bytes to which a ring buffer grows by itself */
#define RINGS_MAX (UINT64_C(1) << 29) /* bytes of all ring buffers of the process that have grown */
#define PATH_TRIPS                                                                                             \
    2 /* round trips that are measured before one counts as long: this host may have delayed some */

/* The peer's ring buffer as the sender knows it. */
struct peer_ring {
    uint64_t addr, size; /* bytes */
    uint32_t rkey;
    bool is_new;   /* nothing was written into it yet: the next data say so */
    bool is_asked; /* a larger one was asked for, and has not come */
};

/* What the sender measures of the path while it has to wait (ring.c). */
struct path {
    bool is_measured; /* the peer's ring buffer may grow, and the path may be long */
    bool is_due;      /* the next data that are posted start a measurement */
    bool times_trip;  /* a round trip is being measured, */
    bool times_ring;  /* one turn of the ring buffer is */
    uint8_t trips;    /* round trips measured, up to PATH_TRIPS */
    uint32_t until;   /* the trip ends when the device has completed the work requests before this one */
    uint64_t trip_began, ring_began; /* ns */
    uint64_t ring_until;             /* the turn ends when the peer has copied the bytes before this one */
    uint64_t trip;                   /* ns, the shortest trip; UINT64_MAX: none was measured */
};

/* A larger ring buffer of this end that is about to replace the present one. */
struct next_ring {
    uint8_t *data; /* NULL: there is none */
    uint64_t size; /* bytes */
    struct ibv_mr *mr;
    bool is_used; /* the peer writes into it, from the byte of this number on: */
    uint64_t from;
};

/* What the hello has said. */
void xs_ring_begin(struct conn *conn);
/* Sending: it has to wait. */
void xs_path_blocked(struct conn *conn) __attribute__((noinline));
/* Data were posted, and is_due. */
void xs_path_start_trip(struct conn *conn) __attribute__((noinline));
/* Something was acknowledged while it is measured. */
void xs_path_progress(struct conn *conn) __attribute__((noinline));
/* The peer's ring, and what was sent to there; CONTROL_RING. */
void xs_ring_offered(struct conn *conn, const struct control *control);
/* Receiving: CONTROL_RING_WANTED. */
void xs_ring_wanted(struct conn *conn);
/* What is due of these two; when there is a credit for it. */
void xs_ring_say(struct conn *conn);
/* The peer has begun to use the ring that was offered to it. False: there is none. */
bool xs_ring_switch(struct conn *conn);
/* Bytes of the stream that lie together from this one on, and where; while there are two rings. */
uint64_t xs_ring_find(struct conn *conn, uint64_t from, uint8_t **at) __attribute__((noinline));
void xs_ring_free(struct conn *conn);
void xs_ring_reset(void); /* in a forked child */

#endif
