/* SPDX-License-Identifier: BSD-2-Clause */
/* transfer.c - executes one operation of a test by EXS calls; see transfer.h. */
#include "transfer.h"

_Static_assert((int)SEGMENTS_MAX <= (int)EXS_XFV_MAX, "a message is gathered by one call");

static int transfer_failed(struct link *link, const struct op *op)
{
    char text[64];

    link_call_failed(link, op_text(op, text));
    return -1;
}

/* The library copies the vector before it returns. */
static int send_segments(struct link *link, const struct op *op, const struct place *place)
{
    exs_xferfile_t vector[SEGMENTS_MAX];

    for (uint32_t i = 0; i < op->segments; i++) {
        vector[i].exs_xfv_type = EXS_IOVEC;
        vector[i].exs_xfv.exs_iov = (exs_iovec_t){.exs_base = place->base + i * place->stride,
                                                  .exs_length = op->size,
                                                  .exs_mhandle = link->area.region};
    }
    return (int)exs_sendfile(link->socket, vector, (int)op->segments, 0, link->queue, link);
}

static int start_send(struct link *link, const struct op *op, const struct place *place)
{
    int result = op->segments == 1 ? (int)exs_send(link->socket, place->base, op->size, 0, link->queue, link,
                                                   link->area.region)
                                   : send_segments(link, op, place);

    return result == 0 ? 1 : transfer_failed(link, op);
}

static ssize_t start_segment(struct link *link, const struct op *op, char *at, const exs_token_t *token,
                             uint64_t offset)
{
    if (op->transfer == REMOTE_READ)
        return exs_rread(link->socket, at, op->size, token, offset, 0, link->queue, link, link->area.region);
    return exs_rwrite(link->socket, at, op->size, token, offset, 0, link->queue, link, link->area.region);
}

int transfer_start(struct link *link, const struct op *op, const struct place *place, const exs_token_t *token)
{
    if (op->transfer == SEND_RECV)
        return start_send(link, op, place);
    for (uint32_t i = 0; i < op->segments; i++)
        if (start_segment(link, op, place->base + i * place->stride, token, (uint64_t)i * op->size) == -1)
            return transfer_failed(link, op);
    return (int)op->segments;
}

bool transfer_receive(struct link *link, const struct op *op, const struct place *place)
{
    if (exs_recv(link->socket, place->base, op_bytes(op), 0, link->queue, link, link->area.region) == 0)
        return true;
    link_call_failed(link, "receiving");
    return false;
}

bool transfer_is_whole(struct link *link, const struct op *op, const exs_event_t *event)
{
    size_t length = (size_t)exs_event_result(event);
    bool truncated = exs_event_flags(event) & MSG_TRUNC;
    char text[64];

    if (length == op_bytes(op) && !truncated)
        return true;
    link_fail(link, "%s brought %zu bytes%s", op_text(op, text), length,
              truncated ? " of a longer message" : "");
    return false;
}

int transfer_export(struct link *link, const struct op *op, const struct place *place, exs_token_t *token)
{
    return exs_mexport(link->socket, link->area.region, place->base, op_bytes(op),
                       op->transfer == REMOTE_READ ? EXS_REMOTE_READ : EXS_REMOTE_WRITE, token);
}
