/* SPDX-License-Identifier: BSD-2-Clause */
/* sparse.h - writes a file from its beginning to its end, and leaves holes in place of blocks of zeros. */
#ifndef FILES_SPARSE_H
#define FILES_SPARSE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Like pwrite(2): writes some of the bytes, at least one, at the end of the file, which is this offset. */
ssize_t sparse_write(int fd, const void *bytes, size_t length, uint64_t offset);

#endif
