/* SPDX-License-Identifier: BSD-2-Clause */
/* sparse.h - writes a file sequentially, with holes in place of blocks of zeros. */
#ifndef FILES_SPARSE_H
#define FILES_SPARSE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Like pwrite(2): writes at least one of the bytes at the end of the file. offset: the length of the file. */
ssize_t sparse_write(int fd, const void *bytes, size_t length, uint64_t offset);

#endif
