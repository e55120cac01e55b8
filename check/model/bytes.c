/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bytes.c - compares the bytes that receives got with those that the other end sent: the same bytes, in order.
 * The number of bytes that an aborted send has sent is known after its event; bytes that depend on it are
 * compared then. See model.h.
 */
#include "model.h"

#define UNKNOWN SIZE_MAX

void pattern_of(const struct op *op, size_t at, void *bytes, size_t length)
{
    pattern_fill(bytes, length, op->number, at);
}

/* Returns the largest number of bytes that this operation has sent, or UNKNOWN. */
static size_t sent_of(const struct op *op, bool over)
{
    if (op->owed)
        return over || !(may_end_short(op) || (op->flags & DONTWAIT)) ? op->length : UNKNOWN;
    if (op->error == 0 || may_end_short(op))
        return op->moved;
    return op->length;
}

/* Returns whether no event tells if this send was cut off or ended with its socket, or how much of it was sent. */
static bool is_ambiguous(const struct op *op)
{
    if (is_silent(op))
        return may_end_short(op);
    return !op->owed && op->error != 0 && may_end_short(op) && op->side->closed;
}

/* Returns the send that the next bytes belong to. NULL: there is none, or, with *wait, this is not known yet. */
static const struct op *next_sender(struct side *side, bool over, bool *wait)
{
    const struct side *peer = other_side(side);

    *wait = false;
    for (; side->next_out < peer->count; side->next_out++, side->out_at = 0) {
        const struct op *op = peer->ops[side->next_out];
        if (!is_sender(op))
            continue;
        size_t sent = sent_of(op, over);
        side->compare_no_more = side->compare_no_more || is_ambiguous(op);
        *wait = sent == UNKNOWN || side->compare_no_more;
        if (*wait)
            return NULL;
        if (side->out_at < sent)
            return op;
    }
    return NULL;
}

static void compare(const struct op *in, size_t at, const struct op *out, size_t out_at, size_t length)
{
    unsigned char *want = malloc(length);

    pattern_of(out, out_at, want, length);
    for (size_t i = 0; i < length; i++)
        if (in->bytes[at + i] != want[i])
            wrong("%s: byte %zu is not byte %zu of what send %u sent", op_text(in), at + i, out_at + i,
                  out->number);
    free(want);
}

/* Compares all bytes of this receive. Returns false if that is not possible yet. */
static bool compare_stream(struct side *side, const struct op *in, bool over)
{
    for (size_t at = 0; at < in->moved;) {
        bool wait;
        const struct op *out = next_sender(side, over, &wait);

        if (wait)
            return false;
        if (!out)
            wrong("%s: %zu bytes more than were sent", op_text(in), in->moved - at);
        size_t part = sent_of(out, over) - side->out_at;
        part = part < in->moved - at ? part : in->moved - at;
        compare(in, at, out, side->out_at, part);
        side->out_at += part;
        at += part;
    }
    return true;
}

static bool compare_message(struct side *side, const struct op *in, bool over)
{
    bool wait;

    if (in->error != 0 || (in->event_flags & EXS_EOF))
        return true;
    const struct op *out = next_sender(side, over, &wait);
    if (wait)
        return false;
    if (!out)
        wrong("%s: a message that nobody sent", op_text(in));
    bool cut = out->length > in->length;
    if (in->moved != (cut ? in->length : out->length) || cut != !!(in->event_flags & MSG_TRUNC))
        wrong("%s: %zu bytes, flags %#x, of message %u of %zu", op_text(in), in->moved,
              (unsigned)in->event_flags, out->number, out->length);
    compare(in, 0, out, 0, in->moved);
    side->next_out++;
    return true;
}

static void absorb(struct side *side, bool over)
{
    for (; side->next_in < side->count && !side->compare_no_more; side->next_in++) {
        struct op *in = side->ops[side->next_in];
        int next_out = side->next_out;
        size_t out_at = side->out_at;

        if (!is_receiver(in))
            continue;
        if (in->owed)
            return;
        bool done =
            side->setup->type == SOCK_STREAM ? compare_stream(side, in, over) : compare_message(side, in, over);
        if (!done || (in->flags & PEEK)) {
            side->next_out = next_out;
            side->out_at = out_at;
        }
        if (!done)
            return;
        if (in->flags & PEEK)
            continue;
        side->saw_end = side->saw_end || (in->error == 0 && (in->event_flags & EXS_EOF));
        side->saw_break = side->saw_break || (in->error == ECONNRESET && !side->closed);
    }
}

void bytes_absorb(struct side *side)
{
    absorb(side, false);
}

/* Up to the end of stream no bytes may be missing; up to a reset, none of sends that had completed. */
void bytes_end(struct side *side)
{
    const struct op *out;
    bool wait;

    absorb(side, true);
    if (side->saw_end && !side->reads_no_more && other_side(side)->may_not_end)
        wrong("the end came to %u%c behind a part of a send", side->setup->pair, "ab"[side->end]);
    if (side->reads_no_more || side->compare_no_more || !(side->saw_end || side->saw_break))
        return;
    while ((out = next_sender(side, true, &wait)) != NULL) {
        if (side->saw_end)
            wrong("the end came to %u%c before all of send %u", side->setup->pair, "ab"[side->end],
                  out -> number);
        if (!out->owed && out->error == 0)
            wrong("the break came to %u%c before send %u, which was done", side->setup->pair, "ab"[side->end],
                  out -> number);
        side->next_out++;
        side->out_at = 0;
    }
}
