/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mr.c - protection domains and memory regions, and each check of a key.
 *
 * lkey and rkey are the same. The engine accesses memory only with the context's lock held, so no thread accesses a
 * region after soft_dereg_mr() has returned.
 */
#include <errno.h>
#include <stdlib.h>
#include "core/base/maps.h"
#include "soft/engine/engine.h"
#include "verbs.h"

#define ACCESS_KNOWN                                                                                           \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |    \
     IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |                  \
     IBV_ACCESS_OPTIONAL_RANGE)

int soft_pd_check(const struct ibv_pd *pd)
{
    return soft_object_check(soft_context_of(pd->context), SOFT_PD, pd, pd->handle);
}

struct ibv_pd *soft_alloc_pd(struct ibv_context *ibv)
{
    struct soft_context *context = soft_context_of(ibv);
    struct soft_pd *pd = calloc(1, sizeof *pd);
    bool entered;

    if (pd == NULL)
        return NULL;
    pd->ibv.context = ibv;
    soft_lock(ibv);
    entered = soft_object_enter(context, SOFT_PD, pd, &pd->ibv.handle);
    soft_unlock(ibv);
    if (entered)
        return &pd->ibv;
    free(pd);
    errno = ENOMEM;
    return NULL;
}

int soft_dealloc_pd(struct ibv_pd *ibv)
{
    struct soft_pd *pd = (struct soft_pd *)ibv;
    struct ibv_context *context = ibv->context;
    int error;

    soft_lock(context);
    error = soft_pd_check(ibv);
    if (error == 0 && pd->users > 0)
        error = EBUSY;
    if (error == 0)
        soft_object_retire(soft_context_of(context), ibv->handle);
    soft_unlock(context);
    if (error != 0)
        return errno = error;
    soft_object_free(soft_context_of(context), pd);
    return 0;
}

bool soft_page_is_writable(const void *at)
{
    return maps_probe_page(at, true) == 0;
}

/* 0 or an errno. *nofault: its pages may vanish. */
static int check_region(uintptr_t start, size_t length, int access, bool *nofault)
{
    bool write = access & IBV_ACCESS_LOCAL_WRITE;

    *nofault = true;
    if (length == 0 || length - 1 > UINTPTR_MAX - start)
        return EINVAL;
    if (access & ~ACCESS_KNOWN)
        return EINVAL;
    if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !write)
        return EINVAL;
    if (access & IBV_ACCESS_ON_DEMAND)
        return 0; /* checked when used; an implicit region is SIZE_MAX bytes from 0 */
    return maps_check((void *)start, length, write, nofault);
}

struct ibv_mr *soft_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return soft_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

/* Sets the range of addresses that the network may access. */
static void set_range(struct soft_mr *mr, void *addr, size_t length, uint64_t iova, bool nofault)
{
    mr->on_demand = mr->access & IBV_ACCESS_ON_DEMAND;
    mr->ibv.addr = addr;
    mr->ibv.length = length;
    mr->iova = iova;
    mr->shift = (uintptr_t)addr - iova;
    mr->nofault = nofault;
}

/* The region's first address for the network, if the caller asks for this one. */
static uint64_t iova_of(uint64_t iova, int access)
{
    return access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
}

/* (locked) 0 or an errno. */
static int enter_mr(struct soft_context *context, struct soft_mr *mr)
{
    int error = soft_pd_check(mr->ibv.pd);

    if (error != 0)
        return error;
    if (!soft_object_enter(context, SOFT_MR, mr, &mr->ibv.handle))
        return ENOMEM;
    if (!soft_region_enter(context, mr)) {
        soft_object_leave(context, mr->ibv.handle);
        return ENOMEM;
    }
    ((struct soft_pd *)mr->ibv.pd)->users++;
    return 0;
}

static struct soft_mr *new_region(struct ibv_pd *pd, int access)
{
    struct soft_mr *mr = calloc(1, sizeof *mr);

    if (mr == NULL)
        return NULL;
    mr->ibv.context = pd->context;
    mr->ibv.pd = pd;
    mr->access = access;
    return mr;
}

/* Adds the complete region to its context. NULL and errno: then it is freed. */
static struct ibv_mr *admit_mr(struct soft_mr *mr)
{
    int error;

    soft_lock(mr->ibv.context);
    error = enter_mr(soft_context_of(mr->ibv.context), mr);
    soft_unlock(mr->ibv.context);
    if (error == 0)
        return &mr->ibv;
    free(mr);
    errno = error;
    return NULL;
}

struct ibv_mr *soft_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
    struct soft_mr *mr;
    bool nofault;

    if ((errno = check_region((uintptr_t)addr, length, (int)access, &nofault)) != 0)
        return NULL;
    if ((mr = new_region(pd, (int)access)) == NULL)
        return NULL;
    set_range(mr, addr, length, iova_of(iova, (int)access), nofault);
    return admit_mr(mr);
}

