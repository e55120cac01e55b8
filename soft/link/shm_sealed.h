/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_sealed.h - memory of a fixed size that two processes share: sealed, so that neither can truncate it. */
#ifndef SOFT_SHM_SEALED_H
#define SOFT_SHM_SEALED_H

#include <stdbool.h>
#include <stddef.h>

#define SHM_PAGE 4096 /* bytes; the kernel's pages may be larger */

/* Returns the descriptor of new memory; -1 and errno. */
int shm_sealed_make(size_t length);
/* Maps memory. A forked child does not inherit the mapping. Its first page is allocated. Returns NULL and errno on
 * failure; EPROTO if the memory does not have exactly this length, or is not sealed. */
void *shm_sealed_map(int memory, size_t length);
/* Allocates the pages of a mapping that are about to be written; otherwise the kernel would send SIGBUS to the writer
 * when it has no memory left. The last byte of each page may be overwritten. False: the kernel has no memory left. */
bool shm_sealed_populate(void *start, size_t length);

#endif
