/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - registered memory: handles, and the registration for each connection at first use. See memory.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "core/base/entry.h"
#include "core/base/handle.h"
#include "core/base/log.h"
#include "core/base/maps.h"
#include "core/debug/misuse.h"
#include "memory.h"

static struct handle_table handles = HANDLE_TABLE_INIT;

/* Guards registration and each memory's list of regions. A lookup of an existing registration does not take
 * it. */
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;

struct region { /* registrations of one memory in one domain; owned by both, and freed with the first of them */
    UT_hash_handle hh;
    LIST_ENTRY(region) same; /* next region of the same memory; guarded by regions_lock */
    struct domain *domain;
    struct memory *memory;
    struct ibv_mr *mr[MEMORY_USES]; /* NULL: not needed yet */
};

static _Atomic uint64_t numbers; /* counter for memory->number; relaxed: pairs with nothing */

uint32_t xs_memory_count(void)
{
    return xs_handle_count(&handles);
}

void xs_memory_reset(void)
{
    xs_handle_reset(&handles);
    pthread_mutex_init(&regions_lock, NULL);
}

static int access_for(const struct memory *memory, enum memory_use use)
{
    if (use == MEMORY_TO_RECEIVE)
        return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    return memory->flags & EXS_MRF_RECV_DISABLE ? 0 : IBV_ACCESS_LOCAL_WRITE;
}

/* KiB that devices have pinned for this process (VmPin). */
static size_t pinned_kib(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[128];
    size_t kib = 0;

    if (status == NULL)
        return 0;
    while (fgets(line, sizeof(line), status) != NULL) {
        if (strncmp(line, "VmPin:", 6) == 0)
            kib = strtoul(line + 6, NULL, 10);
    }
    fclose(status);
    return kib;
}

static void explain_limit(size_t length)
{
    struct rlimit limit;
    size_t there = pinned_kib();

    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        xs_explain(ENOMEM,
                   "can't register %zu KiB: the memlock limit is %zu KiB, need %zu KiB: raise ulimit -l",
                   length / 1024, (size_t)limit.rlim_cur / 1024, there + length / 1024);
    else
        xs_explain(ENOMEM, "can't register %zu KiB: no memory", length / 1024);
}

/* Log why a registration failed, and convert the device's errno to the one that EXS documents. Returns NULL. */
static struct ibv_mr *not_registered(size_t length)
{
    /* EPERM: RLIMIT_MEMLOCK is 0. */
    if (errno == ENOMEM || errno == EAGAIN || errno == EPERM) {
        explain_limit(length);
    } else if (errno == EFAULT) {
        errno = EACCES;
    }
    return NULL;
}

struct ibv_mr *xs_register(struct domain *domain, const void *addr, size_t length, int access)
{
    struct ibv_mr *mr = domain->nic->device->reg_mr(domain->pd, (void *)(uintptr_t)addr, length, access);

    return mr != NULL ? mr : not_registered(length);
}

struct ibv_mr *xs_register_at(struct domain *domain, const void *addr, size_t length, uint64_t iova, int access)
{
    struct ibv_mr *mr = domain->nic->device->reg_mr_iova2(domain->pd, (void *)(uintptr_t)addr, length, iova,
                                                          (unsigned int)access);

    return mr != NULL ? mr : not_registered(length);
}

/* ---- Registrations of a region ------------------------------------------------------------------- */

/* A registration that lets the peer write also serves for sends. Called with map_lock, or regions_lock. */
static struct ibv_mr *usable_mr(const struct region *region, enum memory_use use)
{
    if (region == NULL)
        return NULL;
    return region->mr[use] != NULL ? region->mr[use] : region->mr[MEMORY_TO_RECEIVE];
}

static struct ibv_mr *look_up(struct memory *memory, struct domain *domain, enum memory_use use)
{
    struct region *region;

    pthread_mutex_lock(&domain->nic->map_lock);
    HASH_FIND_PTR(domain->regions, &memory, region);
    struct ibv_mr *mr = usable_mr(region, use);

    pthread_mutex_unlock(&domain->nic->map_lock);
    return mr;
}

/* Called with regions_lock, as are the next two functions. */
static struct region *new_region(struct memory *memory, struct domain *domain)
{
    struct region *region = calloc(1, sizeof(*region));

    if (region == NULL)
        return NULL;
    region->domain = domain;
    region->memory = memory;
    pthread_mutex_lock(&domain->nic->map_lock);
    HASH_ADD_PTR(domain->regions, memory, region);
    bool added = region->hh.tbl != NULL;

    pthread_mutex_unlock(&domain->nic->map_lock);
    if (added) {
        LIST_INSERT_HEAD(&memory->regions, region, same);
        return region;
    }
    free(region);
    errno = ENOMEM;
    return NULL;
}

static struct ibv_mr *add_region(struct memory *memory, struct domain *domain, enum memory_use use)
{
    struct region *region;

    pthread_mutex_lock(&domain->nic->map_lock);
    HASH_FIND_PTR(domain->regions, &memory, region);
    pthread_mutex_unlock(&domain->nic->map_lock);
    if (region == NULL)
        region = new_region(memory, domain);
    if (region == NULL)
        return NULL;
    struct ibv_mr *mr = xs_register(domain, memory->addr, memory->size, access_for(memory, use));

