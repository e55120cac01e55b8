/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rx.c - the receiving side: advertises receives, fills them, and copies data out of the ring buffer.
 *
 * Receives are filled in the order in which they were started. The advertised ones are always the first. On a STREAM
 * nothing is advertised while the ring buffer holds data, so direct and indirect data never overtake each other
 * (protocol.h).
 */
#include <errno.h>
#include "core/queue/socket.h"
#include "conn.h"
#include "place.h"

/* Complete a receive with the bytes that it holds and the errno in op->error. The device no longer uses its
 * memory. */
static void finish_receive(struct conn *conn, struct op *op)
{
    STAILQ_REMOVE(&conn->rx.recvs, op, op, link);
    if (op->in.advertised)
        conn->adverts.count--;
    xs_place_end(conn, op);
    /* The message can't be copied to its receive buffer. */
    if (op->error == EACCES && !sock_is_stream(conn->sock))
        xs_conn_fail_locally(conn);
    xs_op_moved(op, op->posted);
    xs_op_complete(op, op->error);
}

static void finish_stopped(struct conn *conn, struct op *op)
{
    op->error = op_stopped(op, op->posted);
    finish_receive(conn, op);
}

/* ---- Advertising ---------------------------------------------------------------------------- */

/* How many advertisements may be outstanding now? Those that cross with indirect data cost credits for nothing, and on
 * a long path a sender that does not pause can never use any. So after a crossing only a few are tried. */
static uint32_t adverts_now(const struct conn *conn)
{
    return conn->adverts.used || !sock_is_stream(conn->sock) || conn->adverts.max < ADVERTS_TRIED
               ? conn->adverts.max
               : ADVERTS_TRIED;
}

static __attribute__((noinline)) void adverts_crossed(struct conn *conn)
{
    conn->adverts.used = false;
    if (conn->ring.grown_mr == NULL)
        return;
    conn->adverts.resume_at = conn->ring.in + conn->adverts.skip * conn->ring.size;
    conn->adverts.skip = conn->adverts.skip < ADVERTS_SKIP_MAX ? 2 * conn->adverts.skip + 1 : ADVERTS_SKIP_MAX;
}

/* Advertise one receive. False: not possible now, so the receives behind it can't be advertised either. */
static bool advertise_recv(struct conn *conn, struct op *op)
{
    struct place place;

    if ((sock_is_stream(conn->sock) && !xs_place_is_large(op)) || conn->adverts.count >= adverts_now(conn) ||
        conn->credits.available <= CREDITS_KEPT || conn_sq_free(conn) == 0)
        return false;
    if (xs_place_open(conn, op, &place) < 0) {
        if (!sock_is_stream(conn->sock)) { /* a STREAM uses the ring buffer instead */
            op->error = errno;
            xs_conn_fail_locally(conn);
        }
        return false;
    }
    struct control control = {
        .type = CONTROL_ADVERT,
        .flags = op->in.waitall ? CONTROL_WAITALL : 0,
        .phase = conn->rx.phase + conn->rx.phase % 2, /* rounded up to the next even phase */
        .position = conn->rx.position,
        .addr = (uintptr_t)place.addr,
        .length = place.length,
        .rkey = place.rkey,
    };

    if (!xs_control_send(conn, &control, CREDITS_KEPT, POSTED_CONTROL))
        return false;
    conn->rx.phase = control.phase;
    op->in.advertised = true;
    conn->adverts.count++;
    return true;
}

static void advertise_all(struct conn *conn)
{
    struct op *op;

    if (conn->ring.in != conn->ring.out || conn->state.reading != READ_OPEN || conn->state.stage != CONN_OPEN ||
        conn->ring.in < conn->adverts.resume_at)
        return;
    STAILQ_FOREACH (op, &conn->rx.recvs, link) {
        if (!op->in.advertised && !advertise_recv(conn, op))
            return;
        if (op->in.recalled || op->in.room < op->length - op->posted)
            return; /* the rest of this receive must be advertised before the receives behind it */
    }
}

/* ---- Filling -------------------------------------------------------------------------------- */

