/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.c - connecting by name (exs_connect_host): the addresses of a host in turn, until one answers.
 *
 * The operation is a connect's from beginning to end; what is more is the socket's lookup, which is there until
 * the operation is done. Each address has an equal part of the time that is left, so that a silent one leaves
 * some for the others.
 */
#include <errno.h>
#include <string.h>
#include "clock.h"
#include "library.h"
#include "lookup.h"
#include "sock.h"

/* The time of the address that is tried now. */
static uint64_t part_of(uint64_t deadline, uint64_t now, unsigned left)
{
    return ns_after(now, ns_left(deadline, now) / left);
}

/* The first is tried even if there is no time for it, and fails as any connect would. */
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
    /* The timer is what wakes the loop when the answer comes, and there is none for what never happens. */
    xs_queue_time(home, sock, deadline == NEVER_NS ? NEVER_NS - 1 : deadline);
    if (home->timer.fd < 0 && (home->fd >= 0 || !LIST_EMPTY(&home->hosts))) {
        errno = EMFILE; /* nothing would wake whoever watches the queue when the answer comes */
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

/* What it waits for is here: its queue's next turn takes it up, as if it were a time that has come. */
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
        xs_connect_timeout(sock); /* before the first one, too */
    else
        xs_open_failed(sock, error);
}
