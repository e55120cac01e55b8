/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reference.c - what the manual says of an operation: whether its call may fail, and what its event may
 * contain. Errors that only a shortage explains are violations here. See model.h.
 */
#include "model.h"

struct side *other_side(const struct side *side)
{
    return &side->setup->sides[!side->end];
}

bool is_sender(const struct op *op)
{
    return op->type == EXS_EVT_SEND || op->type == EXS_EVT_SENDMSG || op->type == EXS_EVT_SENDFILE;
}

bool is_receiver(const struct op *op)
{
    return op->type == EXS_EVT_RECV || op->type == EXS_EVT_RECVMSG || op->type == EXS_EVT_RECVFILE;
}

bool is_one_sided(const struct op *op)
{
    return op->type == EXS_EVT_RREAD || op->type == EXS_EVT_RWRITE;
}

bool is_ender(const struct op *op)
{
    return (op->type == EXS_EVT_SHUTDOWN && op->how != SHUT_RD) ||
           (op->type == EXS_EVT_SENDFILE && (op->flags & ENDS));
}

/* An operation in flight when an end closes: the connection may break. */
static bool is_on_its_way(const struct op *op)
{
    return op->owed && (is_sender(op) || is_one_sided(op) || is_ender(op));
}

const char *op_text(const struct op *op)
{
    static char text[120];

    snprintf(text, sizeof text, "%s %u of %u%c, %zu bytes", exs_strevent(op->type) + strlen("EXS_EVT_"),
             op->number, op->side->setup->pair, "ab"[op->side->end], op -> length);
    return text;
}

/* ---- Calls ------------------------------------------------------------------------------- */

static size_t pending_bytes(const struct side *side)
{
    size_t sum = 0;

    for (int i = 0; i < side->count; i++)
        sum += side->ops[i]->owed && is_sender(side->ops[i]) ? side->ops[i]->length : 0;
    return sum;
}

static bool has_owed_receiver(const struct side *side)
{
    for (int i = 0; i < side->count; i++)
        if (side->ops[i]->owed && is_receiver(side->ops[i]))
            return true;
    return false;
}

/* Returns the bytes of this end's sends that have certainly arrived, because their events or later ones have. */
static size_t bytes_arrived(const struct side *side)
{
    size_t sum = 0;
    int last = side->count - 1;

    while (last >= 0 && !(is_sender(side->ops[last]) && !side->ops[last]->owed && side->ops[last]->error == 0))
        last--;
    for (int i = 0; i <= last; i++) {
        const struct op *op = side->ops[i];
        if (is_sender(op))
            sum += op->owed ? may_end_short(op) ? 0 : op->length : op->moved;
    }
    return sum;
}

static bool end_has_arrived(const struct side *side)
{
    for (int i = 0; i < side->count; i++)
        if (is_ender(side->ops[i]) && !side->ops[i]->owed && side->ops[i]->error == 0)
            return true;
    return false;
}

/* Returns whether a receive would complete without waiting. */
static bool is_here(const struct side *side)
{
    const struct side *peer = other_side(side);

    if (has_owed_receiver(side))
        return false;
    return (side->setup->type == SOCK_STREAM && bytes_arrived(peer) > side->consumed) || end_has_arrived(peer);
}

static bool may_be_refused(const struct op *op, int error)
{
    const struct side *side = op->side, *peer = other_side(side);

    switch (error) {
    case EAGAIN:
        if (is_receiver(op))
            return (op->flags & DONTWAIT) &&
                   !((op->flags & (PEEK | WAITALL)) != (PEEK | WAITALL) && is_here(side));
        return is_sender(op) && ((op->flags & DONTWAIT) ||
                                 (pending_bytes(side) > 0 && pending_bytes(side) + op->length > side->limit));
    case EPIPE:
        return is_sender(op) && (side->enders + side->unsure_enders > 0 || peer->closed);
    case EOPNOTSUPP:
        return is_receiver(op) && (op->flags & PEEK) && side->setup->type == SOCK_SEQPACKET;
    case ECANCELED:
        return (is_sender(op) || is_ender(op)) && may_have_failed(side);
    case ECONNRESET:
        return side->setup->may_break || (is_one_sided(op) && peer->closed);
    default:
        return false;
    }
}

static bool must_be_refused(const struct op *op)
{
    const struct side *side = op->side;

    return (is_sender(op) && side->enders > 0) || ((op->flags & PEEK) && side->setup->type == SOCK_SEQPACKET);
}

static void note_write(struct op *op);
static void note_read(struct op *op);

