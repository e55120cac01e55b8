/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owed.c - which events must arrive when both ends are driven and no other call is made. If the manual does not
 * promise an event the answer is no. See model.h.
 */
#include "model.h"

static bool fills(const struct op *op)
{
    return ((op->flags & WAITALL) || op->type == EXS_EVT_RECVFILE) && op->side->setup->type == SOCK_STREAM;
}

static bool is_owed_receiver(const struct op *op)
{
    return op->owed && is_receiver(op);
}

/* ---- Receives -------------------------------------------------------------------------------- */

/* Returns the number of bytes, or messages, that this end certainly sends. */
static size_t sent_at_least(const struct side *side)
{
    bool stream = side->setup->type == SOCK_STREAM;
    size_t sum = 0;

    for (int i = 0; i < side->count; i++) {
        const struct op *op = side->ops[i];
        if (!is_sender(op))
            continue;
        if (op->owed)
            sum += may_end_short(op) || (op->flags & DONTWAIT) ? 0 : stream ? op->length : 1;
        else
            sum += stream ? op->moved : op->error == 0;
    }
    return sum;
}

/* Returns the number of these bytes, or messages, that earlier receives may take, or SIZE_MAX if one of them
 * may delay all others. */
static size_t taken_before(const struct op *op)
{
    const struct side *side = op->side;
    size_t sum = side->consumed;

    for (int i = 0; i < side->count && side->ops[i] != op; i++) {
        const struct op *before = side->ops[i];
        if (!is_owed_receiver(before))
            continue;
        if (before->flags & PEEK)
            return SIZE_MAX;
        sum += side->setup->type == SOCK_STREAM ? before->length : 1;
    }
    return sum;
}

static bool receiver_must(const struct op *op)
{
    const struct side *side = op->side, *peer = other_side(side);
    size_t sent = sent_at_least(peer), taken = taken_before(op), least = fills(op) ? op->length : 1;

    if (side->reads_no_more || (op->flags & DONTWAIT) || (peer->enders > 0 && peer->unsure_enders == 0))
        return true;
    if ((op->flags & PEEK) && least > side->window * 3 / 4)
        least = side->window * 3 / 4;
    return taken < sent && sent - taken >= least;
}

/* ---- Sends ----------------------------------------------------------------------------------- */

static size_t sent_up_to(const struct op *op)
{
    bool stream = op->side->setup->type == SOCK_STREAM;
    size_t sum = 0;

    for (int i = 0; i < op->side->count; i++) {
        const struct op *before = op->side->ops[i];
        if (is_sender(before))
            sum += !stream ? before->owed || before->error == 0 : before->owed ? before->length : before->moved;
        if (before == op)
            break;
    }
    return sum;
}

/* Returns the number of bytes, or messages, for which the peer has buffers, in addition to those that receives
 * took. */
static size_t room_of(const struct side *side)
{
    size_t recv_ring = side->window * 3 / 4, asked = 0;
    bool all_fill = true;

    for (int i = 0; i < side->count; i++) {
        const struct op *op = side->ops[i];
        if (!is_owed_receiver(op))
            continue;
        all_fill = all_fill && fills(op) && !(op->flags & PEEK);
        asked += side->setup->type == SOCK_STREAM ? op->length : 1;
    }
    if (side->setup->type == SOCK_SEQPACKET)
        return asked;
    return all_fill && asked > recv_ring ? asked : recv_ring;
}

static bool sender_must(const struct op *op)
{
    const struct side *peer = other_side(op->side);

    return (op->flags & DONTWAIT) || (!peer->reads_no_more && sent_up_to(op) <= peer->consumed + room_of(peer));
}

/* For operations that may wait behind sends. */
static bool all_before_must(const struct op *op)
{
    for (int i = 0; i < op->side->count && op->side->ops[i] != op; i++) {
        const struct op *before = op->side->ops[i];
        if (before->owed && is_sender(before) && !sender_must(before))
            return false;
    }
    return true;
}

bool must_come(const struct op *op)
{
    const struct side *side = op->side, *peer = other_side(side);

    if (!op->owed || (op->flags & UNSIGNALED))
        return false;
    if (side->closed || op->may_be_cut)
        return true;
    if (peer->closed)
        return peer->gone || !peer->close;
    if (is_receiver(op))
        return receiver_must(op);
    if (is_sender(op))
        return sender_must(op);
    return (op->type == EXS_EVT_SHUTDOWN && op->how == SHUT_RD) || all_before_must(op);
}
