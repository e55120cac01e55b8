/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * advise.c - ibv_advise_mr(): make pages of a region present before they are used.
 *
 * The device has no page table to fill; the kernel brings a missing page when it is used. Advice is therefore passed on
 * to the kernel, for the ranges that are in the region.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include "soft/engine/engine.h"
#include "verbs.h"

#define FLAGS_KNOWN IBV_ADVISE_MR_FLAG_FLUSH /* the caller waits until it is done */

/* 0, or the errno for invalid advice. */
static int check_advice(const struct ibv_pd *pd, const struct ibv_sge *sge, uint32_t count, int access)
{
    struct soft_context *context = soft_context_of(pd->context);
    int error;

    soft_lock(pd->context);
    error = soft_pd_check(pd);
    for (uint32_t i = 0; i < count && error == 0; i++)
        if (soft_mr_check(context, (struct ibv_pd *)(uintptr_t)pd, sge[i].lkey, sge[i].addr, sge[i].length,
                          access) == NULL)
            error = EFAULT;
    soft_unlock(pd->context);
    return error;
}

/* Populates whole pages. Kernels without MADV_POPULATE (before 5.14) do nothing now, and bring the pages when they are
 * used. 0 or an errno. */
static int populate_pages(uint64_t address, uint64_t length, int how)
{
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), start = address & ~(size - 1);

    if (length == 0 || madvise((void *)start, address + length - start, how) == 0)
        return 0;
    return errno == EINVAL && madvise(NULL, 0, how) == -1 ? 0 : EFAULT;
}

/* Only advice that the caller waits for can fail. A region's addresses may differ from those of its memory; a region
 * whose addresses begin at 0 is not populated. */
int soft_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sge,
                   uint32_t count)
{
    bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    int error;

    if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
        return ENOTSUP;
    if (flags & ~(uint32_t)FLAGS_KNOWN || count == 0)
        return EINVAL;
    error = check_advice(pd, sge, count, write ? IBV_ACCESS_LOCAL_WRITE : 0);
    if (error != 0 || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
        return error;
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = populate_pages(sge[i].addr, sge[i].length, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    return flags & IBV_ADVISE_MR_FLAG_FLUSH ? error : 0;
}
