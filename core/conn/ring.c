/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.c - ring buffers that grow with the bandwidth-delay product of the path, as TCP's receive buffers do.
 *
 * A connection starts with a ring buffer of RECV_RING_SIZE. A STREAM without advertisements can send no more than that
 * in one round trip, which is little on a path with a round trip of many milliseconds. Therefore the sender measures
 * two times: the round trip of work requests that it has to wait for, and the time in which the peer copies one whole
 * ring. If the second is less than twice the first, the ring limits the rate, and the sender asks for a larger one. On
 * a busy path, or if the peer's application receives slowly, the second time is longer, so neither makes the ring grow.
 *
 * The receiver offers a ring that is GROWTH times as large, up to RING_MAX. It offers none if the application has
 * chosen the size (SO_RCVBUF), or if all rings of the process that have grown would exceed RINGS_MAX together. The peer
 * is not trusted: whatever it asks for, memory stays within these bounds. Both rings are in use until the old one is
 * empty.
 *
 * A path whose round trip is shorter than PATH_LONG_NS is not measured any further. The first data of a connection
 * starts the first measurement, and the ring reaches RING_MAX by growing twice, so that it grows before TCP's
 * congestion window does: that reaches the size of the first ring after four round trips, and 4 MiB after eight. If the
 * ring grew later, the sender would be idle in between, and TCP would not open its window. At 1 Gbit/s and 20 ms that
 * cost 0.2 s.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/settings.h"
#include "core/memory/memory.h"
#include "core/queue/nic.h"
#include "core/queue/socket.h"
#include "conn.h"

#define PATH_LONG_NS (NS_PER_S / 1000) /* a shorter round trip needs no larger ring */
#define GROWTH 8                       /* how many times as large the next ring is */
#define RING_FULL_OUT                                                                                          \
    2 /* no growth while the ring holds more than this fraction (1 / 2) of its size: the application lags */

/* Bytes of all rings of the process that have grown. Pairs with nothing: it is only a budget. */
static _Atomic uint64_t rings_size;

static bool may_grow(const struct conn *conn)
{
    return sock_is_stream(conn->sock) && (conn->peer.flags & HELLO_RING_GROWS) != 0;
}

void xs_ring_begin(struct conn *conn)
{
    conn->peer_ring = (struct peer_ring){.addr = conn->peer.recv_ring_addr,
                                         .size = conn->peer.recv_ring_size,
                                         .rkey = conn->peer.recv_ring_rkey};
    conn->path = (struct path){.is_measured = may_grow(conn), .is_due = may_grow(conn), .trip = UINT64_MAX};
}

/* ---- Sending: the path ------------------------------------------------------------------------------ */

void xs_path_blocked(struct conn *conn)
{
    struct path *path = &conn->path;

    if (!path->times_trip)
        path->is_due = true;
    if (!path->times_ring && conn->tx.ring_sent - conn->tx.ring_acked == conn->peer_ring.size) {
        path->times_ring = true;
        path->ring_began = now_ns();
        path->ring_until = conn->tx.ring_sent;
    }
}

void xs_path_start_trip(struct conn *conn)
{
    struct path *path = &conn->path;

    path->is_due = false;
    path->times_trip = true;
    path->trip_began = now_ns();
    path->until = conn->sq.tail;
}

static void end_trip(struct path *path, uint64_t now)
{
    uint64_t trip = now - path->trip_began;

    path->times_trip = false;
    path->trips += path->trips < PATH_TRIPS;
    if (trip < path->trip)
        path->trip = trip;
    if (path->trip < PATH_LONG_NS)
        path->is_measured = path->is_due = path->times_ring = false;
}

static void end_turn(struct conn *conn, uint64_t now)
{
    struct path *path = &conn->path;

    path->times_ring = false;
    if (!path_is_long(conn) || (now - path->ring_began) / 2 >= path->trip || conn->peer_ring.size >= RING_MAX)
        return;
    conn->tx.due |= DUE_RING_WANTED;
    xs_ring_say(conn); /* at once, since the connection may not run again before the next acknowledgement */
}

void xs_path_progress(struct conn *conn)
{
    struct path *path = &conn->path;
    bool is_trip_over = path->times_trip && (int32_t)(conn->sq.head - path->until) >= 0;
    bool is_turn_over = path->times_ring && conn->tx.ring_acked >= path->ring_until;

    if (!is_trip_over && !is_turn_over)
        return;
    uint64_t now = now_ns();

    if (is_trip_over)
        end_trip(path, now);
    if (is_turn_over && path->is_measured)
        end_turn(conn, now);
}

void xs_ring_offered(struct conn *conn, const struct control *control)
{
    struct peer_ring *ring = &conn->peer_ring;

    if (!ring->is_asked || control->length <= ring->size || control->length > HELLO_RECV_RING_MAX ||
        control->addr + control->length < control->addr) {
        xs_violation(conn, "an invalid ring buffer");
        return;
    }
    *ring = (struct peer_ring){
        .addr = control->addr, .size = control->length, .rkey = control->rkey, .is_new = true};
    conn->path.times_ring = false;
    conn->tx.due &= (uint8_t)~DUE_RING_WANTED;
}

/* ---- Receiving: a larger ring ------------------------------------------------------------------------ */

void xs_ring_wanted(struct conn *conn)
{
    if (!may_grow(conn))
        xs_violation(conn, "a request for a larger ring buffer, which was not agreed on");
    else
        conn->tx.due |= DUE_RING;
}

static void unmap_ring(uint8_t *data, uint64_t size)
{
    munmap(data, size);
    atomic_fetch_sub_explicit(&rings_size, size, memory_order_relaxed);
}

