/* SPDX-License-Identifier: BSD-2-Clause */
/* place.c - where the bytes of a receive go. See place.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/copy.h"
#include "core/base/nofault.h"
#include "core/file/sink.h"
#include "core/file/vector.h"
#include "core/memory/memory.h"
#include "core/queue/nic.h"
#include "core/queue/socket.h"
#include "conn.h"
#include "place.h"

/* ---- Slots in the ring buffer ---------------------------------------------------------------------- */

/* The rkey that the peer gets for a slot is that of the whole ring buffer, which the peer may write to anyway. */
_Static_assert(ADVERTS_MAX *BOUNCE_SIZE <= RECV_RING_SIZE, "a place for each advertisement");

/* Take a free slot. One is free, because only advertised receives have a slot, and the caller checked that one more may
 * be advertised. */
static uint8_t *take_recv_ring(struct conn *conn)
{
    int number = ffs((int)~conn->rx.slots) - 1;

    conn->rx.slots |= 1u << number;
    return conn->ring.data + (size_t)number * BOUNCE_SIZE;
}

static void leave_recv_ring(struct conn *conn, struct op *op)
{
    conn->rx.slots &= ~(1u << (op->in.recv_ring - conn->ring.data) / BOUNCE_SIZE);
    op->in.recv_ring = NULL;
}

void xs_place_pass(struct op *from, struct op *to)
{
    to->in.recv_ring = from->in.recv_ring;
    from->in.recv_ring = NULL;
}

/* ---- The pieces of a receive ------------------------------------------------------------------- */

static struct piece *current_piece(const struct op *op)
{
    return op->pieces + op->in.piece;
}

struct place xs_place_next(const struct op *op)
{
    if (op->in.piece == op->piece_count)
        return (struct place){0};
    /* The base of a piece in a file is NULL, and adding an offset to NULL is undefined, hence the cast. */
    return (struct place){.addr = (uint8_t *)((uintptr_t)current_piece(op)->base + op->in.in_piece),
                          .length = current_piece(op)->length - op->in.in_piece};
}

/* Deregister the memory that was registered for this operation only: the piece that it was filling. */
static void forget_one_off(struct conn *conn, struct op *op)
{
    if (op->one_off != NULL)
        conn->device->dereg_mr(op->one_off);
    op->one_off = NULL;
}

static void skip_full(struct op *op)
{
    while (op->in.piece < op->piece_count && op->in.in_piece == current_piece(op)->length) {
        op->in.piece++;
        op->in.in_piece = 0;
    }
}

void xs_place_into(struct op *op, struct piece *pieces, uint32_t count)
{
    op->pieces = pieces;
    op->piece_count = count;
    op->length = 0;
    for (uint32_t i = 0; i < count; i++)
        op->length += pieces[i].length;
    skip_full(op);
}

/* Like advance_piece(), for pieces that lie in files. Out of line, because most receives have none. */
static __attribute__((noinline)) void advance_sink(struct conn *conn, struct op *op, uint64_t bytes)
{
    op->in.in_piece += bytes;
    int error = xs_sink_filled(op->in.sink, op->in.in_piece, &conn->domain);

    if (op->error == 0)
        op->error = error;
    if (op->in.in_piece == current_piece(op)->length)
        forget_one_off(conn, op);
    skip_full(op);
}

static void advance_piece(struct conn *conn, struct op *op, uint64_t bytes)
{
    op->in.in_piece += bytes;
    if (op->in.in_piece < current_piece(op)->length)
        return;
    forget_one_off(conn, op);
    skip_full(op);
}

/* ---- Destinations (places) -------------------------------------------------------------------- */

static __attribute__((noinline)) bool is_large_apart(const struct op *op)
{
    uint64_t room = xs_place_next(op).length;

    if (op->in.peeks || room < DIRECT_MIN)
        return false;
    return xs_sink_is_file(op->in.sink, op->in.piece)
               ? xs_sink_may_map(op->in.sink, op->in.piece, room)
               : current_piece(op)->memory != NULL || current_piece(op)->length > BOUNCE_SIZE;
}

bool xs_place_is_large(const struct op *op)
{
    if (op->in.apart)
        return is_large_apart(op);
    const struct piece *piece = current_piece(op);

    /* An advertised receive must be recalled before it can time out, which takes a round trip. So unregistered
     * memory is not advertised if the receive has a timeout. */
    return xs_place_next(op).length >= DIRECT_MIN &&
           (piece->memory != NULL || (piece->length > BOUNCE_SIZE && op->deadline == 0));
}

/* Is the message short, and does its receive buffer consist of several pieces or of unregistered memory? Then
 * the peer writes it into the ring buffer. */
static bool goes_by_recv_ring(const struct conn *conn, const struct op *op)
{
    return !sock_is_stream(conn->sock) && op->length <= BOUNCE_SIZE &&
           (op->piece_count > 1 || op->pieces->memory == NULL);
}

static struct ibv_mr *piece_registration(struct conn *conn, struct op *op)
{
    const struct piece *piece = current_piece(op);

