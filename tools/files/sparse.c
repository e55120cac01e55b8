/* SPDX-License-Identifier: BSD-2-Clause */
/* sparse.c - finds runs of zero blocks, aligned to the file's blocks. See sparse.h. */
#include "sparse.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096 }; /* bytes: the unit in which most file systems allocate */

static bool is_zero(const unsigned char *bytes, size_t length)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0;
}

/* Returns the length of the first run: bytes in blocks of zeros (sets *is_hole), or bytes in other blocks. */
static size_t measure_run(const void *bytes, size_t length, uint64_t offset, bool *is_hole)
{
    const unsigned char *next = bytes;
    size_t run = 0;

    while (run < length) {
        size_t block = BLOCK - (size_t)((offset + run) % BLOCK);

        if (block > length - run)
            block = length - run;
        bool zero = is_zero(next + run, block);

        if (run > 0 && zero != *is_hole)
            return run;
        *is_hole = zero;
        run += block;
    }
    return run;
}

ssize_t sparse_write(int fd, const void *bytes, size_t length, uint64_t offset)
{
    bool is_hole = false;
    size_t run = measure_run(bytes, length, offset, &is_hole);

    if (!is_hole)
        return pwrite(fd, bytes, run, (off_t)offset);
    return ftruncate(fd, (off_t)(offset + run)) == 0 ? (ssize_t)run : -1;
}
