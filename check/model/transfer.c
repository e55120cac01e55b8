/* SPDX-License-Identifier: BSD-2-Clause */
/* transfer.c - the calls that move bytes, and exs_shutdown. See model.h. */
#include "play.h"

#include "check/support/files.h"

static const int types[VERBS] = {
    [SEND] = EXS_EVT_SEND,       [RECV] = EXS_EVT_RECV,         [SENDMSG] = EXS_EVT_SENDMSG,
    [RECVMSG] = EXS_EVT_RECVMSG, [SENDFILE] = EXS_EVT_SENDFILE, [RECVFILE] = EXS_EVT_RECVFILE,
    [RWRITE] = EXS_EVT_RWRITE,   [RREAD] = EXS_EVT_RREAD,       [SHUTDOWN] = EXS_EVT_SHUTDOWN,
};

void read_event(struct op *op, const exs_event_t *event)
{
    const exs_evt_xfer_t *transfer = &event->exs_evt_union.exs_evt_xfer;
    const exs_evt_xfermsg_t *message = &event->exs_evt_union.exs_evt_xfermsg;
    const exs_evt_xferfile_t *file = &event->exs_evt_union.exs_evt_xferfile;

    switch (op->type) {
    case EXS_EVT_SENDMSG:
    case EXS_EVT_RECVMSG:
        if (message->exs_evt_msg != &op->message)
            wrong("%s: its event has another message", op_text(op));
        op->moved = message->exs_evt_length;
        op->event_flags = message->exs_evt_flags;
        break;
    case EXS_EVT_SENDFILE:
    case EXS_EVT_RECVFILE:
        if (file->exs_evt_vec != op->elements || file->exs_evt_vec_cnt != op->piece_count)
            wrong("%s: its event has another vector", op_text(op));
        op->moved = (size_t)file->exs_evt_length;
        op->event_flags = file->exs_evt_flags;
        break;
    case EXS_EVT_CLOSE:
    case EXS_EVT_SHUTDOWN:
        break;
    default:
        if (transfer->exs_evt_buffer != op->pieces[0].base)
            wrong("%s: its event has another buffer", op_text(op));
        op->moved = transfer->exs_evt_length;
        op->event_flags = transfer->exs_evt_flags;
    }
}

static void make_vectors(struct op *op, unsigned flags)
{
    for (int i = 0; i < op->piece_count; i++) {
        const struct piece *piece = &op->pieces[i];

        op->vector[i] = (exs_iovec_t){piece->base, piece->length, piece->region, 0};
        if (piece->base)
            op->elements[i] = by_memory(piece->base, piece->length, piece->region);
        else
            op->elements[i] = by_fd(memory_file(op->side->end), piece->offset, piece->length);
    }
    op->message = (exs_msghdr_t){.exs_iov = op->vector, .exs_iovlen = op->piece_count};
    exs_xferfile_t *last = &op->elements[op->piece_count - 1];
    if ((flags & ENDS) && last->exs_xfv_type == EXS_IOVEC)
        last->exs_xfv.exs_iov.exs_flags = EXS_SHUT_WR;
    else if (flags & ENDS)
        last->exs_xfv.exs_fdv.exs_flags = EXS_SHUT_WR;
}

static bool make_memory(struct op *op, const struct step *step)
{
    bool files = step->verb == SENDFILE || step->verb == RECVFILE,
         vector = files || step->verb == SENDMSG || step->verb == RECVMSG;
    unsigned char *bytes;

    op->piece_count = vector && op->length >= PIECES ? (int)(step->detail % PIECES) + 1 : 1;
    if (!memory_cut(op->pieces, op->piece_count, op->side->end, op->length, step->flags & REGISTERED, files))
        return false;
    make_vectors(op, step->flags);
    if (!is_sender(op) && op->type != EXS_EVT_RWRITE)
        return true;
    bytes = malloc(op->length);
    pattern_of(op, 0, bytes, op->length);
    memory_put(op->pieces, op->piece_count, op->side->end, bytes);
    free(bytes);
    return true;
}

/* Lets the other end export its memory to this one. Returns false if it no longer can. */
static bool have_exported(struct side *owner)
{
    exs_mhandle_t region;
    unsigned char *memory = shared_memory(owner->setup->pair, owner->end, &region);

    if (owner->exported || owner->closed)
        return owner->exported;
    memset(memory, 0, SHARED);
    CALL();
    if (exs_mexport(owner->socket, region, memory, SHARED, EXS_REMOTE_READ | EXS_REMOTE_WRITE, &owner->token) !=
        0) {
        if (errno != ECONNRESET || !owner->setup->may_break)
            wrong("exs_mexport: %s", strerrorname_np(errno));
        return false;
    }
    return owner->exported = true;
}

static int flags_of(unsigned flags)
{
    return (flags & WAITALL ? MSG_WAITALL : 0) | (flags & DONTWAIT ? MSG_DONTWAIT : 0) |
           (flags & PEEK ? MSG_PEEK : 0) | (flags & UNSIGNALED ? EXS_UNSIGNALED : 0);
}

static long call(struct op *op, const struct step *step)
{
    const struct piece *first = &op->pieces[0];
    const exs_token_t *token = &other_side(op->side)->token;
    exs_qhandle_t queue = is_silent(op) ? NULL : queue_of(op->queue);
    int socket = op->side->socket, flags = flags_of(step->flags);

    switch (step->verb) {
    case SEND:
        return exs_send(socket, first->base, op->length, flags, queue, op, first->region);
    case RECV:
        return exs_recv(socket, first->base, op->length, flags, queue, op, first->region);
    case SENDMSG:
        return exs_sendmsg(socket, &op->message, flags, queue, op);
    case RECVMSG:
        return exs_recvmsg(socket, &op->message, flags, queue, op);
    case SENDFILE:
        return exs_sendfile(socket, op->elements, op->piece_count, flags, queue, op);
    case RECVFILE:
        return exs_recvfile(socket, op->elements, op->piece_count, flags, queue, op);
    case RWRITE:
        return exs_rwrite(socket, first->base, op->length, token, op->offset, flags, queue, op, first->region);
    case RREAD:
        return exs_rread(socket, first->base, op->length, token, op->offset, flags, queue, op, first->region);
    default:
        return exs_shutdown(socket, op->how, 0, queue, op);
    }
}

void do_transfer(struct side *side, const struct step *step)
{
    static const int hows[3] = {SHUT_WR, SHUT_RD, SHUT_RDWR};
    struct op *op = op_new(side, types[step->verb], step);

    if (!op)
        return;
    op->how = hows[step->detail % 3];
    if (is_silent(op))
        op->queue = side->home;
    op->offset = step->detail * 64 % SHARED;
    if (is_one_sided(op) && (op->length > SHARED - op->offset || !have_exported(other_side(side))))
        return;
    if (op->type != EXS_EVT_SHUTDOWN && !make_memory(op, step))
        return;
    CALL();
    long result = call(op, step);
    if (!reference_started(op, result, errno)) {
        figures->refused++;
        memory_forget(op->pieces, op->piece_count);
    }
}
