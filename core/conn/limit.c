/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * limit.c - timeouts of operations: SO_RCVTIMEO, SO_SNDTIMEO.
 *
 * Each operation has its deadline, counted from its start; the socket's deadline is the earliest. An operation that
 * completes does not move the socket's deadline, so there is at most one spurious timeout in the time of a limit.
 */
#include <errno.h>
#include "core/base/clock.h"
#include "conn.h"
#include "core/sock/sock.h"

void xs_sock_wake_by(struct sock *sock, uint64_t deadline)
{
    if (sock->deadline == 0 || deadline < sock->deadline)
        xs_queue_time(atomic_load(&sock->home), sock, deadline);
}

void xs_sock_probe_at(struct sock *sock, uint64_t when)
{
    sock->probe_due = when;
    xs_sock_wake_by(sock, when);
}

void xs_limit(struct sock *sock, struct op *op, uint64_t limit)
{
    op->deadline = ns_after(now_ns(), limit);
    xs_sock_wake_by(sock, op->deadline);
}

static void wake_for(struct sock *sock, const struct op_list *ops)
{
    const struct op *op;

    STAILQ_FOREACH (op, ops, link) {
        if (op->deadline != 0)
            xs_sock_wake_by(sock, op->deadline);
    }
}

/* The socket's timer has expired and is off: end the operations that are overdue, and set the timer for the
 * others. */
void xs_limits_look(struct sock *sock)
{
    const struct stop overdue = {.now = now_ns(), .error = ETIMEDOUT};

    xs_stop(sock, &overdue);
    if (sock->state == SOCK_LISTENING) {
        wake_for(sock, &sock->accepts);
    } else if (sock->state == SOCK_CONNECTED) {
        if (sock->probe_due != 0)
            xs_sock_wake_by(sock, sock->probe_due);
        wake_for(sock, &sock->conn->sends);
        wake_for(sock, &sock->conn->recvs);
    }
}
