/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.c - the symbols of librdmacm: all identifiers are the software device's. */
#include <errno.h>
#include <stdlib.h>
#include <rdma/rdma_verbs.h>
#include "preload.h"

/* ---- Channels and events ---- */

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
    return soft_create_event_channel();
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    soft_destroy_event_channel(channel);
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    return soft_get_cm_event(channel, event);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    return soft_ack_cm_event(event);
}

/* ---- Identifiers ---- */

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                          enum rdma_port_space ps)
{
    return soft_create_id(channel, id, context, ps);
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
    return soft_destroy_id(id);
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    return soft_migrate_id(id, channel);
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t length)
{
    return soft_set_option(id, level, option, value, length);
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    return soft_bind_addr(id, addr);
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
    return soft_resolve_addr(id, src, dst, timeout_ms);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    return soft_resolve_route(id, timeout_ms);
}

static __be16 port_of(const struct sockaddr *addr)
{
    switch (addr->sa_family) {
    case AF_INET:
        return ((const struct sockaddr_in *)(const void *)addr)->sin_port;
    case AF_INET6:
        return ((const struct sockaddr_in6 *)(const void *)addr)->sin6_port;
    default:
        return 0;
    }
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return port_of(&id->route.addr.src_addr);
}

EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return port_of(&id->route.addr.dst_addr);
}

/* ---- Connections ---- */

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    return soft_listen(id, backlog);
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    return soft_connect(id, param);
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
    return soft_establish(id);
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    return soft_accept(id, param);
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t length)
{
    return soft_reject(id, private_data, length);
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
    return soft_disconnect(id);
}

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
    return soft_notify(id, event);
}

/* ---- Multicast groups ---- */

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    return soft_join_multicast(id, addr, true, context);
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
    if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED || !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) ||
        !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
        attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
        errno = ENOTSUP;
        return -1;
    }
    return soft_join_multicast(id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    return soft_leave_multicast(id, addr);
}

/* ---- Queue pairs ---- */

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return soft_create_id_qp(id, pd, attr);
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    return soft_create_id_qp_ex(id, attr);
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
    soft_destroy_id_qp(id);
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return soft_create_id_srq(id, pd, attr);
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
    return soft_create_id_srq_ex(id, attr);
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
    soft_destroy_id_srq(id);
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    return soft_init_qp_attr(id, attr, mask);
}

/* ---- Synchronous endpoints ---- */

EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                          struct ibv_qp_init_attr *attr)
{
    return soft_create_ep(id, res, pd, attr);
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
    soft_destroy_ep(id);
}

EXPORT int rdma_get_request(struct rdma_cm_id *listener, struct rdma_cm_id **id)
{
    return soft_get_request(listener, id);
}

/* ---- Devices ---- */

/* A list of one context: the shared one, which all identifiers use. */
EXPORT struct ibv_context **rdma_get_devices(int *count)
{
    struct soft_home *home = home_shared();
    struct ibv_context **list = home == NULL ? NULL : calloc(2, sizeof list[0]);

    if (list != NULL)
        list[0] = home->context;
    if (count != NULL)
        *count = list != NULL;
    return list;
}

EXPORT void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}

/* ---- Not supported ---- */

static int not_supported(void)
{
    errno = EOPNOTSUPP;
    return -1;
}

/* ECE, vendors' extensions of connections. The device has none: it ignores the local ones and sends none to the
 * peer. */
EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    if (id != NULL && ece != NULL)
        return 0;
    errno = EINVAL;
    return -1;
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    (void)id, (void)ece;
    return not_supported();
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t length)
{
    return soft_reject(id, private_data, length);
}

/* Functions of later releases of rdma-core, which not all headers declare. */
int preload_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                             const struct rdma_addrinfo *hints) __asm__("rdma_resolve_addrinfo");
int preload_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info) __asm__("rdma_query_addrinfo");
int preload_write_cm_event(struct rdma_cm_id *id, int event, int status,
                           uint64_t arg) __asm__("rdma_write_cm_event");

EXPORT int preload_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                                    const struct rdma_addrinfo *hints)
{
    (void)id, (void)node, (void)service, (void)hints;
    return not_supported();
}

EXPORT int preload_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
    (void)id, (void)info;
    return not_supported();
}

EXPORT int preload_write_cm_event(struct rdma_cm_id *id, int event, int status, uint64_t arg)
{
    (void)id, (void)event, (void)status, (void)arg;
    return not_supported();
}