    if (piece->memory != NULL)
        return xs_memory_mr(piece->memory, &conn->domain, MEMORY_TO_RECEIVE);
    if (op->one_off == NULL)
        op->one_off = xs_register(&conn->domain, piece->base, piece->length,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return op->one_off;
}

int xs_place_whole(struct conn *conn, struct op *op)
{
    bool is_one = op->piece_count == 1 && (op->in.sink == NULL || !xs_sink_is_file(op->in.sink, 0));

    if (sock_is_stream(conn->sock) || is_one || op->length <= BOUNCE_SIZE)
        return 0;
    op->in.whole = calloc(1, op->length);
    if (op->in.whole != NULL)
        op->one_off = xs_register(&conn->domain, op->in.whole, op->length,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (op->one_off != NULL)
        return 0;
    free(op->in.whole); /* free() preserves errno */
    op->in.whole = NULL;
    return -1;
}

/* Where the peer writes the message before it is copied to the pieces; NULL: into the pieces themselves. */
static uint8_t *lies_at(const struct op *op)
{
    return op->in.recv_ring != NULL ? op->in.recv_ring : op->in.whole;
}

int xs_place_open(struct conn *conn, struct op *op, struct place *place)
{
    if (goes_by_recv_ring(conn, op)) {
        if (op->in.recv_ring == NULL)
            op->in.recv_ring = take_recv_ring(conn);
        *place = (struct place){.addr = (uint8_t *)(uintptr_t)conn->ring.iova +
                                        (op->in.recv_ring - conn->ring.data) + op->posted,
                                .length = op->length - op->posted,
                                .rkey = conn->ring.initial_mr->rkey};
    } else if (op->in.whole != NULL) {
        *place = (struct place){
            .addr = op->in.whole + op->posted, .length = op->length - op->posted, .rkey = op->one_off->rkey};
    } else if (op->in.sink != NULL && xs_sink_is_file(op->in.sink, op->in.piece)) {
        if (xs_sink_window(op->in.sink, op->in.piece, op->in.in_piece, &conn->domain, place) < 0)
            return -1;
    } else {
        const struct ibv_mr *mr = piece_registration(conn, op);

        if (mr == NULL)
            return -1;
        *place = xs_place_next(op);
        place->rkey = mr->rkey;
    }
    op->in.room = place->length;
    return 0;
}

void xs_place_written(struct conn *conn, struct op *op, uint64_t bytes)
{
    op->in.room -= bytes;
    if (lies_at(op) != NULL || bytes == 0) /* 0 bytes may arrive when all pieces are full */
        return;
    if (op->in.sink != NULL)
        advance_sink(conn, op, bytes);
    else
        advance_piece(conn, op, bytes);
}

static inline bool copy_to_memory(struct op *op, const uint8_t *from, uint64_t bytes)
{
    const struct memory *memory = current_piece(op)->memory;
    uint8_t *to = xs_place_next(op).addr;

    if (memory != NULL && !memory->nofault) {
        copy_near(to, from, bytes);
    } else if (!nofault_give(to, from, bytes)) {
        op->error = EFAULT;
        return false;
    }
    return true;
}

uint64_t xs_place_copy_to_sink(struct conn *conn, struct op *op, const uint8_t *from, uint64_t bytes)
{
    if (op->in.piece == op->piece_count) {
        op->error = EFBIG;
        return 0;
    }
    if (xs_sink_is_file(op->in.sink, op->in.piece))
        op->error = xs_sink_write(op->in.sink, op->in.piece, op->in.in_piece, from, &bytes);
    else if (!copy_to_memory(op, from, bytes))
        return 0;
    advance_sink(conn, op, bytes);
    return bytes;
}

uint64_t xs_place_copy(struct conn *conn, struct op *op, const uint8_t *from, uint64_t bytes)
{
    if (!copy_to_memory(op, from, bytes))
        return 0;
    advance_piece(conn, op, bytes);
    return bytes;
}

void xs_place_look(struct op *op)
{
    const uint8_t *first = xs_place_next(op).addr;

    if (!op->in.advertised || lies_at(op) != NULL || op->in.room == 0)
        return;
    if (op->in.sink != NULL && xs_sink_is_file(op->in.sink, op->in.piece))
        op->error = xs_sink_is_cut(op->in.sink) ? EIO : 0;
    else if (!nofault_readable(first, op->in.room))
        op->error = EFAULT;
}

/* ---- The end ------------------------------------------------------------------------------------ */

static void copy_message(struct conn *conn, struct op *op)
{
    uint64_t copied = 0;
    int before = op->error;

    op->error = 0;
    while (op->piece_count > 0 && copied < op->posted && op->error == 0) {
        uint64_t room = xs_place_next(op).length, left = op->posted - copied;
        uint64_t bytes = room < left ? room : left;

        copied += (op->in.sink != NULL ? xs_place_copy_to_sink : xs_place_copy)(conn, op, lies_at(op) + copied,
                                                                                bytes);
    }
    if (op->error == 0) {
        op->error = before;
        return;
    }
    op->posted = op->in.sink != NULL ? copied : 0;
    if (op->error == EFAULT)
        op->error = EACCES; /* the same errno as for memory that can't be registered */
}

static __attribute__((noinline)) void end_sink(struct conn *conn, struct op *op)
{
    int error = xs_sink_end(op->in.sink, op->in.in_piece, &conn->domain);

    if (op->error == 0)
        op->error = error;
}

void xs_place_end(struct conn *conn, struct op *op)
{
    if (lies_at(op) != NULL)
        copy_message(conn, op);
    if (op->in.recv_ring != NULL)
        leave_recv_ring(conn, op);
    forget_one_off(conn, op);
    if (op->in.sink != NULL) {
        end_sink(conn, op);
    } else {
        xs_vector_leave(op->pieces, (int)op->piece_count);
        if (op->many != NULL)
            free(op->many);
    }
    if (op->in.whole != NULL)
        free(op->in.whole);
}
