/* SPDX-License-Identifier: BSD-2-Clause */
/* wrap_memory.c - memory functions: libexs's allocations may fail and are counted; memory that it gets or frees
 * is overwritten. The originals are called by their internal names, because a search by dlsym() allocates
 * memory. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "wrap.h"

#define EXPORTED __attribute__((visibility("default")))
#define FRESH 0xA7 /* bytes of memory that was not written yet */
#define STALE 0xDB /* bytes of memory that was freed */
#define HERE __builtin_return_address(0)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *pointer);

static void *fails(int error)
{
    errno = error;
    return NULL;
}

static void *counted(void *pointer, size_t size, const void *place)
{
    if (pointer != NULL && fail_by_libexs(place))
        account_add(pointer, size, place);
    return pointer;
}

static void *fresh(void *pointer, size_t size, const void *place)
{
    if (pointer != NULL && fail_by_libexs(place))
        memset(pointer, FRESH, size);
    return counted(pointer, size, place);
}

EXPORTED void *malloc(size_t size)
{
    int error = fail_now(CALL_malloc, HERE);

    return error != 0 ? fails(error) : fresh(__libc_malloc(size), size, HERE);
}

EXPORTED void *calloc(size_t count, size_t size)
{
    int error = fail_now(CALL_calloc, HERE);

    return error != 0 ? fails(error) : counted(__libc_calloc(count, size), count * size, HERE);
}

EXPORTED void *realloc(void *pointer, size_t size)
{
    int error = fail_now(CALL_realloc, HERE);
    size_t before;

    if (error != 0)
        return fails(error);
    bool known = pointer != NULL && account_remove(pointer, &before);
    void *result = __libc_realloc(pointer, size);

    if (result == NULL && known)
        account_add(pointer, before, HERE);
    return counted(result, size, HERE);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
    int error = fail_now(CALL_aligned_alloc, HERE);

    return error != 0 ? fails(error) : fresh(__libc_memalign(alignment, size), size, HERE);
}

EXPORTED int posix_memalign(void **pointer, size_t alignment, size_t size)
{
    int error = fail_now(CALL_posix_memalign, HERE);

    if (error != 0)
        return error;
    void *result = fresh(__libc_memalign(alignment, size), size, HERE);

    if (result == NULL)
        return ENOMEM;
    *pointer = result;
    return 0;
}

EXPORTED char *strdup(const char *text)
{
    int error = fail_now(CALL_strdup, HERE);
    size_t size = strlen(text) + 1;

    if (error != 0)
        return fails(error);
    char *copy = counted(__libc_malloc(size), size, HERE);

    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

EXPORTED void free(void *pointer)
{
    size_t size;

    if (pointer != NULL && account_remove(pointer, &size))
        memset(pointer, STALE, size);
    else if (pointer != NULL && fail_by_libexs(HERE))
        fail_say("BAD libexs frees what it does not have");
    __libc_free(pointer);
}

EXPORTED void *mmap(void *address, size_t length, int access, int flags, int fd, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    int error = fail_now(CALL_mmap, HERE);

    if (error != 0) {
        errno = error;
        return MAP_FAILED;
    }
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "mmap");
    void *result = next(address, length, access, flags, fd, offset);

    if (result != MAP_FAILED && !(flags & MAP_FIXED))
        counted(result, length, HERE);
    return result;
}

EXPORTED int munmap(void *address, size_t length)
{
    static int (*next)(void *, size_t);
    size_t size;

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "munmap");
    account_remove(address, &size);
    return next(address, length);
}
