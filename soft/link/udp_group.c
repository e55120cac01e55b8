/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp_group.c - the sockets by which a link receives from multicast groups.
 *
 * Datagrams to a group go to its address and RoCE's port, so other RoCE devices on the network take part. Each group
 * has a separate socket, bound to its address, which receives nothing else.
 */
#include <errno.h>
#include <stdlib.h>
#include "udp.h"

/* Allocates what a group needs. 0 or an errno. */
static int prepare_groups(struct udp *udp)
{
    if (udp->groups == NULL)
        udp->groups = calloc(UDP_GROUPS, sizeof *udp->groups);
    if (udp->ids == NULL)
        udp->ids = calloc(1, sizeof *udp->ids);
    if (udp->groups == NULL || udp->ids == NULL || udp->group_count == UDP_GROUPS)
        return ENOMEM;
    return udp_prepare(udp);
}

int udp_group_join(struct udp *udp, const union soft_addr *group)
{
    struct udp_socket *socket;
    int error = prepare_groups(udp);

    if (error != 0)
        return error;
    socket = &udp->groups[udp->group_count];
    error = udp_socket_open_group(socket, group);
    if (error != 0)
        return error;
    error = service_attach(udp->service, socket->fd);
    if (error == 0)
        udp->group_count++;
    else
        udp_socket_close(socket);
    return error;
}

static bool is_at(const struct udp_socket *socket, const union soft_addr *group)
{
    const union soft_addr *own = &socket->local;

    if (own->sa.sa_family != group->sa.sa_family)
        return false;
    if (own->sa.sa_family == AF_INET)
        return own->in.sin_addr.s_addr == group->in.sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&own->in6.sin6_addr, &group->in6.sin6_addr);
}

/* Adds the socket's losses to the process's counters (udp_lost.c) before it is closed. */
static void keep_losses(const struct udp_socket *socket)
{
    const struct udp_lost lost = {.bursts = udp_socket_drops(socket), .buffer = socket->buffer};

    udp_lost_add(&lost);
}

void udp_group_leave(struct udp *udp, const union soft_addr *group)
{
    for (int i = 0; i < udp->group_count; i++) {
        if (!is_at(&udp->groups[i], group))
            continue;
        soft_unwatch(udp->context, udp->groups[i].fd);
        service_remove(udp->service, udp->groups[i].fd);
        keep_losses(&udp->groups[i]);
        udp_socket_close(&udp->groups[i]);
        udp->groups[i] = udp->groups[--udp->group_count];
        return;
    }
}
