/* SPDX-License-Identifier: BSD-2-Clause */
/* random.h - bytes that no other process can guess. */
#ifndef XS_RANDOM_H
#define XS_RANDOM_H

#include <errno.h>
#include <stddef.h>
#include <sys/random.h>

/* Fills `length` bytes, 256 at most. Early after boot it waits until the kernel's random number generator is ready; a
 * signal does not end that wait. Returns 0 or an errno. */
static inline int random_bytes(void *to, size_t length)
{
    while (getrandom(to, length, 0) != (ssize_t)length)
        if (errno != EINTR)
            return errno;
    return 0;
}

#endif
