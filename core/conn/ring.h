/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h - ring buffers that grow with the bandwidth-delay product of the path (ring.c). conn.h includes this header.
 * All functions are called with the lock of the socket's home. */
#ifndef XS_RING_H
#define XS_RING_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct control;
struct ibv_mr;

#define RING_MAX (16 << 20)           /* bytes: maximum size of a ring buffer that has grown */
#define RINGS_MAX (UINT64_C(1) << 29) /* bytes: maximum of all ring buffers of the process that have grown */
/* Round trips that are measured before the path may count as long, because this host may have delayed one. */
#define PATH_TRIPS 2

/* The peer's ring buffer as the sender knows it. */
struct peer_ring {
    uint64_t addr, size; /* its address; its bytes */
    uint32_t rkey;
    /* It has replaced another one, and nothing was written into it: the next data has IMM_NEW_RING. */
    bool is_new;
    bool is_asked; /* RING_WANTED was sent, and no RING has arrived */
};

/* The sender's measurements of the path: the round trip of work requests, and the time in which the peer copies as many
 * bytes as the ring buffer has (a turn of the ring). */
struct path {
    bool is_measured;                /* measurements are made: the peer's ring buffer may grow */
    bool is_due;                     /* the next data that is posted starts the measurement of a round trip */
    bool times_trip;                 /* a round trip is being measured */
    bool times_ring;                 /* a turn of the ring is being measured */
    uint8_t trips;                   /* round trips measured, up to PATH_TRIPS */
    uint32_t until;                  /* the round trip ends when sq.head has reached this value */
    uint64_t trip_began, ring_began; /* when the measurements began, ns */
    uint64_t ring_until;             /* the turn ends when tx.ring_acked has reached this value */
    uint64_t trip;                   /* the shortest round trip, ns; UINT64_MAX: none was measured */
};

/* A larger ring buffer of this end, which was offered to the peer and will replace the current one. */
struct next_ring {
    uint8_t *data; /* NULL: there is none */
    uint64_t size; /* bytes */
    struct ibv_mr *mr;
    bool is_used;  /* the peer has begun to write into it */
    uint64_t from; /* if is_used: number of the first indirect byte in it */
};

/* ---- Sending ---- */

/* Applies the ring buffer of the peer's hello, and starts to measure the path if that ring buffer may grow. */
void xs_ring_begin(struct conn *conn);
/* Called when a send has to wait: starts measurements. */
void xs_path_blocked(struct conn *conn) __attribute__((noinline));
/* Called when data was posted while path.is_due: a round trip starts. */
void xs_path_start_trip(struct conn *conn) __attribute__((noinline));
/* Called during a measurement, after completions and acknowledgements: ends it if it is over, and asks for a larger
 * ring buffer if the current one limits the path. */
void xs_path_progress(struct conn *conn) __attribute__((noinline));
/* Called when the peer has sent RING: from now on uses the ring buffer that it offers. */
void xs_ring_offered(struct conn *conn, const struct control *control);

/* ---- Receiving ---- */

/* Called when the peer has sent RING_WANTED: offers a ring buffer that is 8 times as large, within RING_MAX and
 * RINGS_MAX. Does nothing if SO_RCVBUF has set the size, or if more than half of the ring buffer is full, because the
 * application does not receive fast enough then. */
void xs_ring_wanted(struct conn *conn);
/* Sends RING_WANTED and RING if they are due and there is a credit. */
void xs_ring_say(struct conn *conn);
/* Called when data with IMM_NEW_RING has arrived: this data and all later indirect data is in the ring buffer that was
 * offered. Returns false if none was offered. */
bool xs_ring_switch(struct conn *conn);
/* Called while ring.next.is_used. Returns how many indirect bytes are contiguous from number `from` on, and sets *at to
 * the first one. Frees the old ring buffer when it is empty. */
uint64_t xs_ring_find(struct conn *conn, uint64_t from, uint8_t **at) __attribute__((noinline));
/* Frees the ring buffers that have grown, of a connection that is being freed. */
void xs_ring_free(struct conn *conn);
void xs_ring_reset(void); /* forgets the ring buffers of the parent, in a forked child */

#endif