bool reference_started(struct op *op, long result, int error)
{
    struct side *side = op->side;

    if (result != 0 && result != -1)
        wrong("%s: the call returned %ld", op_text(op), result);
    if (result == -1) {
        if (!may_be_refused(op, error))
            wrong("%s: refused with %s", op_text(op), strerrorname_np(error));
        return false;
    }
    if (must_be_refused(op))
        wrong("%s: it was not refused", op_text(op));
    if (side->count == OPS_MAX)
        wrong("too long a program");
    op->timed = (is_receiver(op) && side->recv_limit) || (is_sender(op) && side->send_limit);
    op->may_be_cut = op->timed;
    early_start(op);
    op->owed = true;
    side->ops[side->count++] = op;
    if (other_side(side)->closed && is_on_its_way(op) && op->type != EXS_EVT_SHUTDOWN)
        side->setup->may_break = true;
    if (is_ender(op) && may_end_short(op))
        side->unsure_enders++;
    else if (is_ender(op))
        side->enders++;
    if (op->type == EXS_EVT_SHUTDOWN && op->how != SHUT_WR)
        side->reads_no_more = true;
    if (op->type == EXS_EVT_RWRITE)
        note_write(op);
    if (op->type == EXS_EVT_RREAD)
        note_read(op);
    return true;
}

void reference_cancelled(struct side *side, const struct op *of, int count)
{
    int owed = 0;

    for (int i = 0; i < side->count; i++) {
        struct op *op = side->ops[i];

        if (!op->owed || (of && op != of))
            continue;
        owed++;
        if (is_ender(op) && !may_end_short(op)) {
            side->enders--;
            side->unsure_enders++;
        }
        op->may_be_cut = op->cancelled = true;
    }
    early_cancel(side);
    if (count < 0 || count > owed)
        wrong("exs_cancel returned %d (%s); %d were owed", count, strerrorname_np(errno), owed);
}

void reference_closed(struct side *side, unsigned flags)
{
    struct side *peer = other_side(side);
    bool busy = false;

    for (int i = 0; i < side->count; i++)
        busy = busy || is_on_its_way(side->ops[i]);
    for (int i = 0; i < peer->count; i++)
        busy = busy || is_on_its_way(peer->ops[i]);
    if (busy || (flags & CUTS))
        side->setup->may_break = true;
    early_close(side);
    side->closed = true;
    side->lingers = flags & LINGERS;
}

/* ---- Memory that the peer exported ---------------------------------------------------------- */

static bool overlap(const struct op *a, const struct op *b)
{
    return a->offset < b->offset + b->length && b->offset < a->offset + a->length;
}

static void note_write(struct op *op)
{
    struct side *peer = other_side(op->side);

    for (int i = 0; i < op->side->count; i++) {
        struct op *read = op->side->ops[i];
        if (read->type == EXS_EVT_RREAD && read->owed && overlap(read, op))
            read->vague = true;
    }
    pattern_of(op, 0, peer->wanted + op->offset, op->length);
}

static void note_read(struct op *op)
{
    struct side *peer = other_side(op->side);

    for (int i = 0; i < op->side->count; i++) {
        const struct op *write = op->side->ops[i];
        if (write->type == EXS_EVT_RWRITE && write->owed && overlap(op, write))
            op->vague = true;
    }
    for (size_t i = 0; i < op->length; i++)
        op->vague = op->vague || peer->unsure[op->offset + i];
    op->bytes = malloc(op->length);
    memcpy(op->bytes, peer->wanted + op->offset, op->length);
}