    pthread_mutex_lock(&domain->nic->map_lock);
    region->mr[use] = mr;
    pthread_mutex_unlock(&domain->nic->map_lock);
    return mr;
}

static void drop_region(struct region *region)
{
    struct domain *domain = region->domain;

    pthread_mutex_lock(&domain->nic->map_lock);
    HASH_DEL(domain->regions, region);
    pthread_mutex_unlock(&domain->nic->map_lock);
    LIST_REMOVE(region, same);
    for (int use = 0; use < MEMORY_USES; use++) {
        if (region->mr[use] != NULL)
            domain->nic->device->dereg_mr(region->mr[use]);
    }
    free(region);
}

/* domain->last caches the last lookup, because most operations on a connection use the same memory as the
 * previous one. */
inline struct ibv_mr *xs_memory_mr(struct memory *memory, struct domain *domain, enum memory_use use)
{
    if (domain->last[use].number == memory->number)
        return domain->last[use].mr;
    struct ibv_mr *mr = look_up(memory, domain, use);

    if (mr == NULL) {
        pthread_mutex_lock(&regions_lock);
        mr = add_region(memory, domain, use);
        pthread_mutex_unlock(&regions_lock);
    }
    if (mr != NULL) {
        domain->last[use].number = memory->number;
        domain->last[use].mr = mr;
    }
    return mr;
}

void xs_memory_forget(struct domain *domain)
{
    struct region *region, *next;

    pthread_mutex_lock(&regions_lock);
    HASH_ITER (hh, domain->regions, region, next) {
        drop_region(region);
    }
    pthread_mutex_unlock(&regions_lock);
}

/* ---- Handles -------------------------------------------------------------------------------------- */

static int no_memory(exs_mhandle_t handle)
{
    if (xs_misuse_on)
        xs_misuse_handle(&handles, "mhandle", handle, "exs_mderegister");
    return xs_invalid("mhandle is not registered memory");
}

inline __attribute__((always_inline)) int xs_memory_use(exs_mhandle_t handle, const void *addr, size_t length,
                                                        int forbidden, struct memory **memory)
{
    *memory = NULL;
    if (xs_memory_is_none(handle))
        return 0;
    struct memory *found = xs_handle_get(&handles, handle);
    uintptr_t offset = found != NULL ? (uintptr_t)addr - (uintptr_t)found->addr : 0;

    if (found == NULL) {
        no_memory(handle);
    } else if ((uintptr_t)addr < (uintptr_t)found->addr || offset > found->size ||
               length > found->size - offset) {
        xs_invalid("the buffer is not within mhandle's memory");
    } else if (found->flags & forbidden) {
        errno = EACCES;
    } else {
        *memory = found;
        return 0;
    }
    if (found != NULL)
        xs_handle_put(&handles, handle);
    return -1;
}

void xs_memory_unuse(struct memory *memory)
{
    handle_leave(memory->slot);
}

static int check_region(const void *addr, size_t size, int flags)
{
    const int known = EXS_MRF_SHARED | EXS_MRF_RECV_DISABLE | EXS_MRF_SEND_DISABLE;

    if (addr == NULL || size == 0 || (uintptr_t)addr + size < (uintptr_t)addr)
        return xs_invalid("%s", addr == NULL ? "addr is NULL" : size == 0 ? "size is 0" : "addr + size wraps");
    if (size > EXS_MSG_MAX)
        return xs_too_long(size);
    return flags & ~known ? xs_bad_flags(flags, known) : 0;
}

exs_mhandle_t exs_mregister(void *addr, size_t size, int flags)
{
    if (xs_enter(__func__) < 0)
        return EXS_MHANDLE_INVALID;
    if (check_region(addr, size, flags) < 0)
        return EXS_MHANDLE_INVALID;
    bool nofault;
    int error = maps_check(addr, size, (flags & EXS_MRF_RECV_DISABLE) == 0, &nofault);

    if (error != 0) {
        errno = error == EFAULT ? EACCES : error;
        return EXS_MHANDLE_INVALID;
    }
    struct memory *memory = calloc(1, sizeof(*memory));

    if (memory == NULL)
        return EXS_MHANDLE_INVALID;
    memory->addr = addr;
    memory->size = size;
    memory->flags = flags;
    memory->nofault = nofault;
    memory->number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
    LIST_INIT(&memory->regions);
    memory->handle = xs_handle_make(&handles, memory);
    if (memory->handle == NULL) {
        free(memory);
        return EXS_MHANDLE_INVALID;
    }
    memory->slot = xs_handle_slot(&handles, memory->handle);
    return memory->handle;
}

int exs_mderegister(exs_mhandle_t mhandle, int flags)
{
    if (xs_enter(__func__) < 0)
        return -1;
    if (flags != 0)
        return xs_bad_flags(flags, 0);
    struct memory *memory = xs_handle_begin_take(&handles, mhandle);

    if (memory == NULL)
        return no_memory(mhandle);
    bool taken = xs_handle_take(&handles, mhandle);

    xs_handle_end_take(&handles);
    if (!taken) {
        errno = EBUSY;
        return -1;
    }
    pthread_mutex_lock(&regions_lock);
    while (!LIST_EMPTY(&memory->regions))
        drop_region(LIST_FIRST(&memory->regions));
    pthread_mutex_unlock(&regions_lock);
    free(memory);
    return 0;
}
