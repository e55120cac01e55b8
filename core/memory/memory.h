/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.h - memory regions that the user registered (exs_mregister).
 *
 * A region is not registered with any device until an operation on a connection uses it. Then it is registered in
 * that connection's protection domain (domain.h), once, and later operations find the registration in the domain's
 * map. That registration does not allow the peer to write; the first receive on the connection makes a second one
 * that does.
 */
#ifndef XS_MEMORY_H
#define XS_MEMORY_H

#include <exs.h>
#include "domain.h"

struct handle_slot;

/* Owned by its handle: freed by exs_mderegister(), which fails while the handle has users. */
struct memory {
    exs_mhandle_t handle;     /* its users are the operations that use the region */
    struct handle_slot *slot; /* of the handle */
    uint8_t *addr;
    size_t size;
    int flags;                   /* EXS_MRF_ */
    bool nofault;                /* its pages may be unmapped (maps_check()): copies must be fault-safe */
    uint64_t number;             /* unique, and never reused */
    LIST_HEAD(, region) regions; /* its registrations; guarded by the regions lock (memory.c) */
};

/* Returns true if the handle means "not registered". */
static inline bool xs_memory_is_none(exs_mhandle_t handle)
{
    return handle == NULL || handle == EXS_MHANDLE_UNREGISTERED;
}

/* Returns true if the pages of this region, or of unregistered memory (NULL), are known to stay mapped. */
static inline bool xs_memory_lasts(const struct memory *memory)
{
    return memory != NULL && !memory->nofault;
}

/* Takes a reference to the region of a handle, which must contain these bytes. *memory is NULL for "not registered".
 * Returns 0, or -1 and errno; EINVAL: no region, or the bytes are not within it; EACCES: its flags (EXS_MRF_) have
 * one of `forbidden`. */
int xs_memory_use(exs_mhandle_t handle, const void *addr, size_t length, int forbidden, struct memory **memory);
void xs_memory_unuse(struct memory *memory);

/* Returns the region's registration for a connection, made at first use. The caller must hold a reference to the
 * region, and the lock of the connection's home. NULL and errno on failure. */
struct ibv_mr *xs_memory_mr(struct memory *memory, struct domain *domain, enum memory_use use);
/* Deregisters all regions from a domain that is about to be freed. */
void xs_memory_forget(struct domain *domain);

/* Register memory and, if that fails, log what the user can do about it. Return NULL and errno on failure: ENOMEM,
 * EACCES, ... xs_register_at(): the peer knows the memory by addresses from `iova` on, which must have the same
 * offset in a page as `addr`. */
struct ibv_mr *xs_register_at(struct domain *domain, const void *addr, size_t length, uint64_t iova,
                              int access);
struct ibv_mr *xs_register(struct domain *domain, const void *addr, size_t length, int access);

uint32_t xs_memory_count(void); /* regions that the user has registered */
void xs_memory_reset(void);     /* forgets all regions, in a forked child */

#endif