/* Without any access right: nothing writes there, and no peer reads there. */
struct ibv_mr *soft_reg_file(struct ibv_pd *pd, int file, uint64_t offset, size_t length)
{
    struct soft_mr *mr;

    if (file < 0 || length == 0 || length > INT64_MAX || offset > INT64_MAX - (uint64_t)length) {
        errno = EINVAL;
        return NULL;
    }
    if ((mr = new_region(pd, 0)) == NULL)
        return NULL;
    mr->ibv.length = length;
    mr->nofault = mr->is_file = true;
    mr->file = file;
    mr->start = offset;
    return admit_mr(mr);
}

/* (locked) 0 or an errno. */
static int mr_check(const struct ibv_mr *mr)
{
    return soft_object_check(soft_context_of(mr->context), SOFT_MR, mr, mr->handle);
}

/* True for arguments that libibverbs does not pass to a device. */
static bool is_asked_wrongly(int flags, const void *addr, size_t length, int access)
{
    return flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || (access != 0 && !(flags & IBV_REREG_MR_CHANGE_ACCESS)) ||
           (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (addr == NULL || length == 0));
}

/* (locked) Changes all of the region, or nothing. 0 or an errno. */
static int change_mr(struct soft_mr *mr, const struct soft_mr *to)
{
    int error = mr_check(&mr->ibv);

    if (error == 0)
        error = soft_pd_check(to->ibv.pd);
    if (error == 0 && mr->windows > 0)
        error = EBUSY;
    if (error != 0)
        return error;
    ((struct soft_pd *)mr->ibv.pd)->users--;
    ((struct soft_pd *)to->ibv.pd)->users++;
    *mr = *to;
    mr->windows = 0;
    return 0;
}

/* 0 or an errno. */
static int reregister_mr(struct soft_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
    struct soft_mr changed = *mr;
    bool nofault;
    int error;

    if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
        addr = mr->ibv.addr;
        length = mr->ibv.length;
    }
    if (flags & IBV_REREG_MR_CHANGE_ACCESS)
        changed.access = access;
    if (flags & IBV_REREG_MR_CHANGE_PD)
        changed.ibv.pd = pd;
    if (flags == 0 || mr->is_file || changed.ibv.pd == NULL || changed.ibv.pd->context != mr->ibv.context)
        return EINVAL;
    if ((error = check_region((uintptr_t)addr, length, changed.access, &nofault)) != 0)
        return error;
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION ||
        (changed.access ^ mr->access) & (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND))
        set_range(&changed, addr, length, iova_of((uintptr_t)addr, changed.access), nofault);
    soft_lock(mr->ibv.context);
    soft_settle_all(soft_context_of(mr->ibv.context));
    error = change_mr(mr, &changed);
    soft_unlock(mr->ibv.context);
    return error;
}

int soft_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
    int error;

    if (is_asked_wrongly(flags, addr, length, access)) {
        errno = EINVAL;
        return IBV_REREG_MR_ERR_INPUT;
    }
    if ((error = reregister_mr((struct soft_mr *)mr, flags, pd, addr, length, access)) == 0)
        return 0;
    errno = error;
    return IBV_REREG_MR_ERR_CMD;
}

int soft_dereg_mr(struct ibv_mr *ibv)
{
    struct ibv_context *context = ibv->context;
    int error;

    soft_lock(context);
    error = mr_check(ibv);
    if (error == 0 && ((struct soft_mr *)ibv)->windows > 0)
        error = EBUSY; /* windows are bound to it */
    if (error == 0) {
        soft_settle_all(soft_context_of(context));
        soft_key_leave(&soft_context_of(context)->keys, (struct soft_mr *)ibv);
        ((struct soft_pd *)ibv->pd)->users--;
        soft_object_retire(soft_context_of(context), ibv->handle);
    }
    soft_unlock(context);
    if (error != 0)
        return errno = error;
    soft_object_free(soft_context_of(context), ibv);
    return 0;
}

inline __attribute__((always_inline)) struct soft_mr *soft_mr_check(struct soft_context *context,
                                                                    struct ibv_pd *pd, uint32_t key,
                                                                    uint64_t address, uint64_t length,
                                                                    int access)
{
    struct soft_mr *mr = soft_key_find(&context->keys, key);
    uint64_t start;

    if (mr == NULL || mr->ibv.pd != pd || (mr->access & access) != access)
        return NULL;
    start = mr->iova;
    if (address < start || length > mr->ibv.length || address - start > mr->ibv.length - length)
        return NULL;
    return mr;
}