typedef uint64_t copy_fn(struct conn *conn, struct op *op, const uint8_t *from, uint64_t bytes);

/* Copy bytes that are contiguous in the ring buffer, starting at position `from`, into the next free part of
 * the receive. Returns the number of bytes copied. Bytes that can't be written stay in the ring for the next
 * receive. */
static inline uint64_t copy_out(struct conn *conn, struct op *op, uint64_t from, copy_fn *copy)
{
    uint64_t offset = from & conn->ring.mask, bytes = conn->ring.in - from;
    uint64_t room = xs_place_next(op).length;
    uint8_t *at = conn->ring.data + offset;

    if (conn->ring.next.is_used)
        bytes = xs_ring_find(conn, from, &at);
    else if (bytes > conn->ring.size - offset)
        bytes = conn->ring.size - offset;
    if (bytes > room)
        bytes = room;
    bytes = copy(conn, op, at, bytes);
    op->posted += bytes;
    return bytes;
}

/* Copy bytes and leave them in the ring buffer (MSG_PEEK). False: the receive must wait for more bytes. */
static bool peek_bytes(struct conn *conn, struct op *op)
{
    /* The peer can send at least this many bytes before it needs an acknowledgement. */
    uint64_t most = conn->ring.size - conn->ring.ack_due;
    uint64_t from = conn->ring.out, wanted = op->length < most ? op->length : most;
    bool more_may_come = conn->state.reading == READ_OPEN && conn->state.stage != CONN_DRAINED;

    if (op->in.waitall && more_may_come && conn->ring.in - from < wanted)
        return false;
    if (op->in.waitall && conn->state.reading != READ_OPEN && conn->ring.in - from < wanted)
        xs_op_flag(op, EXS_EOF);
    while (from != conn->ring.in && op->posted < op->length && op->error == 0)
        from += copy_out(conn, op, from, xs_place_copy);
    return true;
}

static __attribute__((noinline)) bool empty_into_apart(struct conn *conn, struct op *op)
{
    if (op->in.peeks)
        return peek_bytes(conn, op);
    conn->ring.out += copy_out(conn, op, conn->ring.out, xs_place_copy_to_sink);
    return true;
}

static void empty_recv_ring(struct conn *conn)
{
    while (conn->ring.in != conn->ring.out && !STAILQ_EMPTY(&conn->rx.recvs)) {
        struct op *op = STAILQ_FIRST(&conn->rx.recvs);

        if (!op->in.apart)
            conn->ring.out += copy_out(conn, op, conn->ring.out, xs_place_copy);
        else if (!empty_into_apart(conn, op))
            return;
        if (op->error != 0 || op->posted == op->length ||
            (!op->in.waitall && conn->ring.in == conn->ring.out) || op->in.peeks)
            finish_receive(conn, op);
    }
}

static void finish_at_end(struct conn *conn, struct op *op)
{
    conn->rx.ended = true;
    xs_op_flag(op, EXS_EOF);
    finish_receive(conn, op);
}

/* A direct transfer is complete. Bytes that arrive after SHUT_RD has ended the stream are discarded, also if
 * the peer wrote them into a receive that was waiting for the peer to answer a recall. */
static void finish_direct(struct conn *conn, struct op *op)
{
    if (conn->rx.ended && !op->silent) {
        op->posted = 0;
        finish_at_end(conn, op);
    } else {
        finish_receive(conn, op);
    }
}

/* Make a silent (no event) receive for the library itself, without a user buffer: its bytes go to a slot in the
 * ring buffer and are discarded. NULL: no memory. */
static struct op *new_stand_in(struct conn *conn, uint64_t length)
{
    struct op *stand_in =
        xs_op_new_at_home(atomic_load(&conn->sock->home), EXS_EVT_RECV, conn->sock->number, NULL, NULL);

    if (stand_in == NULL)
        return NULL;
    stand_in->silent = true;
    stand_in->length = length;
    stand_in->pieces = &stand_in->only;
    stand_in->only.memory = NULL;
    return stand_in;
}

/* The peer may still write for this receive, but it writes into the ring buffer, so the application's receive
 * can complete now: a stand-in takes its position in the list. False: no memory for the stand-in. */
