/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_sealed.h - memory of a fixed size that two processes share: sealed, so that nobody can cut it short. */
#ifndef SOFT_SHM_SEALED_H
#define SOFT_SHM_SEALED_H

#include <stddef.h>

/* New memory. -1 and errno. */
int shm_sealed_make(size_t length);
/* Mapped, if it has just this length and nobody can change that; a fork has no use for it. NULL and errno. */
void *shm_sealed_map(int memory, size_t length);

#endif
