/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiving side: advertising receives, filling them, copying out of the hidden buffer.
 *
 * Receives are filled in the order in which they were posted. Those that are advertised are always the first
 * ones; on a STREAM nothing is advertised while the hidden buffer holds data, so the two ways in never overtake
 * each other (protocol.h).
 */
#include <errno.h>
#include <string.h>
#include "conn.h"
#include "fragile.h"
#include "library.h"
#include "memory.h"
#include "nic.h"
#include "sock.h"

static bool is_stream(const struct conn *conn)
{
    return conn->sock->type == SOCK_STREAM;
}

/* ---- Places ------------------------------------------------------------------------------------- */

/* A SEQPACKET's hidden buffer holds no stream: short messages arrive there, each in a place of its own, before
 * they are copied out. The key to a place opens all of the buffer, which is this peer's to write anyway. */
_Static_assert(ADVERTS_MAX *BOUNCE_SIZE <= HIDDEN_SIZE, "a place for each advertisement");

/* There is one: the others are those of receives that are advertised, and it is for one that may be. */
static uint8_t *take_place(struct conn *conn)
{
    int number = ffs((int)~conn->places) - 1;

    conn->places |= 1u << number;
    return conn->hidden + (size_t)number * BOUNCE_SIZE;
}

static void leave_place(struct conn *conn, const uint8_t *place)
{
    conn->places &= ~(1u << (place - conn->hidden) / BOUNCE_SIZE);
}

/* A short message, into the user's buffer. False: that can't be written, and the message is lost. */
static bool empty_place(struct conn *conn, struct op *op)
{
    bool good = op->buffer == NULL || fragile_give(op->buffer, op->place, op->posted);

    if (!good)
        op->posted = 0;
    leave_place(conn, op->place);
    return good;
}

/* Complete a receive with the bytes that it holds; the device is done with it. */
static void finish_receive(struct conn *conn, struct op *op, int error)
{
    STAILQ_REMOVE(&conn->recvs, op, op, link);
    if (op->advertised)
        conn->advertised--;
    if (op->place != NULL && !empty_place(conn, op)) {
        error = EACCES; /* as if it could not be registered */
        xs_conn_fail(conn, error);
    }
    if (op->one_off != NULL)
        conn->device->dereg_mr(op->one_off);
    if (op->memory != NULL)
        xs_memory_unuse(op->memory);
    op->event.exs_evt_union.exs_evt_xfer.exs_evt_length = op->posted;
    xs_op_complete(op, error);
}

/* ---- Advertising ---------------------------------------------------------------------------- */

/* Where the peer may write: the user's region, a place in the hidden buffer, or a registration for this
 * operation alone. 0, or -1 and errno. */
