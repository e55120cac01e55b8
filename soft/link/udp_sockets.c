/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp_sockets.c - the sockets of a link: one for each local address of its connections, so that a connection or
 * listener at a loopback address can't be reached from the network. If there are more than UDP_ADDRESSES addresses, the
 * further ones share one socket for each address family.
 */
#include <errno.h>
#include "udp.h"

static bool socket_serves(const struct udp_socket *socket, const union soft_addr *local)
{
    const union soft_addr *own = &socket->local;

    if (own->sa.sa_family != local->sa.sa_family)
        return false;
    if (soft_is_any(own))
        return true;
    if (own->sa.sa_family == AF_INET)
        return own->in.sin_addr.s_addr == local->in.sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&own->in6.sin6_addr, &local->in6.sin6_addr) &&
           own->in6.sin6_scope_id == local->in6.sin6_scope_id;
}

int udp_sockets_add(struct udp *udp, struct udp_socket *socket)
{
    struct soft_wire *wire = soft_wire_of(udp->context);
    int error = wire->open == NULL ? 0 : wire->open(wire, udp->context);

    udp->sockets[udp->socket_count] = *socket;
    if (error == 0)
        error = service_attach(udp->service, socket->fd);
    if (error == 0)
        udp->socket_count++;
    else
        udp_socket_close(socket);
    return error;
}

static int open_another(struct udp *udp, const union soft_addr *local)
{
    struct udp_socket socket;
    int error = udp_socket_open(&socket, local);

    return error == 0 ? udp_sockets_add(udp, &socket) : error;
}

struct udp_socket *udp_socket_of(struct udp *udp, const union soft_addr *local)
{
    union soft_addr place = {.in6.sin6_family = local->sa.sa_family};

    for (int i = 0; i < udp->socket_count; i++)
        if (socket_serves(&udp->sockets[i], local))
            return &udp->sockets[i];
    if (udp->socket_count < UDP_ADDRESSES) {
        place = *local;
        place.in.sin_port = 0; /* at the same place in sockaddr_in6 */
    }
    errno = open_another(udp, &place);
    return errno == 0 ? &udp->sockets[udp->socket_count - 1] : NULL;
}

in_port_t udp_port(struct udp *udp, const union soft_addr *local)
{
    struct udp_socket *socket;
    in_port_t port = 0;

    soft_lock(udp->context);
    socket = udp_socket_of(udp, local);
    if (socket != NULL)
        port = socket->local.in.sin_port; /* at the same place in sockaddr_in6 */
    soft_unlock(udp->context);
    return port;
}

/* Clears the cache of paths: the next packet of each path looks its sending socket up again. */
static void forget_ways(struct udp *udp)
{
    udp->out.path.remote.sa.sa_family = AF_UNSPEC;
    for (int i = 0; udp->ways_out != NULL && i < UDP_WAYS; i++)
        udp->ways_out[i].path.remote.sa.sa_family = AF_UNSPEC;
}

void udp_sockets_spare(struct udp *udp)
{
    if (udp->known)
        return;
    forget_ways(udp);
    for (int i = 0; i < udp->socket_count; i++) {
        soft_unwatch(udp->context, udp->sockets[i].fd);
        service_remove(udp->service, udp->sockets[i].fd);
    }
    udp_sockets_close(udp);
}

void udp_sockets_close(struct udp *udp)
{
    while (udp->socket_count > 0)
        udp_socket_close(&udp->sockets[--udp->socket_count]);
}
