/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * early.c - sends that end before all of their bytes are sent: the table in exs(7). If the manual does not say
 * whether a send ended like this, the answer is PERHAPS. See model.h.
 */
#include "model.h"

static unsigned sequence; /* number of calls that started an operation, and of events */

bool is_silent(const struct op *op)
{
    return op->type == EXS_EVT_SEND && (op->flags & UNSIGNALED) && (op->flags & NO_QUEUE);
}

bool may_end_short(const struct op *op)
{
    return op->may_be_cut || op->may_be_dropped;
}

static bool is_stream(const struct side *side)
{
    return side->setup->type == SOCK_STREAM;
}

/* Returns whether the send may have timed out. Only its event tells. */
static bool is_failing(const struct op *op)
{
    return is_sender(op) && op->timed && op->owed && is_stream(op->side);
}

bool may_have_failed(const struct side *side)
{
    for (int i = 0; i < side->count; i++)
        if (is_failing(side->ops[i]))
            return true;
    return false;
}

enum torn { WHOLE, PERHAPS, TORN };

static bool was_cut(const struct op *op)
{
    return !op->owed && op->error != 0 && op->moved > 0 && op->moved < op->length;
}

static bool may_yet_be_cut(const struct op *op)
{
    return op->owed && op->may_be_cut;
}

/* Returns whether the send `by` has continued the stream after the one that was cut off. */
static enum torn mended(const struct op *cut, const struct op *by)
{
    if (!is_sender(by) || by->number <= cut->number)
        return TORN;
    if (!by->owed && by->moved > 0 && by->began > cut->ended)
        return WHOLE;
    return by->owed || by->moved > 0 ? PERHAPS : TORN;
}

/* Returns whether the stream ends in the middle of a send. */
static enum torn torn(const struct side *side)
{
    enum torn all = WHOLE;

    for (int i = 0; i < side->count && is_stream(side); i++) {
        const struct op *op = side->ops[i];
        if (!is_sender(op) || !(was_cut(op) || may_yet_be_cut(op)))
            continue;
        enum torn this = was_cut(op) ? TORN : PERHAPS;
        for (int j = 0; j < side->count && was_cut(op); j++) {
            enum torn other = mended(op, side->ops[j]);
            this = other < this ? other : this;
        }
        all = this > all ? this : all;
    }
    return all;
}

/* Sends behind one that timed out have not been sent. */
static void check_behind(const struct op *op)
{
    for (int i = 0; i < op->side->count && op->side->ops[i] != op; i++) {
        const struct op *before = op->side->ops[i];
        if (is_stream(op->side) && is_sender(before) && !before->owed && before->error == ETIMEDOUT &&
            op->began < before->ended && op->error == 0)
            wrong("%s: sent behind %u, which had failed", op_text(op), before->number);
    }
}

void early_start(struct op *op)
{
    struct side *side = op->side;
    bool failing = may_have_failed(side), is_sent = is_sender(op) || is_ender(op);

    op->began = ++sequence;
    op->may_be_dropped = failing && is_sent;
    if (is_silent(op) && (failing || op->timed))
        side->setup->may_break = true;
    if (!is_ender(op))
        return;
    enum torn now = torn(side);

    op->behind_a_part = now == TORN && op->type == EXS_EVT_SHUTDOWN;
    if (now != WHOLE)
        side->setup->may_break = true;
}

void early_event(struct op *op)
{
    op->ended = ++sequence;
    if (is_sender(op) || is_ender(op))
        check_behind(op);
    if (is_ender(op) && op->error == 0 && op->behind_a_part)
        wrong("%s: the end of the stream was sent behind a part of a send", op_text(op));
}

/* A cancelled send takes the end of stream behind it along, which is then not sent. */
void early_cancel(struct side *side)
{
    if (torn(side) != WHOLE && side->enders + side->unsure_enders > 0)
        side->setup->may_break = true;
}

void early_close(struct side *side)
{
    enum torn now = torn(side);

    if (now != WHOLE)
        side->setup->may_break = true;
    side->may_not_end = now == TORN && side->enders + side->unsure_enders == 0;
}
