/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.h - memory that the user registered.
 *
 * A region knows no device until an operation on some connection uses it; then it is registered for that
 * connection, in its protection domain (domain.h), once, and found in the domain's map from then on. The peer may
 * write to it only when the connection has begun to receive into it: the first receive registers it once more.
 */
#ifndef XS_MEMORY_H
#define XS_MEMORY_H

#include <stdatomic.h>
#include <exs.h>
#include "domain.h"

struct handle_slot;

struct memory {           /* owned by its handle; freed by exs_mderegister, never while the handle has users */
    exs_mhandle_t handle; /* operations that use it are its users */
    struct handle_slot *slot; /* of the handle */
    uint8_t *addr;
    size_t size;
    int flags;                   /* EXS_MRF_ */
    bool fragile;                /* its pages may go: fragile.h */
    uint64_t number;             /* its own for ever: no other has it after this one */
    LIST_HEAD(, region) regions; /* its registrations; guarded by the regions lock (memory.c) */
};

/* Is this the handle of none, "not registered"? */
static inline bool xs_memory_is_none(exs_mhandle_t handle)
{
    return handle == NULL || handle == EXS_MHANDLE_UNREGISTERED;
}

/* Can its pages not vanish? Of memory that nobody registered nothing is known. */
static inline bool xs_memory_lasts(const struct memory *memory)
{
    return memory != NULL && !memory->fragile;
}

/* The region of a handle that holds these bytes, counted as used; *memory is NULL for "not registered".
 * -1 and errno: EINVAL no region, or the bytes are not in it; EACCES its flags forbid it. */
int xs_memory_use(exs_mhandle_t handle, const void *addr, size_t length, int forbidden, struct memory **memory);
void xs_memory_unuse(struct memory *memory);

/* Its registration for a connection, made at first use. It must be in use. NULL and errno. Called with the lock
 * of the connection's home. */
struct ibv_mr *xs_memory_mr(struct memory *memory, struct domain *domain, enum memory_use use);
/* The domain is about to go: no memory is registered in it any more. */
void xs_memory_forget(struct domain *domain);

/* Register, with errors that teach. NULL and errno: ENOMEM, EACCES, ... */
/* The peer knows it by addresses from `iova` on, which has the same place in a page as `addr`. */
struct ibv_mr *xs_register_at(struct domain *domain, const void *addr, size_t length, uint64_t iova, int access);
struct ibv_mr *xs_register(struct domain *domain, const void *addr, size_t length, int access);

uint32_t xs_memory_count(void); /* regions that are registered */
void xs_memory_reset(void);     /* forget all, in a forked child */

#endif
