/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sharing.h - a device whose links are memory that it shares. No thread looks after it, and its clock stands
 * still.
 */
#ifndef CHECK_SHARING_H
#define CHECK_SHARING_H

#include "soft/engine/engine.h"
#include "soft/link/shm.h"

struct sharing {
    struct soft_wire wire; /* first */
    struct soft_clock clock;
    struct service_member service;
    struct shm shm; /* with the context */
};

/* Of zeros. `open` is what the wire needs for its first wakefd, or NULL. */
void sharing_open(struct sharing *sharing, int (*open)(struct soft_wire *wire, struct ibv_context *context));

#endif
