/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lack.c - what can be short in these programs: the linker has put these in front of the C library's calls, wherever the
 * library or a test makes them (faults.am). The C library's own allocations go on, and so do those of Check,
 * which would end the program: where it is linked statically it allocates by emalloc and erealloc.
 */
#include "faults.h"

#include <sys/mman.h>

#define BLOCK 4096 /* bytes, of a disk */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *bytes, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **bytes, size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__real_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);

ssize_t __real_pwrite(int fd, const void *bytes, size_t length, off_t offset);
int __real_fallocate(int fd, int mode, off_t offset, off_t length);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *bytes, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **bytes, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);
void *__wrap_emalloc(size_t size);
void *__wrap_erealloc(void *bytes, size_t size);

static _Atomic bool no_memory, no_disk; /* each by itself */

void lack_memory(bool lacks)
{
    atomic_store(&no_memory, lacks);
}

static bool is_refused_memory(void)
{
    if (!atomic_load(&no_memory))
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return is_refused_memory() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_refused_memory() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *bytes, size_t size)
{
    return is_refused_memory() ? NULL : __real_realloc(bytes, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return is_refused_memory() ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **bytes, size_t alignment, size_t size)
{
    return atomic_load(&no_memory) ? ENOMEM : __real_posix_memalign(bytes, alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return is_refused_memory() ? NULL : __real_strdup(text);
}

void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    return is_refused_memory() ? MAP_FAILED : __real_mmap(at, length, protection, flags, fd, offset);
}

void *__wrap_emalloc(size_t size)
{
    return __real_malloc(size);
}

void *__wrap_erealloc(void *bytes, size_t size)
{
    return __real_realloc(bytes, size);
}

void lack_disk(bool lacks)
{
    atomic_store(&no_disk, lacks);
}

/* A full disk has room to the end of the block. */
static size_t room_at(off_t offset)
{
    return (size_t)(BLOCK - offset % BLOCK) % BLOCK;
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    size_t room = atomic_load(&no_disk) ? room_at(offset) : length;

    errno = ENOSPC;
    return room == 0 && length > 0 ? -1 : __real_pwrite(fd, bytes, room < length ? room : length, offset);
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length)
{
    errno = ENOSPC;
    return atomic_load(&no_disk) ? -1 : __real_fallocate(fd, mode, offset, length);
}
