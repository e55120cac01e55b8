/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp_more.c - more sockets for a link that has many connections.
 *
 * What a socket may hold is the user's net.core.rmem_max, which is less than what one peer may have under way.
 * Where many send at once all but the first would be lost, again and again; so each connection beyond a few
 * gets a socket, and with it a buffer, that few others have. Its port is what the peer is told.
 */
#include <errno.h>
#include <stdlib.h>
#include "core/fds.h"
#include "udp.h"

#define SHARERS 8 /* connections that one socket does for, however small */

/* The epoll that tells which sockets have packets, with those that are open already. 0 or an errno. */
static int begin(struct udp *udp)
{
    struct udp_more *more = &udp->more;
    int error;

    if ((more->sockets = calloc(UDP_MORE, sizeof *more->sockets)) == NULL)
        return errno;
    more->ready = fds_epoll();
    error = more->ready == -1 ? errno : 0;
    for (int i = 0; i < udp->socket_count && error == 0; i++)
        error = udp_more_watch(udp, &udp->sockets[i]);
    if (error == 0)
        error = service_add(udp->service, more->ready);
    if (error == 0)
        return 0;
    if (more->ready != -1)
        fds_close(more->ready);
    free(more->sockets);
    more->sockets = NULL;
    return error;
}

int udp_more_watch(struct udp *udp, struct udp_socket *socket)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = socket};

    if (udp->more.sockets == NULL)
        return 0;
    return fds_watch(udp->more.ready, socket->fd, &event) == -1 ? errno : 0;
}

/* One more at the address of this one. */
static void open_another(struct udp *udp, const struct udp_socket *base)
{
    union soft_addr place = base->local;
    struct udp_socket *socket;

    if (udp->more.sockets == NULL && begin(udp) != 0)
        return;
    socket = &udp->more.sockets[udp->more.count];
    place.in.sin_port = 0; /* at the same place in sockaddr_in6 */
    if (udp_socket_open(socket, &place) != 0)
        return;
    if (udp_more_watch(udp, socket) != 0 || soft_watch(udp->context, socket->fd) != 0)
        udp_socket_close(socket);
    else
        udp->more.count++;
}

static bool is_sibling(const struct udp_socket *socket, const struct udp_socket *base)
{
    union soft_addr place = socket->local;

    place.in.sin_port = base->local.in.sin_port;
    return memcmp(&place, &base->local, sizeof place) == 0;
}

/* Without a descriptor left for another they share what there is. */
struct udp_socket *udp_more_room(struct udp *udp, struct udp_socket *base)
{
    size_t connections = soft_qps(udp->context), wanted = 0;

    if (connections > SHARERS)
        wanted = (connections - SHARERS) * SOFT_FLIGHT_MAX / base->buffer;
    if ((size_t)udp->more.count < wanted && udp->more.count < UDP_MORE)
        open_another(udp, base);
    for (int tried = 0; tried < udp->more.count; tried++) {
        struct udp_socket *socket = &udp->more.sockets[udp->more.turn++ % (unsigned)udp->more.count];

        if (is_sibling(socket, base))
            return socket;
    }
    return base;
}

struct udp_socket *udp_more_find(struct udp *udp, const union soft_addr *local)
{
    for (int i = 0; i < udp->more.count; i++)
        if (udp->more.sockets[i].local.in.sin_port == local->in.sin_port &&
            udp->more.sockets[i].local.sa.sa_family == local->sa.sa_family)
            return &udp->more.sockets[i];
    return NULL;
}

void udp_more_close(struct udp *udp)
{
    struct udp_more *more = &udp->more;

    while (more->count > 0) {
        soft_unwatch(udp->context, more->sockets[--more->count].fd);
        udp_socket_close(&more->sockets[more->count]);
    }
    if (more->sockets == NULL)
        return;
    udp->out.path.remote.sa.sa_family = AF_UNSPEC; /* some ways led through these sockets */
    for (int i = 0; udp->ways_out != NULL && i < UDP_WAYS; i++)
        udp->ways_out[i].path.remote.sa.sa_family = AF_UNSPEC;
    service_remove(udp->service, more->ready);
    fds_close(more->ready);
    free(more->sockets);
    more->sockets = NULL;
}