static void one_sided_event(struct op *op)
{
    struct side *peer = other_side(op->side);
    exs_mhandle_t region;
    const unsigned char *memory = shared_memory(op->side->setup->pair, peer->end, &region);

    if (op->type == EXS_EVT_RREAD) {
        unsigned char *got = malloc(op->length);
        memory_get(op->pieces, op->piece_count, op->side->end, got, op->length);
        if (op->error == 0 && !op->vague && memcmp(got, op->bytes, op->length) != 0)
            wrong("%s at %zu: other bytes than were there", op_text(op), op->offset);
        free(got);
        return;
    }
    for (int i = 0; i < op->side->count; i++) {
        const struct op *other = op->side->ops[i];
        if (other->type == EXS_EVT_RWRITE && other != op && other->number > op->number && overlap(other, op))
            return;
    }
    if (op->error != 0)
        memset(peer->unsure + op->offset, true, op->length);
    else if (!peer->closed && memcmp(memory + op->offset, peer->wanted + op->offset, op->length) != 0)
        wrong("%s at %zu: its event came before its bytes", op_text(op), op->offset);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static bool may_end_with(const struct op *op, int error)
{
    const struct side *side = op->side, *peer = other_side(side);
    bool lingered = op->type == EXS_EVT_CLOSE && side->lingers;

    switch (error) {
    case 0:
        return !(op->flags & UNSIGNALED);
    case ECANCELED:
        return op->type != EXS_EVT_CLOSE && (side->closed || op->cancelled || op->may_be_dropped);
    case ETIMEDOUT:
        return op->timed || lingered;
    case ECONNRESET:
        return (side->setup->may_break && op->type != EXS_EVT_CLOSE) || (peer->closed && is_on_its_way(op)) ||
               lingered;
    default:
        return false;
    }
}

static void check_order(const struct op *op)
{
    for (int i = 0; i < op->side->count && op->side->ops[i] != op; i++) {
        const struct op *before = op->side->ops[i];
        if (before->owed && before->type == op->type && before->queue == op->queue && !may_end_short(before) &&
            !may_end_short(op) && !(before->flags & UNSIGNALED) && is_ender(before) == is_ender(op))
            wrong("%s: its event came before that of %u", op_text(op), before->number);
    }
}

static void check_receiver(const struct op *op)
{
    const struct side *side = op->side, *peer = other_side(side);
    bool stream = side->setup->type == SOCK_STREAM, end = op->event_flags & EXS_EOF;
    bool fills = stream && ((op->flags & WAITALL) || op->type == EXS_EVT_RECVFILE) && !(op->flags & DONTWAIT);
    size_t least = !fills ? 1 : op->length;

    if ((op->flags & PEEK) && least > side->window * 3 / 4)
        least = side->window * 3 / 4;
    if ((op->flags & PEEK) && (side->setup->may_break || side->closed))
        least = 1; /* what is left */
    if (op->error == 0 && stream && op->moved < least && !end)
        wrong("%s: done with %zu bytes, and not by the end", op_text(op), op->moved);
    if (end && !side->reads_no_more && !peer->closed && peer->enders + peer->unsure_enders == 0)
        wrong("%s: an end that nobody made", op_text(op));
    if (!stream && end && op->moved > 0)
        wrong("%s: an end with a message", op_text(op));
    if (stream && (op->event_flags & MSG_TRUNC))
        wrong("%s: a stream has no messages to be cut off", op_text(op));
    if (op->event_flags & ~(EXS_EOF | MSG_TRUNC))
        wrong("%s: flags %#x", op_text(op), (unsigned)op->event_flags);
}

static void receiver_event(struct op *op)
{
    struct side *side = op->side;

    check_receiver(op);
    op->bytes = malloc(op->moved + 1);
    memory_get(op->pieces, op->piece_count, side->end, op->bytes, op->moved);
    if (side->setup->type == SOCK_STREAM)
        side->consumed += op->flags & PEEK ? 0 : op->moved;
    else
        side->consumed += op->error == 0 && !(op->event_flags & EXS_EOF);
    bytes_absorb(side);
}

static void sender_event(struct op *op)
{
    bool stream = op->side->setup->type == SOCK_STREAM;
    unsigned char *now = malloc(op->length), *was = malloc(op->length);

    if (op->error == 0 && op->moved < op->length && !(stream && (op->flags & DONTWAIT) && op->moved > 0))
        wrong("%s: done with %zu bytes", op_text(op), op->moved);
    if (op->error == ECANCELED && !stream && op->moved > 0 && !op->side->closed)
        wrong("%s: cancelled, and %zu bytes moved", op_text(op), op->moved);
    memory_get(op->pieces, op->piece_count, op->side->end, now, op->length);
    pattern_of(op, 0, was, op->length);
    if (memcmp(now, was, op->length) != 0)
        wrong("%s: the library changed its bytes", op_text(op));
    free(now);
    free(was);
    bytes_absorb(other_side(op->side));
}

static void ender_event(const struct op *op)
{
    struct side *side = op->side;

    if (may_end_short(op)) {
        side->unsure_enders--;
        side->enders += op->error != ECANCELED && op->error != ETIMEDOUT;
    }
}

void reference_event(struct op *op, const exs_event_t *event)
{
    struct side *side = op->side;

    if (!op->owed)
        wrong("%s: a second event, with %s", op_text(op), strerrorname_np(event->exs_evt_errno));
    if (side->gone && side->close && side->close->queue == op->queue)
        wrong("%s: an event behind that of the close", op_text(op));
    op->error = event->exs_evt_errno;
    if (is_silent(op) || !may_end_with(op, op->error))
        wrong("%s: ended with %s", op_text(op), op->error ? strerrorname_np(op->error) : "0, unasked");
    check_order(op);
    op->owed = false;
    if (op->moved > op->length || (op->error == 0 && is_one_sided(op) && op->moved != op->length))
        wrong("%s: %zu bytes moved", op_text(op), op->moved);
    if (is_receiver(op))
        receiver_event(op);
    if (is_sender(op))
        sender_event(op);
    early_event(op);
    if (is_one_sided(op))
        one_sided_event(op);
    if (is_ender(op))
        ender_event(op);
    memory_forget(op->pieces, op->piece_count);
    if (op->type != EXS_EVT_CLOSE)
        return;
    side->gone = true;
    for (int i = 0; i < side->count; i++)
        if (side->ops[i]->owed && side->ops[i]->queue == op->queue && !(side->ops[i]->flags & UNSIGNALED))
            wrong("%s: an event is owed behind that of the close", op_text(side->ops[i]));
}

void reference_end(struct setup *setup)
{
    exs_mhandle_t region;

    for (int end = 0; end < 2; end++) {
        struct side *side = &setup->sides[end];
        const unsigned char *memory = shared_memory(setup->pair, end, &region);

        bytes_end(side);
        for (size_t i = 0; i < SHARED && side->exported && !setup->may_break; i++)
            if (!side->unsure[i] && memory[i] != side->wanted[i])
                wrong("byte %zu of what %u%c exported is another than was written", i, setup->pair, "ab"[end]);
    }
}
