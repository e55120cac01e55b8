/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pages.h - memory of whole pages, of which only those are there that were used.
 *
 * For what is large and mostly left alone: a connection that waits has buffers for all that may come. What
 * malloc gives lies between other things and has a word of its own before it, so that some of its pages are
 * there anyway. What is no longer than a page is malloc's. Under the address sanitizer it is malloc's, since
 * that one watches where it ends.
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

#define PAGES_MIN 4096 /* bytes; fewer are malloc's. Not a page's size everywhere, nor need it be */

/* NULL and ENOMEM. */
static inline void *pages_new(size_t bytes)
{
    if (bytes <= PAGES_MIN)
        return malloc(bytes);
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages != MAP_FAILED)
        return pages;
    errno = ENOMEM; /* EAGAIN, too: it would have to be locked, and the limit forbids that */
    return NULL;
}

/* What pages_new gave for so many bytes, or NULL. */
static inline void pages_free(void *pages, size_t bytes)
{
    if (bytes <= PAGES_MIN)
        free(pages);
    else if (pages != NULL)
        munmap(pages, bytes);
}

#endif

#endif