/* False: there is no memory, or RINGS_MAX, or exs_ring_bytes of exs_init_config, would be exceeded. */
static bool map_ring(struct next_ring *ring, uint64_t size)
{
    uint64_t most = settings()->rings_max != 0 ? settings()->rings_max : RINGS_MAX;

    if (atomic_fetch_add_explicit(&rings_size, size, memory_order_relaxed) + size > most)
        ring->data = MAP_FAILED;
    else
        ring->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring->data != MAP_FAILED) {
        ring->size = size;
        return true;
    }
    ring->data = NULL;
    atomic_fetch_sub_explicit(&rings_size, size, memory_order_relaxed);
    return false;
}

/* Makes a ring of the message's length, and stores address and key in the message. The address by which the peer knows
 * the ring is random, as that of the first ring (choose_iova()), and page-aligned. Returns 0 or an errno. */
static int make_ring(struct conn *conn, struct control *control)
{
    struct next_ring *ring = &conn->ring.next;
    uint64_t size = control->length;
    int error = random_bytes(&control->addr, sizeof control->addr);

    if (error != 0)
        return error;
    control->addr &= UINT64_C(0x7fffffff0000);
    if (!map_ring(ring, size))
        return ENOMEM;
    ring->mr = xs_register_at(&conn->domain, ring->data, size, control->addr,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (ring->mr != NULL) {
        control->rkey = ring->mr->rkey;
        if (conn->device->holds_no_pages)
            madvise(ring->data, size, MADV_DONTNEED); /* registration touched all pages; on failure they stay */
        return 0;
    }
    error = errno;
    unmap_ring(ring->data, size);
    *ring = (struct next_ring){0};
    return error;
}

/* The old ring is empty, and the peer does not write there any more: free it. */
static void replace_ring(struct conn *conn)
{
    struct next_ring *next = &conn->ring.next;

    if (conn->ring.grown_mr != NULL) {
        conn->device->dereg_mr(conn->ring.grown_mr);
        unmap_ring(conn->ring.data, conn->ring.size);
    } else if (conn->device->holds_no_pages) { /* its rkey stays valid: tokens name the connection by it */
        madvise(conn->ring.data, conn->ring.size, MADV_DONTNEED);
    }
    conn->ring.grown_mr = next->mr;
    conn->ring.data = next->data;
    conn->ring.size = next->size;
    conn->ring.mask = next->size - 1;
    conn->ring.ack_due = next->size / 4;
    *next = (struct next_ring){0};
}

static bool wants_growth(struct conn *conn)
{
    if (conn->ring.next.is_used && conn->ring.out >= conn->ring.next.from)
        replace_ring(conn);
    return conn->ring.next.data == NULL && conn->sock->options.receive_buffer == 0 &&
           conn->ring.size * GROWTH <= RING_MAX && conn->state.reading == READ_OPEN &&
           conn->ring.in - conn->ring.out <= conn->ring.size / RING_FULL_OUT;
}

/* Offer a larger ring to the peer. If that is not possible, the connection keeps the ring that it has. */
static void offer_ring(struct conn *conn)
{
    struct control control = {.type = CONTROL_RING};

    if (conn->credits.available <= CREDITS_KEPT || conn_sq_free(conn) == 0)
        return;
    conn->tx.due &= (uint8_t)~DUE_RING;
    if (!wants_growth(conn))
        return;
    control.length = conn->ring.size * GROWTH;
    int error = make_ring(conn, &control);

    if (error != 0) {
        errno = error;
        xs_log("connection %d: cannot allocate a ring buffer of %llu bytes", conn->sock->number,
               (unsigned long long)control.length);
        return;
    }
    xs_control_send(conn, &control, CREDITS_KEPT, POSTED_CONTROL);
}

void xs_ring_say(struct conn *conn)
{
    struct control control = {.type = CONTROL_RING_WANTED};

    if (conn->tx.due & DUE_RING_WANTED && xs_control_send(conn, &control, CREDITS_KEPT, POSTED_CONTROL)) {
        conn->tx.due &= (uint8_t)~DUE_RING_WANTED;
        conn->peer_ring.is_asked = true;
    }
    if (conn->tx.due & DUE_RING)
        offer_ring(conn);
}

bool xs_ring_switch(struct conn *conn)
{
    struct next_ring *next = &conn->ring.next;

    if (next->data == NULL || next->is_used)
        return false;
    next->is_used = true;
    next->from = conn->ring.in;
    return true;
}

uint64_t xs_ring_find(struct conn *conn, uint64_t from, uint8_t **at)
{
    const struct next_ring *next = &conn->ring.next;
    bool is_in_next = from >= next->from;
    uint64_t size = is_in_next ? next->size : conn->ring.size, offset = from & (size - 1);
    uint64_t bytes = (is_in_next ? conn->ring.in : next->from) - from;

    *at = (is_in_next ? next->data : conn->ring.data) + offset;
    if (conn->ring.out >= next->from)
        replace_ring(conn);
    return bytes < size - offset ? bytes : size - offset;
}

void xs_ring_free(struct conn *conn)
{
    if (conn->ring.next.data != NULL) {
        if (conn->ring.next.mr != NULL)
            conn->device->dereg_mr(conn->ring.next.mr);
        unmap_ring(conn->ring.next.data, conn->ring.next.size);
    }
    if (conn->ring.grown_mr != NULL) {
        conn->device->dereg_mr(conn->ring.grown_mr);
        unmap_ring(conn->ring.data, conn->ring.size);
    }
}

void xs_ring_reset(void)
{
    atomic_store_explicit(&rings_size, 0, memory_order_relaxed);
}