static bool replace_recv(struct conn *conn, struct op *op)
{
    struct op *stand_in = new_stand_in(conn, op->length);

    if (stand_in == NULL)
        return false;
    stand_in->in.room = op->in.room;
    stand_in->in.advertised = true;
    xs_place_pass(op, stand_in);
    conn->adverts.count++;
    STAILQ_INSERT_AFTER(&conn->rx.recvs, op, stand_in, link);
    finish_at_end(conn, op);
    return true;
}

/* No more bytes will arrive, and the stream ended in order: complete every receive that the peer cannot be
 * writing into. */
static void end_recvs(struct conn *conn)
{
    struct op *op = STAILQ_FIRST(&conn->rx.recvs), *next;

    for (; op != NULL; op = next) {
        bool exposed =
            op->in.advertised && conn->state.reading < READ_ENDED && conn->state.stage != CONN_DRAINED;

        next = STAILQ_NEXT(op, link);
        if (!exposed)
            finish_at_end(conn, op);
        else if (op->piece_count > 0 &&
                 (op->in.recv_ring == NULL || conn->rx.filling || !replace_recv(conn, op)))
            return;
    }
}

/* No more bytes will arrive, and the connection broke: fail the receives. The device no longer uses their
 * buffers. */
static void fail_recvs(struct conn *conn)
{
    struct op *op;

    while ((op = STAILQ_FIRST(&conn->rx.recvs)) != NULL) {
        xs_place_look(op);
        if (op->error == 0 && sock_is_stream(conn->sock)) { /* a blocking call returns what it got */
            op->stop = xs_conn_errno(conn);
            op->error = op_stopped(op, op->posted);
        } else if (op->error == 0) {
            op->error = xs_conn_errno(conn);
        }
        finish_receive(conn, op);
    }
}

inline void xs_rx_run(struct conn *conn)
{
    bool arrived = conn->ring.in != conn->ring.out && !conn->rx.ended;

    if (arrived) {
        empty_recv_ring(conn);
        arrived = conn->ring.in != conn->ring.out;
    }
    if (!arrived && conn->state.reading != READ_OPEN)
        end_recvs(conn);
    else if (conn->state.stage == CONN_DRAINED)
        fail_recvs(conn);
    else if (!STAILQ_EMPTY(&conn->rx.recvs))
        advertise_all(conn);
}

static void direct_arrived(struct conn *conn, uint32_t imm)
{
    struct op *op = STAILQ_FIRST(&conn->rx.recvs);
    uint32_t bytes = imm & IMM_LENGTH;

    if (op == NULL || !op->in.advertised || bytes > op->in.room) {
        xs_violation(conn, "data without an advertisement");
        return;
    }
    conn->adverts.used = true;
    conn->adverts.skip = 0;
    op->posted += bytes;
    xs_place_written(conn, op, bytes);
    conn->rx.position += bytes;
    conn->rx.filling = (imm & IMM_MORE) != 0;
    if (conn->rx.filling)
        return;
    if (imm & IMM_TRUNC && !conn->rx.ended)
        xs_op_flag(op, MSG_TRUNC);
    if (!sock_is_stream(conn->sock) || !op->in.waitall || op->posted == op->length || op->error != 0) {
        finish_direct(conn, op);
    } else if (op->in.room == 0 || op->in.recalled) { /* advertise its next part, or this part again */
        op->in.advertised = op->in.recalled = false;
        conn->adverts.count--;
        if (op->stopped)
            finish_stopped(conn, op);
    }
}

static void withdraw_adverts(struct conn *conn)
{
    struct op *op;

    STAILQ_FOREACH (op, &conn->rx.recvs, link) {
        op->in.advertised = op->in.recalled = false;
    }
    conn->adverts.count = 0;
}

static void indirect_arrived(struct conn *conn, uint32_t bytes)
{
    if (bytes > ring_most(conn) - (conn->ring.in - conn->ring.out)) {
        xs_violation(conn, "more data than the ring buffer has room for");
        return;
    }
    conn->ring.in += bytes;
    conn->rx.position += bytes;
    /* The outstanding advertisements crossed with this data, so the peer will drop them. */
    if (conn->rx.phase % 2 == 0) {
        conn->rx.phase++;
        if (conn->adverts.count > 0)
            adverts_crossed(conn);
        withdraw_adverts(conn);
        xs_rx_end_stopped(conn);
    }
}

