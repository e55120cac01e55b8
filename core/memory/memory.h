/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.h - memory regions that the application has registered with exs_mregister (the user's regions).
 *
 * A region is not registered with any device until an operation on a connection uses it. Then it is registered once in
 * that connection's protection domain (domain.h), and later operations on the connection find this registration. The
 * registration does not allow the peer to write; the first receive on the connection makes a second one that does.
 */
#ifndef XS_MEMORY_H
#define XS_MEMORY_H

#include <exs.h>
#include "domain.h"

struct handle_slot;

/* Owned by its handle: freed by exs_mderegister(), which fails while the handle has users. */
struct memory {
    exs_mhandle_t handle;     /* its users are the operations that use the region */
    struct handle_slot *slot; /* the handle's slot */
    uint8_t *addr;
    size_t size;
    int flags;                   /* EXS_MRF_ */
    bool nofault;                /* its pages may be unmapped (maps_check()): copies must be fault-safe */
    uint64_t number;             /* a number that no other region has, nor had before */
    LIST_HEAD(, region) regions; /* its registrations; guarded by the regions lock (memory.c) */
};

/* Returns true if the handle means "not registered". */
static inline bool xs_memory_is_none(exs_mhandle_t handle)
{
    return handle == NULL || handle == EXS_MHANDLE_UNREGISTERED;
}

/* Returns true if the pages of this region are known to stay mapped. NULL stands for unregistered memory: false. */
static inline bool xs_memory_lasts(const struct memory *memory)
{
    return memory != NULL && !memory->nofault;
}

/* Sets *memory to the region of this handle, with a reference; the region must contain the `length` bytes at `addr`.
 * For the handles that mean "not registered" *memory is NULL. Returns 0, or -1 and errno. EINVAL: the handle is not
 * valid, or the bytes are not within the region. EACCES: the region has one of the flags `forbidden` (EXS_MRF_). */
int xs_memory_use(exs_mhandle_t handle, const void *addr, size_t length, int forbidden, struct memory **memory);
/* Drops the reference. */
void xs_memory_unuse(struct memory *memory);

/* Returns the region's registration in a connection's domain, which the first call makes. The caller must hold a
 * reference to the region, and the lock of the connection's home queue. Returns NULL and errno on failure. */
struct ibv_mr *xs_memory_mr(struct memory *memory, struct domain *domain, enum memory_use use);
/* Deregisters all regions from a domain that is about to be freed. */
void xs_memory_forget(struct domain *domain);

/* Register memory in the domain, with these access flags (IBV_ACCESS_). If that fails, they log what the user can do
 * about it, and return NULL and an errno: ENOMEM (the memlock limit, too), EACCES (memory that can't be used) or
 * another errno of the device. With xs_register_at() the peer uses addresses from `iova` on, which must have the same
 * offset in a page as `addr`. */
struct ibv_mr *xs_register_at(struct domain *domain, const void *addr, size_t length, uint64_t iova,
                              int access);
struct ibv_mr *xs_register(struct domain *domain, const void *addr, size_t length, int access);

uint32_t xs_memory_count(void); /* regions that the user has registered */
void xs_memory_reset(void);     /* forgets all regions, in a forked child */

#endif
