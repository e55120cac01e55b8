/* SPDX-License-Identifier: BSD-2-Clause */
/* sharing.h - a device whose links are shared memory. It has no service thread, and its clock stands still. */
#ifndef CHECK_SHARING_H
#define CHECK_SHARING_H

#include "soft/engine/engine.h"
#include "soft/link/shm.h"

struct sharing {
    struct soft_wire wire; /* must be the first member */
    struct soft_clock clock;
    struct service_member service;
    struct shm shm; /* its links; it has the context, too */
};

/* The struct must be zeroed. `open` is called by the wire for its first eventfd; NULL: nothing to do. */
void sharing_open(struct sharing *sharing, int (*open)(struct soft_wire *wire, struct ibv_context *context));

#endif
