/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_half_open.c - a listener's half-open connections: TCP is established and the request is not complete.
 *
 * Any host can open half-open connections and send nothing, so their number is limited. At the limit the listener stops
 * accepting, and new connections wait in the kernel's queue. The listener accepts the next one when a half-open
 * connection ends, or when one has sent nothing for longer than the patience, a time: that one is closed. The listener
 * closes a connection from the same host as the new one, or else from the host that has more than half of them, so that
 * a host can't displace the connections of others; if there is no such host, it closes the oldest.
 *
 * The patience adapts. Clients that connect at the same time complete their requests soon, and get the full time. If
 * connections have to be closed because they send nothing, the listener is being flooded: each closed one halves the
 * patience, so that the kernel's queue is emptied as fast as the flood fills it, and each complete request doubles the
 * patience again.
 */
#include <sys/socket.h>
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "cm_id.h"
#include "ib_address.h"

#define LIMIT_LEAST 256
#define LIMIT_MOST 1024 /* if the process may have 8,192 descriptors */
#define PATIENCE_MOST (NS_PER_S * 2 / 5)
#define PATIENCE_LEAST (NS_PER_S / 1000)

void cm_half_open_init(struct cm_id *listener)
{
    listener->patience = PATIENCE_MOST;
}

static bool is_full(const struct cm_id *listener)
{
    return listener->half_open >= LIMIT_LEAST && listener->half_open >= fds_share(LIMIT_LEAST, LIMIT_MOST);
}

static bool has_unread_bytes(const struct cm_id *id)
{
    char byte;

    return recv(id->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* Only half-open connections have a timer. If there are bytes to read, this process is late, not the peer. */
static bool is_silent(const struct cm_id *id)
{
    return cm_timer_elapsed(id) >= id->listener->patience &&
           (id->state == CM_REFUSING || !has_unread_bytes(id));
}

/* The address of the peer, known since its connection was accepted. */
static const union soft_addr *host_of(const struct cm_id *id)
{
    return (const union soft_addr *)&id->public.route.addr.dst_storage;
}

/* The host that more than half of them come from, as in a flood; NULL: there is none. The first pass finds the only
 * one that it can be (Boyer and Moore's vote). */
static const union soft_addr *busiest_host(const struct cm_id *listener)
{
    const union soft_addr *host = NULL;
    const struct cm_id *id;
    unsigned votes = 0, count = 0;

    TAILQ_FOREACH (id, &listener->children, child) {
        if (id->timeout == CM_NO_TIMEOUT)
            continue;
        if (votes == 0)
            host = host_of(id);
        votes = ib_same_address(host, host_of(id)) ? votes + 1 : votes - 1;
    }
    TAILQ_FOREACH (id, &listener->children, child)
        count += id->timeout != CM_NO_TIMEOUT && ib_same_address(host, host_of(id));
    return 2 * count > listener->half_open ? host : NULL;
}

/* The connection of this host (NULL: of any host) that has been silent for the longest time; NULL: none is silent. */
static struct cm_id *find_silent(struct cm_id *listener, const union soft_addr *host)
{
    struct cm_id *id;

    TAILQ_FOREACH (id, &listener->children, child)
        if ((host == NULL || ib_same_address(host, host_of(id))) && is_silent(id))
            return id;
    return NULL;
}

bool cm_half_open_has_room(struct cm_id *listener)
{
    return !is_full(listener) || find_silent(listener, busiest_host(listener)) != NULL;
}

/* The connection that is closed for this new one. */
static struct cm_id *find_victim(struct cm_id *listener, const struct cm_id *id)
{
    struct cm_id *silent = find_silent(listener, host_of(id));

    return silent != NULL ? silent : find_silent(listener, busiest_host(listener));
}

bool cm_half_open_add(struct cm_id *listener, struct cm_id *id)
{
    struct cm_id *silent = is_full(listener) ? find_victim(listener, id) : NULL;

    if (silent != NULL) {
        cm_id_free(silent);
        listener->patience /= 2;
        if (listener->patience < PATIENCE_LEAST)
            listener->patience = PATIENCE_LEAST;
    }
    id->state = CM_HALF_OPEN;
    id->listener = listener;
    TAILQ_INSERT_TAIL(&listener->children, id, child);
    listener->half_open++;
    cm_timer_start(id, CM_TIMEOUT_HALF_OPEN);
    return silent != NULL;
}

void cm_half_open_completed(struct cm_id *listener)
{
    listener->patience *= 2;
    if (listener->patience > PATIENCE_MOST)
        listener->patience = PATIENCE_MOST;
}

void cm_half_open_ended(struct cm_id *listener)
{
    listener->half_open--;
    if (listener->timeout == CM_TIMEOUT_PAUSE) {
        cm_timer_stop(listener);
        cm_listener_resume(listener);
    }
}
