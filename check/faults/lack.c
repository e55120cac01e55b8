/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lack.c - simulates shortages. The linker replaces calls of the C library by these functions, in the library
 * and in the tests (faults.am). The C library's own allocations still succeed, and so do those of Check, which
 * would end the program: linked statically, it allocates by emalloc and erealloc.
 */
#include "faults.h"

#include <infiniband/verbs.h>
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
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
struct ibv_mr *__real_soft_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *__real_soft_reg_file(struct ibv_pd *pd, int file, uint64_t offset, size_t length);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *bytes, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **bytes, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
struct ibv_mr *__wrap_soft_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *__wrap_soft_reg_file(struct ibv_pd *pd, int file, uint64_t offset, size_t length);
void *__wrap_emalloc(size_t size);
void *__wrap_erealloc(void *bytes, size_t size);

static _Atomic bool no_memory, no_disk, no_threads, no_memlock; /* each is independent */

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

/* A full disk has space to the end of the block. */
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

/* ---- Threads, and memory registration ---------------------------------------------------- */

void lack_threads(bool lacks)
{
    atomic_store(&no_threads, lacks);
}

/* Fails as if RLIMIT_NPROC were reached, which does not apply to root. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return atomic_load(&no_threads) ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

void lack_memlock(bool lacks)
{
    atomic_store(&no_memlock, lacks);
}

struct ibv_mr *__wrap_soft_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    errno = ENOMEM;
    return atomic_load(&no_memlock) ? NULL : __real_soft_reg_mr(pd, addr, length, access);
}

struct ibv_mr *__wrap_soft_reg_file(struct ibv_pd *pd, int file, uint64_t offset, size_t length)
{
    errno = ENOMEM;
    return atomic_load(&no_memlock) ? NULL : __real_soft_reg_file(pd, file, offset, length);
}