static int make_writable(struct conn *conn, struct op *op, uint8_t **addr, uint32_t *rkey)
{
    *addr = op->buffer + op->posted;
    if (op->mr == NULL && op->memory != NULL) {
        op->mr = xs_memory_mr(op->memory, &conn->domain);
    } else if (op->mr == NULL && op->length <= BOUNCE_SIZE && !is_stream(conn)) {
        if (op->place == NULL)
            op->place = take_place(conn);
        *addr = op->place + op->posted;
        *rkey = conn->hidden_mr->rkey;
        return 0;
    } else if (op->mr == NULL) {
        op->mr = op->one_off = xs_register(&conn->domain, op->buffer, op->length,
                                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    }
    if (op->mr == NULL)
        return -1;
    *rkey = op->mr->rkey;
    return 0;
}

static bool worth_advertising(const struct conn *conn, const struct op *op)
{
    if (!is_stream(conn))
        return true;
    return op->length - op->posted >= DIRECT_MIN && (op->memory != NULL || op->length > BOUNCE_SIZE);
}

/* False: not now, and so none behind it either. */
static bool advertise(struct conn *conn, struct op *op)
{
    uint8_t *addr;
    uint32_t rkey;

    if (conn->advertised >= conn->adverts_max || conn->credits <= CREDITS_KEPT_BY_CONTROL ||
        conn_sq_free(conn) == 0 || !worth_advertising(conn, op))
        return false;
    if (make_writable(conn, op, &addr, &rkey) < 0) {
        if (!is_stream(conn)) /* a STREAM falls back to the hidden buffer */
            xs_conn_fail(conn, errno);
        return false;
    }
    struct control control = {
        .type = CONTROL_ADVERT,
        .flags = op->waitall ? CONTROL_WAITALL : 0,
        .phase = conn->rx_phase + conn->rx_phase % 2, /* the next even one */
        .position = conn->rx_position,
        .addr = (uintptr_t)addr,
        .length = op->length - op->posted,
        .rkey = rkey,
    };

    if (!xs_control_send(conn, &control, CREDITS_KEPT_BY_CONTROL, POSTED_CONTROL))
        return false;
    conn->rx_phase = control.phase;
    op->advertised = true;
    conn->advertised++;
    return true;
}

static void advertise_all(struct conn *conn)
{
    struct op *op;

    if (conn->hidden_in != conn->hidden_out || conn->reading != READ_OPEN || conn->state != CONN_OPEN)
        return;
    STAILQ_FOREACH (op, &conn->recvs, link) {
        if (!op->advertised && !advertise(conn, op))
            return;
    }
}

/* ---- Filling -------------------------------------------------------------------------------- */

static bool copy_to_user(const struct op *op, const uint8_t *from, uint64_t bytes)
{
    uint8_t *to = op->buffer + op->posted;

    if (op->memory == NULL || op->memory->fragile)
        return fragile_give(to, from, bytes);
    memcpy(to, from, bytes);
    return true;
}

/* Copy what lies together in the hidden buffer into the first receive. False: that can't be written; the bytes
 * stay, for the next one. */
static bool copy_out(struct conn *conn, struct op *op)
{
    uint64_t offset = conn->hidden_out % HIDDEN_SIZE, bytes = conn->hidden_in - conn->hidden_out;

    if (bytes > HIDDEN_SIZE - offset)
        bytes = HIDDEN_SIZE - offset;
    if (bytes > op->length - op->posted)
        bytes = op->length - op->posted;
    if (!copy_to_user(op, conn->hidden + offset, bytes))
        return false;
    op->posted += bytes;
    conn->hidden_out += bytes;
    return true;
}

static void empty_hidden(struct conn *conn)
{
    while (conn->hidden_in != conn->hidden_out && !STAILQ_EMPTY(&conn->recvs)) {
        struct op *op = STAILQ_FIRST(&conn->recvs);

        if (!copy_out(conn, op))
            finish_receive(conn, op, EFAULT);
        else if (op->posted == op->length || (!op->waitall && conn->hidden_in == conn->hidden_out))
            finish_receive(conn, op, 0);
    }
}

/* The peer may still write for this receive, but into the hidden buffer, so the user need not wait for that: a
 * silent operation without a buffer takes its place in the line. False: no memory for one. */
static bool replace(struct conn *conn, struct op *op)
{
    struct op *stand_in =
        xs_op_new(atomic_load(&conn->sock->home), EXS_EVT_RECV, conn->sock->number, NULL, NULL);

    if (stand_in == NULL)
        return false;
    stand_in->silent = true;
    stand_in->length = op->length;
    stand_in->place = op->place;
    stand_in->advertised = true;
    conn->advertised++;
    STAILQ_INSERT_AFTER(&conn->recvs, op, stand_in, link);
    op->place = NULL;
    finish_receive(conn, op, 0);
    return true;
}

/* Nothing more will come: an orderly end for every receive that the peer cannot be writing into. */
static void end(struct conn *conn)
{
    struct op *op = STAILQ_FIRST(&conn->recvs), *next;

    for (; op != NULL; op = next) {
        bool exposed = op->advertised && conn->reading != READ_ENDED && conn->state != CONN_DRAINED;

        next = STAILQ_NEXT(op, link);
        if (!exposed)
            finish_receive(conn, op, 0);
        else if (op->buffer != NULL && (op->place == NULL || conn->filling || !replace(conn, op)))
            return;
    }
}

/* Is the first or the last of the bytes gone that the peer was to write? The device can't say that the
 * connection broke by that, but whoever looks can. */
static bool is_gone(const struct op *op)
{
    uint8_t byte;

    return op->advertised && op->place == NULL && op->buffer != NULL && op->posted < op->length &&
           (!fragile_copy(&byte, op->buffer + op->posted, 1) ||
            !fragile_copy(&byte, op->buffer + op->length - 1, 1));
}

/* Nothing more will come, and not in order: the device is done with what the receives hold. */
static void fail(struct conn *conn)
{
    struct op *op;

    while ((op = STAILQ_FIRST(&conn->recvs)) != NULL)
        finish_receive(conn, op, is_gone(op) ? EFAULT : xs_conn_errno(conn));
}

void xs_rx_run(struct conn *conn)
{
    empty_hidden(conn);
    if (conn->hidden_in == conn->hidden_out && conn->reading != READ_OPEN)
        end(conn);
    else if (conn->state == CONN_DRAINED)
        fail(conn);
    else
        advertise_all(conn);
}

static void direct(struct conn *conn, uint32_t imm)
{
    struct op *op = STAILQ_FIRST(&conn->recvs);
    uint32_t bytes = imm & IMM_LENGTH;

    if (op == NULL || !op->advertised || bytes > op->length - op->posted) {
        xs_violation(conn, "data where nothing was advertised");
        return;
    }
    op->posted += bytes;
    conn->rx_position += bytes;
    conn->filling = (imm & IMM_MORE) != 0;
    if (conn->filling)
        return;
    if (imm & IMM_TRUNC)
        op->event.exs_evt_union.exs_evt_xfer.exs_evt_flags |= MSG_TRUNC;
    if (!is_stream(conn) || !op->waitall || op->posted == op->length)
        finish_receive(conn, op, 0);
}

static void unadvertise(struct conn *conn)
{
    struct op *op;

    STAILQ_FOREACH (op, &conn->recvs, link) {
        op->advertised = false;
    }
    conn->advertised = 0;
}

static void indirect(struct conn *conn, uint32_t bytes)
{
    if (bytes > HIDDEN_SIZE - (conn->hidden_in - conn->hidden_out)) {
        xs_violation(conn, "more than the hidden buffer holds");
        return;
    }
    conn->hidden_in += bytes;
    conn->rx_position += bytes;
    if (conn->rx_phase % 2 == 0) { /* what is advertised crossed with this: the peer will drop it */
        conn->rx_phase++;
        unadvertise(conn);
    }
}

void xs_rx_recalled(struct conn *conn)
{
    conn->recalling = false;
    unadvertise(conn);
    if (conn->filling) { /* the peer goes on with this one */
        STAILQ_FIRST(&conn->recvs)->advertised = true;
        conn->advertised = 1;
    }
}

/* Whether there can be such data, now. */
static bool may_come(const struct conn *conn, uint32_t imm)
{
    bool direct = imm & IMM_DIRECT, more = imm & IMM_MORE, truncated = imm & IMM_TRUNC;

    if (conn->reading == READ_ENDED || (imm & IMM_CREDITS) != 0 || (!direct && (more || conn->filling)))
        return false;
    return is_stream(conn) ? !truncated && (imm & IMM_LENGTH) != 0 : direct && !(more && truncated);
}

void xs_rx_data(struct conn *conn, uint32_t imm)
{
    if (!may_come(conn, imm))
        xs_violation(conn, "data that can't be");
    else if (imm & IMM_DIRECT)
        direct(conn, imm);
    else
        indirect(conn, imm & IMM_LENGTH);
}
