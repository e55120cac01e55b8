/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * limit.c - timeouts of operations: SO_RCVTIMEO, SO_SNDTIMEO. sock/cancel.c ends those that are overdue.
 *
 * Each operation has its deadline, counted from its start; the socket's deadline is the earliest. When an operation
 * completes, the socket's deadline stays, so each timeout period has at most one spurious wake-up.
 */
#include "core/base/clock.h"
#include "queue.h"
#include "socket.h"

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
