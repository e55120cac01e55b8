/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - the symbols of libibverbs for protection domains, memory regions and address handles. */
#include <errno.h>
#include "preload.h"

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    return dispatch(context, soft_alloc_pd, ibv_alloc_pd, context);
}

static int our_dealloc_pd(struct ibv_pd *pd)
{
    return home_reaped(soft_dealloc_pd(pd));
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    return dispatch(pd->context, our_dealloc_pd, ibv_dealloc_pd, pd);
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return dispatch(pd->context, soft_reg_mr, ibv_reg_mr, pd, addr, length, access);
}

static struct ibv_mr *reg_at(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    return soft_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    return dispatch(pd->context, reg_at, ibv_reg_mr_iova, pd, addr, length, iova, access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                       unsigned access)
{
    return dispatch(pd->context, soft_reg_mr_iova2, ibv_reg_mr_iova2, pd, addr, length, iova, access);
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return dispatch(mr->context, soft_rereg_mr, ibv_rereg_mr, mr, flags, pd, addr, length, access);
}

static int our_dereg_mr(struct ibv_mr *mr)
{
    return home_reaped(soft_dereg_mr(mr));
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    return dispatch(mr->context, our_dereg_mr, ibv_dereg_mr, mr);
}

/* Not supported: the memory of a dma-buf may be another device's, which the CPU can't access. */
static struct ibv_mr *reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                 int access)
{
    (void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
    errno = EOPNOTSUPP;
    return NULL;
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                        int fd, int access)
{
    return dispatch(pd->context, reg_dmabuf, ibv_reg_dmabuf_mr, pd, offset, length, iova, fd, access);
}

/* ---- Objects of other processes ---- */

/* Not supported: no other process can have an object of the software device's contexts in this process. */

static struct ibv_pd *import_pd(struct ibv_context *context, uint32_t handle)
{
    (void)context, (void)handle;
    errno = EOPNOTSUPP;
    return NULL;
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
    return dispatch(context, import_pd, ibv_import_pd, context, handle);
}

static struct ibv_mr *import_mr(struct ibv_pd *pd, uint32_t handle)
{
    (void)pd, (void)handle;
    errno = EOPNOTSUPP;
    return NULL;
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    return dispatch(pd->context, import_mr, ibv_import_mr, pd, handle);
}

static struct ibv_dm *import_dm(struct ibv_context *context, uint32_t handle)
{
    (void)context, (void)handle;
    errno = EOPNOTSUPP;
    return NULL;
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
    return dispatch(context, import_dm, ibv_import_dm, context, handle);
}

/* ---- Functions of later releases of rdma-core ---- */

/* Not all headers declare their structs, which are not needed here: the device does not support the functions. */
struct ibv_mr *preload_reg_mr_ex(struct ibv_pd *pd, void *attr) __asm__("ibv_reg_mr_ex");
void *preload_alloc_dmah(struct ibv_context *context, void *attr) __asm__("ibv_alloc_dmah");

EXPORT struct ibv_mr *preload_reg_mr_ex(struct ibv_pd *pd, void *attr)
{
    if (!soft_is_ours(pd->context))
        return ((__typeof__(preload_reg_mr_ex) *)preload_real("ibv_reg_mr_ex"))(pd, attr);
    errno = EOPNOTSUPP;
    return NULL;
}

EXPORT void *preload_alloc_dmah(struct ibv_context *context, void *attr)
{
    if (!soft_is_ours(context))
        return ((__typeof__(preload_alloc_dmah) *)preload_real("ibv_alloc_dmah"))(context, attr);
    errno = EOPNOTSUPP;
    return NULL;
}

/* ---- Address handles ---- */

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    return dispatch(pd->context, soft_create_ah, ibv_create_ah, pd, attr);
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
                               struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
    return dispatch(context, soft_init_ah_from_wc, ibv_init_ah_from_wc, context, port, wc, grh, attr);
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                            uint8_t port)
{
    return dispatch(pd->context, soft_create_ah_from_wc, ibv_create_ah_from_wc, pd, wc, grh, port);
}

static int our_destroy_ah(struct ibv_ah *ah)
{
    return home_reaped(soft_destroy_ah(ah));
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
    return dispatch(ah->context, our_destroy_ah, ibv_destroy_ah, ah);
}