/* ---- Discarding ----------------------------------------------------------------------------- */

/* Discard a message: advertise one byte; the rest of the message is truncated. */
static bool discard_message(struct conn *conn)
{
    struct op *op = STAILQ_FIRST(&conn->rx.recvs);

    if (op == NULL) {
        op = new_stand_in(conn, 1);
        if (op == NULL)
            return false;
        STAILQ_INSERT_TAIL(&conn->rx.recvs, op, link);
    }
    if (!op->in.advertised)
        advertise_recv(conn, op);
    return true;
}

/* The application starts no more receives, but the peer may have to complete its sends before it receives those of this
 * side, so read and discard the peer's. */
void xs_rx_discard(struct conn *conn)
{
    if (conn->state.stage != CONN_OPEN || conn->state.reading >= READ_ENDED)
        return;
    if (sock_is_stream(conn->sock)) {
        if (STAILQ_EMPTY(&conn->rx.recvs))
            conn->ring.out = conn->ring.in;
        xs_control_run(conn); /* returns the ring's free space to the peer */
    } else if (!discard_message(conn)) {
        xs_conn_fail_locally(conn);
    }
}

/* ---- Recalling advertisements --------------------------------------------------------------- */

/* Ask the peer to drop the outstanding advertisements. The receives are advertised again only after the peer has
 * answered: otherwise the peer would drop the new advertisements, too. */
void xs_rx_recall(struct conn *conn)
{
    if (conn->adverts.count == 0 || conn->adverts.recalling || conn->state.stage != CONN_OPEN)
        return;
    conn->tx.due |= DUE_RECALL;
    conn->adverts.max = 0;
}

void xs_rx_recalled(struct conn *conn)
{
    conn->adverts.recalling = false;
    conn->adverts.max = conn_adverts_max(conn);
    withdraw_adverts(conn);
    if (conn->rx.filling) { /* the peer still writes into this receive until the transfer ends */
        struct op *op = STAILQ_FIRST(&conn->rx.recvs);

        op->in.advertised = op->in.recalled = true;
        conn->adverts.count = 1;
    }
    xs_rx_end_stopped(conn);
}

void xs_rx_stop(struct conn *conn, struct op *op, int error)
{
    op->stopped = true;
    op->stop = error;
    if (op->in.advertised && !op->in.recalled)
        xs_rx_recall(conn);
}

void xs_rx_end_stopped(struct conn *conn)
{
    struct op *op = STAILQ_FIRST(&conn->rx.recvs), *next;

    for (; op != NULL; op = next) {
        next = STAILQ_NEXT(op, link);
        if (op->stopped && !op->in.advertised)
            finish_stopped(conn, op);
    }
}

/* ---- Arriving data -------------------------------------------------------------------------- */

/* Does the protocol allow data with this immediate value in the current state? */
static bool may_come(struct conn *conn, uint32_t imm)
{
    bool direct = imm & IMM_DIRECT, more = imm & IMM_MORE, truncated = imm & IMM_TRUNC;

    if (conn->state.reading >= READ_ENDED || (imm & IMM_CREDITS) != 0 ||
        (!direct && (more || conn->rx.filling)))
        return false;
    if (sock_is_stream(conn->sock)) /* 0 bytes end a direct transfer that was cut off */
        return (!truncated || (!direct && xs_ring_switch(conn))) &&
               ((imm & IMM_LENGTH) != 0 || (direct && !more && conn->rx.filling));
    return direct && !(more && truncated);
}

inline void xs_rx_data(struct conn *conn, uint32_t imm)
{
    if (!may_come(conn, imm))
        xs_violation(conn, "invalid immediate data");
    else if (imm & IMM_DIRECT)
        direct_arrived(conn, imm);
    else
        indirect_arrived(conn, imm & IMM_LENGTH);
}
