/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_sealed.c - memory files (memfd_create(2)) and their seals: shm_sealed.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <linux/magic.h>
#include "core/base/fds.h"
#include "core/base/nofault.h"
#include "core/base/fsize_guard.h"
#include "shm_sealed.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Sets the length, to which the limit on file sizes (RLIMIT_FSIZE) applies, without the signal SIGXFSZ. False and
 * errno. */
static bool set_length(int memory, size_t length)
{
    struct fsize_guard fsize_guard;

    fsize_guard_begin(&fsize_guard);
    bool good = ftruncate(memory, (off_t)length) == 0;

    fsize_guard_end(&fsize_guard, good ? 0 : errno);
    return good;
}

int shm_sealed_make(size_t length)
{
    int memory = fds_own(memfd_create("exs", MFD_CLOEXEC | MFD_ALLOW_SEALING));

    if (memory == -1)
        return -1;
    if (set_length(memory, length) && fcntl(memory, F_ADD_SEALS, SEALS | F_SEAL_SEAL) == 0)
        return memory;
    fds_close(memory);
    return -1;
}

/* Whether no process can truncate the mapped memory, or take its pages away. Huge pages are refused,
 * because the system may have none left when they are touched. */
static bool is_sound(int memory, size_t length)
{
    struct stat info;
    struct statfs system;
    int seals = fcntl(memory, F_GET_SEALS);

    errno = EPROTO;
    return seals != -1 && (seals & SEALS) == SEALS && fstat(memory, &info) == 0 &&
           info.st_size == (off_t)length && fstatfs(memory, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

void *shm_sealed_map(int memory, size_t length)
{
    void *bytes = is_sound(memory, length) ? mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0)
                                           : MAP_FAILED;

    if (bytes == MAP_FAILED)
        return NULL;
    if (!shm_sealed_populate(bytes, SHM_PAGE)) {
        munmap(bytes, length);
        errno = ENOMEM;
        return NULL;
    }
    (void)madvise(bytes, length, MADV_DONTFORK);
    return bytes;
}

/* Before Linux 5.14, and in sandboxes, madvise() can't do it. There nofault_copy() writes the last byte of each
 * page. */
bool shm_sealed_populate(void *start, size_t length)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)start / page * page;
    uintptr_t end = (uintptr_t)start + length;
    const uint8_t zero = 0;
    bool populated = true;

    if (madvise((void *)from, end - from, MADV_POPULATE_WRITE) == 0)
        return true;
    if (errno != EINVAL && errno != EPERM && errno != ENOSYS)
        return false;
    for (uint8_t *last = (uint8_t *)start + SHM_PAGE - 1; populated && (uintptr_t)last < end; last += SHM_PAGE)
        populated = nofault_copy(last, &zero, 1);
    return populated;
}
