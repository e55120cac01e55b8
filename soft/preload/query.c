/* SPDX-License-Identifier: BSD-2-Clause */
/* query.c - the symbols of libibverbs that query a device, its port, and its GID and P_Key tables. */
#include <errno.h>
#include "preload.h"

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    return dispatch(context, soft_query_device, ibv_query_device, context, attr);
}

/* Programs built before port_cap_flags2 existed call this symbol, with their shorter struct. */
EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    if (soft_is_ours(context))
        return context->ops._compat_query_port(context, port, attr);
    return real(ibv_query_port)(context, port, attr);
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    return dispatch(context, soft_query_gid, ibv_query_gid, context, port, index, gid);
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                             struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    return dispatch(context, soft_query_gid_ex, _ibv_query_gid_ex, context, port, index, entry, flags, size);
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t room,
                                    uint32_t flags, size_t size)
{
    return dispatch(context, soft_query_gid_table, _ibv_query_gid_table, context, entries, room, flags, size);
}

/* The public headers do not declare it, but ibv_devinfo calls it. *type: 1 for RoCE version 2, otherwise 0. */
EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type)
{
    struct ibv_gid_entry entry;
    int error;

    if (!soft_is_ours(context))
        return real(ibv_query_gid_type)(context, port, index, type);
    error = soft_query_gid_ex(context, port, index, &entry, 0, sizeof entry);
    if (error != 0) {
        errno = error;
        return -1;
    }
    *type = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    return 0;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    return dispatch(context, soft_query_pkey, ibv_query_pkey, context, port, index, pkey);
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    return dispatch(context, soft_get_pkey_index, ibv_get_pkey_index, context, port, pkey);
}
