/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h - ring buffers that grow with the bandwidth-delay product of the path. See ring.c. Included by conn.h; all
 * functions are called with the lock of the socket's home. */
#ifndef XS_RING_H
#define XS_RING_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct control;
struct ibv_mr;

#define RING_MAX (16 << 20)           /* maximum size of a ring buffer that has grown, bytes */
#define RINGS_MAX (UINT64_C(1) << 29) /* maximum of all ring buffers of the process that have grown, bytes */
#define PATH_TRIPS                                                                                             \
    2 /* round trips that are measured before the path may count as long: this host may have delayed one */

/* The peer's ring buffer as the sender knows it. */
struct peer_ring {
    uint64_t addr, size; /* bytes */
    uint32_t rkey;
    bool is_new;   /* nothing was written into it so far; the next data is sent with IMM_NEW_RING */
    bool is_asked; /* RING_WANTED was sent, and no RING has arrived */
};

/* The sender's measurements of the path: the round trip of work requests, and the time in which the peer copies one
 * whole ring buffer (a turn of the ring). */
struct path {
    bool is_measured;                /* the peer's ring buffer may grow, and the path may be long */
    bool is_due;                     /* the next data that is posted starts the measurement of a round trip */
    bool times_trip;                 /* a round trip is being measured */
    bool times_ring;                 /* a turn of the ring is being measured */
    uint8_t trips;                   /* round trips measured, up to PATH_TRIPS */
    uint32_t until;                  /* the round trip ends when sq.head has reached this value */
    uint64_t trip_began, ring_began; /* ns */
    uint64_t ring_until;             /* the turn ends when tx.ring_acked has reached this value */
    uint64_t trip;                   /* ns, the shortest round trip; UINT64_MAX: none was measured */
};

/* A larger ring buffer of this end, which was offered to the peer and will replace the current one. */
struct next_ring {
    uint8_t *data; /* NULL: there is none */
    uint64_t size; /* bytes */
    struct ibv_mr *mr;
    bool is_used;  /* the peer writes into it: */
    uint64_t from; /* indirect bytes from this number on are in it */
};

/* ---- Sending ---- */

/* Applies the ring buffer of the peer's hello, and starts to measure the path if that ring buffer may grow. */
void xs_ring_begin(struct conn *conn);
/* A send has to wait: starts measurements. */
void xs_path_blocked(struct conn *conn) __attribute__((noinline));
/* Data was posted while path.is_due: a round trip starts. */
void xs_path_start_trip(struct conn *conn) __attribute__((noinline));
/* Called during a measurement, after completions and acknowledgements: ends it if it is over, and asks for a larger
 * ring buffer if the current one limits the path. */
void xs_path_progress(struct conn *conn) __attribute__((noinline));
/* The peer has sent RING: uses the ring buffer that it offers from now on. */
void xs_ring_offered(struct conn *conn, const struct control *control);

/* ---- Receiving ---- */

/* The peer has sent RING_WANTED: offers a ring 8 times as large, if that is within RING_MAX and RINGS_MAX, unless
 * SO_RCVBUF has set the size or more than half of the ring is full because the application lags. */
void xs_ring_wanted(struct conn *conn);
/* Sends RING_WANTED and RING, those that are due, if there is a credit. */
void xs_ring_say(struct conn *conn);
/* Data with IMM_NEW_RING has arrived: this data and all later indirect data is in the ring buffer that was offered.
 * Returns false if none was offered. */
bool xs_ring_switch(struct conn *conn);
/* Called while ring.next.is_used. Returns how many indirect bytes lie together from number `from` on, and sets *at to
 * the first one. Frees the old ring buffer when it is empty. */
uint64_t xs_ring_find(struct conn *conn, uint64_t from, uint8_t **at) __attribute__((noinline));
void xs_ring_free(struct conn *conn);
void xs_ring_reset(void); /* forgets the ring buffers of the parent, in a forked child */

#endif
