/* SPDX-License-Identifier: BSD-2-Clause */
/* The library's own descriptors: a bitmap without a lock, since a forked child may not wait for one. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>
#include "fds.h"

#define FDS_MAX (1 << 20) /* the kernel's own default ceiling (fs.nr_open); higher ones are not remembered */
#define FDS_BITS 64

static _Atomic uint64_t owned[FDS_MAX / FDS_BITS];

int fds_own(int fd)
{
    if (fd >= 0 && fd < FDS_MAX)
        atomic_fetch_or(&owned[fd / FDS_BITS], UINT64_C(1) << (fd % FDS_BITS));
    return fd;
}

void fds_disown(int fd)
{
    if (fd >= 0 && fd < FDS_MAX)
        atomic_fetch_and(&owned[fd / FDS_BITS], ~(UINT64_C(1) << (fd % FDS_BITS)));
}

int fds_close(int fd)
{
    fds_disown(fd);
    return close(fd);
}

void fds_close_all(void)
{
    int saved = errno;

    for (int word = 0; word < FDS_MAX / FDS_BITS; word++) {
        uint64_t bits = atomic_load(&owned[word]);

        if (bits != 0)
            atomic_store(&owned[word], 0);
        for (; bits != 0; bits &= bits - 1)
            close(word * FDS_BITS + __builtin_ctzll(bits));
    }
    errno = saved;
}
