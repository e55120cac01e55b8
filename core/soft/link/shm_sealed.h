/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_sealed.h - memory of a fixed size that two processes share: sealed, so that nobody can cut it short. */
#ifndef SOFT_SHM_SEALED_H
#define SOFT_SHM_SEALED_H

#include <stdbool.h>
#include <stddef.h>

#define SHM_PAGE 4096 /* bytes, at least: the kernel's pages may be larger */

/* New memory. -1 and errno. */
int shm_sealed_make(size_t length);
/* Mapped, if it has just this length and nobody can change that; a fork has no use for it. Its first page has memory
 * behind it. NULL and errno. */
void *shm_sealed_map(int memory, size_t length);
/* Give memory to whole pages of a mapping that are about to be written, or else the kernel would send SIGBUS where it has
 * none left. What lies there in the last byte of a page may be lost. False: it has none left. */
bool shm_sealed_populate(void *start, size_t length);

#endif
