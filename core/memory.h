/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.h - memory that the user registered.
 *
 * A region knows no device until an operation on some queue uses it there; then it is registered with that
 * queue's nic, once, and found in the nic's own map from then on.
 */
#ifndef XS_MEMORY_H
#define XS_MEMORY_H

#include <stdatomic.h>
#include <exs.h>
#include "nic.h"

struct memory {           /* owned by its handle; freed by exs_mderegister, never while the handle has users */
    exs_mhandle_t handle; /* operations that use it are its users */
    uint8_t *addr;
    size_t size;
    int flags;    /* EXS_MRF_ */
    bool fragile; /* its pages may go: fragile.h */
};

/* The region of a handle that holds these bytes, counted as used; *memory is NULL for "not registered".
 * -1 and errno: EINVAL no region, or the bytes are not in it; EACCES its flags forbid it. */
int xs_memory_use(exs_mhandle_t handle, const void *addr, size_t length, int forbidden, struct memory **memory);
void xs_memory_unuse(struct memory *memory);

/* Its registration on a nic. NULL and errno. */
struct ibv_mr *xs_memory_mr(struct memory *memory, struct nic *nic);

/* The access to ask for when nothing else is known. */
int xs_memory_access(int flags);
/* Register, with errors that teach. NULL and errno: ENOMEM, EACCES, ... */
struct ibv_mr *xs_register(struct nic *nic, const void *addr, size_t length, int access);

void xs_memory_nic_up(struct nic *nic);
void xs_memory_nic_down(struct nic *nic);
void xs_memory_reset(void); /* forget all, in a forked child */

#endif
