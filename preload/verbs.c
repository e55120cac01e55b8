/* SPDX-License-Identifier: BSD-2-Clause */
/* The symbols of libibverbs that work on objects of a device. */
#include <errno.h>
#include "preload.h"

/* ---- Queries ---- */

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    return dispatch(context, soft_query_device, ibv_query_device, context, attr);
}

/* The symbol is that of programs from before port_cap_flags2, with their shorter struct. */
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

/* Not in the headers, but ibv_devinfo calls it. The type is 1 for RoCE version 2, else 0. */
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

/* ---- Memory ---- */

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    return dispatch(context, soft_alloc_pd, ibv_alloc_pd, context);
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    return dispatch(pd->context, soft_device.dealloc_pd, ibv_dealloc_pd, pd);
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return dispatch(pd->context, soft_reg_mr, ibv_reg_mr, pd, addr, length, access);
}

/* A region's addresses are those of its memory. */
static struct ibv_mr *reg_at(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    if (iova == (uintptr_t)addr)
        return soft_reg_mr(pd, addr, length, access);
    errno = EOPNOTSUPP;
    return NULL;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    return dispatch(pd->context, reg_at, ibv_reg_mr_iova, pd, addr, length, iova, access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                       unsigned access)
{
    return dispatch(pd->context, reg_at, ibv_reg_mr_iova2, pd, addr, length, iova, access);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    return dispatch(mr->context, soft_device.dereg_mr, ibv_dereg_mr, mr);
}

/* ---- Completion ---- */

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    return dispatch(context, soft_create_comp_channel, ibv_create_comp_channel, context);
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    return dispatch(channel->context, soft_device.destroy_comp_channel, ibv_destroy_comp_channel, channel);
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                    struct ibv_comp_channel *channel, int vector)
{
    return dispatch(context, soft_create_cq, ibv_create_cq, context, cqe, cq_context, channel, vector);
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
    return dispatch(cq->context, soft_device.destroy_cq, ibv_destroy_cq, cq);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    return dispatch(channel->context, soft_get_cq_event, ibv_get_cq_event, channel, cq, cq_context);
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    dispatch(cq->context, soft_ack_cq_events, ibv_ack_cq_events, cq, count);
}

/* ---- Queue pairs ---- */

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return dispatch(pd->context, soft_create_qp, ibv_create_qp, pd, attr);
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    return dispatch(qp->context, soft_device.destroy_verbs_qp, ibv_destroy_qp, qp);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    return dispatch(qp->context, soft_modify_qp, ibv_modify_qp, qp, attr, mask);
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    return dispatch(qp->context, soft_query_qp, ibv_query_qp, qp, attr, mask, init);
}
