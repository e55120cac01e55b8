/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.c - connecting by name (exs_connect_host): tries the addresses of a host one after the other until one
 * answers.
 *
 * The operation is that of an ordinary connect; in addition the socket owns the lookup until the operation completes.
 * Each address gets an equal part of the remaining time, so that an unresponsive one leaves time for the others.
 */
#include <errno.h>
#include <string.h>
#include "core/base/clock.h"
#include "core/queue/upcalls.h"
#include "lookup.h"
#include "sock.h"

/* Deadline for the current address: an equal part of the time that is left. */
static uint64_t part_of(uint64_t deadline, uint64_t now, unsigned left)
{
    return ns_after(now, ns_left(deadline, now) / left);
}

/* Try the next address. The first one is tried even if no time is left, and times out like any connect. */
static bool try_next(struct sock *sock, bool first)
{
    const struct addrinfo *address;
    unsigned left;

    while ((address = xs_lookup_next(sock->lookup, &left)) != NULL) {
        uint64_t now = now_ns();

        if (now >= sock->lookup_deadline && !first)
            break;
        first = false;
        memcpy(&sock->peer, address->ai_addr, address->ai_addrlen);
        if (xs_connect_address(sock, part_of(sock->lookup_deadline, now, left)) == 0)
            return true;
    }
    return false;
}

bool xs_host_next(struct sock *sock, int error)
{
    errno = error;
    return try_next(sock, false);
}

int xs_host_begin(struct sock *sock, struct lookup *lookup, uint64_t deadline)
{
    struct queue *home = atomic_load(&sock->home);
    int error;

    sock->lookup = lookup;
    sock->lookup_deadline = deadline;
    if (xs_lookup_answer(lookup, &error) == FOUND)
        return try_next(sock, true) ? 0 : -1;
    /* The timer wakes the loop when the answer arrives, so set it even if the lookup has no deadline. */
    xs_queue_time(home, sock, deadline == NEVER_NS ? NEVER_NS - 1 : deadline);
    if (home->time.timer.fd < 0 && (home->fd >= 0 || !LIST_EMPTY(&home->hosts.list))) {
        errno = EMFILE; /* the timer has no descriptor, so the answer could not wake the queue's watchers */
        return -1;
    }
    return xs_lookup_start(lookup, sock);
}

void xs_host_end(struct sock *sock)
{
    if (sock->lookup != NULL)
        xs_lookup_drop(sock->lookup);
    sock->lookup = NULL;
}

/* The answer has arrived: let the socket's timer expire now, so that the queue's next pass handles it. */
void xs_host_found(struct sock *sock)
{
    int error;

    xs_sock_lock(sock);
    if (sock->lookup != NULL && sock->device < 0 && xs_lookup_answer(sock->lookup, &error) != NOT_YET)
        xs_queue_time(atomic_load(&sock->home), sock, 1);
    xs_sock_unlock(sock);
}

void xs_host_timeout(struct sock *sock)
{
    int error = ETIMEDOUT;

    if (xs_lookup_answer(sock->lookup, &error) == FOUND)
        xs_connect_timeout(sock); /* also before the first address is tried */
    else
        xs_open_failed(sock, error);
}
