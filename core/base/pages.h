/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pages.h - memory in whole pages, which the kernel allocates only when they are first used.
 *
 * It is for large buffers that are mostly unused: an idle connection has buffers for all data that may arrive. A block
 * from malloc() shares pages with other blocks and has a header, so some of its pages would always be allocated. Blocks
 * of up to a page come from malloc(). With the address sanitizer all blocks come from malloc(), because the sanitizer
 * then detects accesses beyond their end.
 */
#ifndef XS_PAGES_H
#define XS_PAGES_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define PAGES_ARE_MALLOCS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PAGES_ARE_MALLOCS 1
#endif
#endif

#ifdef PAGES_ARE_MALLOCS

static inline void *pages_new(size_t bytes)
{
    return malloc(bytes);
}

static inline void pages_free(void *pages, size_t bytes)
{
    (void)bytes;
    free(pages);
}

#else

#define PAGES_MIN 4096 /* bytes: a block of up to this size comes from malloc(); pages may be larger */

/* Allocates a block. Returns NULL and ENOMEM on failure. */
static inline void *pages_new(size_t bytes)
{
    if (bytes <= PAGES_MIN)
        return malloc(bytes);
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages != MAP_FAILED)
        return pages;
    errno = ENOMEM; /* also for EAGAIN: mlockall() is in effect, and RLIMIT_MEMLOCK would be exceeded */
    return NULL;
}

/* Frees a block that pages_new() returned for this number of bytes. Does nothing for NULL. */
static inline void pages_free(void *pages, size_t bytes)
{
    if (bytes <= PAGES_MIN)
        free(pages);
    else if (pages != NULL)
        munmap(pages, bytes);
}

#endif

#endif
