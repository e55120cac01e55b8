/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.c - the resources of the limit test; see limits.h. A get function that fails has released everything. */
#include "limits.h"

#include <errno.h>
#include <stddef.h>

/* A bound socket has an event channel and a connection identifier on each device. */
static int get_device(struct set *set, struct thing *thing)
{
    struct sockaddr_storage any = set->address;

    ((struct sockaddr_in *)&any)->sin_port = 0; /* same offset in sockaddr_in6 */
    thing->socket = exs_socket(any.ss_family, SOCK_SEQPACKET, 0);
    if (thing->socket == -1)
        return -1;
    if (exs_bind(thing->socket, (struct sockaddr *)&any, set->length) == 0)
        return 0;
    int error = errno;

    exs_blocking_close(thing->socket);
    errno = error;
    return -1;
}

static int get_listener(struct set *set, struct thing *thing)
{
    if (get_device(set, thing) == -1)
        return -1;
    if (exs_listen(thing->socket, 8) == 0)
        return 0;
    int error = errno;

    exs_blocking_close(thing->socket);
    errno = error;
    return -1;
}

static int get_socket(struct set *set, struct thing *thing)
{
    thing->socket = exs_socket(set->address.ss_family, SOCK_SEQPACKET, 0);
    return thing->socket == -1 ? -1 : 0;
}

static int close_socket(struct set *set, struct thing *thing)
{
    (void)set;
    return exs_blocking_close(thing->socket);
}

static int get_queue(struct set *set, struct thing *thing)
{
    (void)set;
    thing->queue = exs_qcreate(8);
    return thing->queue == EXS_QHANDLE_INVALID ? -1 : 0;
}

static int delete_queue(struct set *set, struct thing *thing)
{
    (void)set;
    return exs_qdelete(thing->queue);
}

static int get_connection(struct set *set, struct thing *thing)
{
    return set_connect(set, set->queue, &thing->ends);
}

static int close_connection(struct set *set, struct thing *thing)
{
    (void)set;
    return set_disconnect(&thing->ends);
}

/* The first connection of a queue creates its protection domain and completion queues. */
static int get_domain(struct set *set, struct thing *thing)
{
    if (get_queue(set, thing) == -1)
        return -1;
    if (set_connect(set, thing->queue, &thing->ends) == 0)
        return 0;
    int error = errno;

    exs_qdelete(thing->queue);
    errno = error;
    return -1;
}

static int close_domain(struct set *set, struct thing *thing)
{
    int closed = set_disconnect(&thing->ends);

    (void)set;
    return exs_qdelete(thing->queue) == -1 ? -1 : closed;
}

/* The region is also exported, and therefore registered with the device. */
static int get_region(struct set *set, struct thing *thing)
{
    thing->region = exs_mregister(set->memory, SET_MEMORY, 0);
    if (thing->region == EXS_MHANDLE_INVALID)
        return -1;
    if (exs_mexport(set->ends.server, thing->region, set->memory, SET_MEMORY, EXS_REMOTE_READ, &thing->token) ==
        0)
        return 0;
    int error = errno;

    exs_mderegister(thing->region, 0);
    errno = error;
    return -1;
}

static int deregister_region(struct set *set, struct thing *thing)
{
    if (exs_munexport(set->ends.server, &thing->token) == -1)
        return -1;
    return exs_mderegister(thing->region, 0);
}

static int post_receive(struct set *set, struct thing *thing)
{
    (void)thing;
    if (exs_recv(set->ends.client, set->memory, SET_MEMORY, 0, set->queue, NULL, set->region) == -1)
        return -1;
    set->receives++;
    return 0;
}

const struct limit limits[LIMITS] = {
    {"limit_device", {"limit_ia"}, "devices opened", get_device, close_socket},
    {"limit_domain", {"limit_pz"}, "protection domains created", get_domain, close_domain},
    {"limit_queue", {"limit_cno", "limit_evd"}, "event queues created", get_queue, delete_queue},
    {"limit_socket", {"limit_ep"}, "sockets created", get_socket, close_socket},
    {"limit_listener", {"limit_psp", "limit_rsp"}, "listeners created", get_listener, close_socket},
    {"limit_connection", {NULL}, "connections made", get_connection, close_connection},
    {"limit_region", {"limit_lmr"}, "memory regions created", get_region, deregister_region},
    {"limit_rpost", {NULL}, "receives posted", post_receive, NULL},
};
