/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bound.c - the limit of bytes that may be pending in the sends of a connection: SO_SNDBUF, EXS_SO_SENDLIMIT.
 *
 * Bytes are counted only if there is a limit. Then each send records the number of bytes of all sends up to its own
 * end, so the number of pending bytes is the difference between the last and the first pending send. If sends end out
 * of order, the list is counted again.
 */
#include <errno.h>
#include "core/debug/misuse.h"
#include "core/queue/socket.h"
#include "conn.h"

void xs_sends_bound_changed(struct sock *sock)
{
    sock->sends_bounded = sock->send_limit != 0 || sock->options.send_buffer != 0 || xs_misuse_on;
    if (sock->sends_bounded && sock->conn != NULL)
        xs_sends_count(sock->conn);
}

void xs_receives_bound_changed(struct sock *sock)
{
    sock->receives_bounded = sock->receive_limit != 0 || xs_misuse_on;
}

void xs_sends_count(struct conn *conn)
{
    struct op *op;

    STAILQ_FOREACH (op, &conn->tx.sends, link)
        op->out.queued = conn->tx.queued += op->length;
}

static uint64_t pending_bytes(const struct conn *conn)
{
    const struct op *first = STAILQ_FIRST(&conn->tx.sends);

    return first != NULL ? conn->tx.queued - first->out.queued + first->length : 0;
}

/* A send that is longer than the limit may start when no other send is pending. */
int xs_send_bound(struct sock *sock, struct op *op, const struct ask *ask)
{
    const struct options *options = &sock->options;
    bool is_refused = ask->flags & MSG_DONTWAIT || (options->refuses && ask->waiter == NULL);
    uint64_t before = pending_bytes(sock->conn);

    if (options->send_buffer != 0 && is_refused && before > 0 &&
        before + op->length > (uint64_t)options->send_buffer) {
        errno = EAGAIN;
        return -1;
    }
    op->out.queued = sock->conn->tx.queued += op->length;
    if (sock->send_limit != 0)
        xs_limit(sock, op, sock->send_limit);
    if (xs_misuse_on)
        xs_held_begin(op, ask);
    return 0;
}

void xs_receive_bound(struct sock *sock, struct op *op, const struct ask *ask)
{
    if (sock->receive_limit != 0)
        xs_limit(sock, op, sock->receive_limit);
    if (xs_misuse_on)
        xs_held_begin(op, ask);
}
