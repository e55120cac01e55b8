/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_address.c - binds identifiers to local addresses, and resolves addresses and routes, as the kernel knows them. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "core/base/fds.h"
#include "cm_id.h"
#include "soft/verbs/verbs.h"

#define EXACTLY 2 /* selector in a path record: exactly this value */
#define DISCARD 9 /* a port for the route lookup: nothing is sent to it */

/* If channels share a context, sets the identifier's device as soon as it has a local address. 0 or an errno. */
static int find_device(struct cm_id *id)
{
    const struct rdma_addr *addr = &id->public.route.addr;
    struct ibv_context *context;

    if (!cm_is_shared() ||
        (addr->src_addr.sa_family == AF_INET ? addr->src_sin.sin_addr.s_addr == htonl(INADDR_ANY)
                                             : IN6_IS_ADDR_UNSPECIFIED(&addr->src_sin6.sin6_addr)))
        return 0;
    context = cm_context(cm_channel_of(id));
    if (context == NULL)
        return errno;
    cm_id_gids(id);
    cm_id_use(id, context);
    return 0;
}

static int bind_id(struct cm_id *id, const struct sockaddr *addr)
{
    int error;

    if (id->state != CM_IDLE || cm_is_bound(id) || cm_addr_size(addr) == 0)
        return EINVAL;
    if (cm_is_datagram(id)) {
        error = cm_datagram_bind(id, addr);
        return error == 0 ? find_device(id) : error;
    }
    id->fd = cm_socket_open(addr->sa_family, id->af_only);
    if (id->fd == -1)
        return errno;
    error = cm_socket_bind(id->fd, addr, id->reuse_addr) == 0 ? cm_id_addresses(id) : errno;
    if (error == 0)
        error = find_device(id);
    if (error != 0)
        cm_id_close(id);
    return error;
}

int soft_bind_addr(struct rdma_cm_id *public, struct sockaddr *addr)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    int error = bind_id(id, addr);

    cm_unlock(channel);
    return cm_result(error);
}

/* Looks up the route by connecting a UDP socket. The port of a bound identifier is kept. The destination's port does
 * not matter, and is replaced because it may be 0, to which a socket can't be connected. */
static int find_route(struct cm_id *id, const struct sockaddr *dst)
{
    struct rdma_addr *addr = &id->public.route.addr;
    union soft_addr local, remote;
    in_port_t port = cm_is_bound(id) ? addr->src_sin.sin_port : 0, remote_port;
    int fd = fds_own(socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
    int error = 0;

    if (fd == -1)
        return errno;
    memcpy(&remote, dst, cm_addr_size(dst));
    remote_port = remote.in.sin_port;
    remote.in.sin_port = htons(DISCARD);
    if (cm_is_bound(id)) {
        memcpy(&local, &addr->src_storage, sizeof local);
        local.in.sin_port = 0; /* at the same place in both kinds of address */
        if (bind(fd, &local.sa, cm_addr_size(&local.sa)) == -1)
            error = errno;
    }
    if (error == 0 && connect(fd, &remote.sa, cm_addr_size(&remote.sa)) == -1)
        error = errno;
    if (error == 0)
        error = cm_socket_names(fd, &local, &remote);
    fds_close(fd);
    if (error != 0)
        return error;
    local.in.sin_port = port;
    remote.in.sin_port = remote_port;
    memcpy(&addr->src_storage, &local, sizeof local);
    memcpy(&addr->dst_storage, &remote, sizeof remote);
    return 0;
}

/* Sets source and destination. A bound identifier keeps its source address; `src` is then ignored. */
static int set_addresses(struct cm_id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
    int error;

    if (id->state != CM_IDLE || id->pending[CM_KIND_ADDR].queued || cm_addr_size(dst) == 0 ||
        (src != NULL && cm_addr_size(src) == 0))
        return EINVAL;
    error = src == NULL || cm_is_bound(id) ? 0 : bind_id(id, src);
    if (error != 0)
        return error;
    if (cm_is_bound(id) && id->public.route.addr.src_addr.sa_family != dst->sa_family)
        return EINVAL;
    if (cm_context(cm_channel_of(id)) == NULL)
        return errno;
    error = find_route(id, dst);
    if (error != 0) {
        cm_post(id, CM_KIND_ADDR, RDMA_CM_EVENT_ADDR_ERROR, -error);
        return 0;
    }
    cm_id_use(id, cm_context(cm_channel_of(id)));
    id->state = CM_ADDR_RESOLVED;
    cm_id_gids(id);
    cm_post(id, CM_KIND_ADDR, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    return 0;
}

/* The timeouts of these two calls are not used, because nothing here takes time. */
int soft_resolve_addr(struct rdma_cm_id *public, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    int error = set_addresses(id, src, dst);

    (void)timeout_ms;
    cm_unlock(channel);
    return cm_complete(id, cm_result(error));
}

/* Fills in the path record, from which applications make address handles. */
static void describe_route(struct cm_id *id)
{
    struct rdma_route *route = &id->public.route;
    const struct rdma_ib_addr *addr = &route->addr.addr.ibaddr;
    struct ibv_port_attr port;

    if (!cm_is_shared() || soft_query_port(id->public.verbs, SOFT_DEVICE_PORT, &port) != 0)
        return;
    id->path = (struct ibv_sa_path_rec){
        .dgid = addr->dgid,
        .sgid = addr->sgid,
        .traffic_class = id->traffic_class,
        .hop_limit = CM_HOP_LIMIT,
        .numb_path = 1,
        .pkey = addr->pkey,
        .mtu_selector = EXACTLY,
        .mtu = (uint8_t)port.active_mtu,
    };
    route->path_rec = &id->path;
    route->num_paths = 1;
}

int soft_resolve_route(struct rdma_cm_id *public, int timeout_ms)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    bool resolved = id->state == CM_ADDR_RESOLVED;

    (void)timeout_ms;
    if (resolved) {
        id->state = CM_ROUTE_RESOLVED;
        describe_route(id);
        cm_post(id, CM_KIND_ROUTE, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    }
    cm_unlock(channel);
    return cm_complete(id, cm_result(resolved ? 0 : EINVAL));
}
