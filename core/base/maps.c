/* SPDX-License-Identifier: BSD-2-Clause */
/* maps.c - checks ranges of memory against the kernel's map of this process. See maps.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fds.h"
#include "nofault.h"
#include "maps.h"
#include "settings.h"

/* bytes of a line that are read at once; the fields that are parsed are in the first 80 */
#define LINE_MAX_READ 256

/* PROCMAP_QUERY of Linux 6.11; older headers lack it. */
struct map_query {
    uint64_t size, flags, address;
    uint64_t start, end, vma_flags, page_size, offset, inode;
    uint32_t major, minor, name_size, build_id_size;
    uint64_t name, build_id;
};

#define MAP_QUERY _IOWR('f', 17, struct map_query)
enum { VMA_READABLE = 1, VMA_WRITABLE = 2, VMA_SHARED = 8 };

struct mapping {
    uintptr_t start, end;
    bool readable, writable, lasting; /* lasting: private anonymous memory */
};

/* ---- One page ------------------------------------------------------------------------------------------- */

/* Check that a page can be read or written. Kernels before 5.14 don't know MADV_POPULATE_..., and return EINVAL
 * even for an empty range; then the result is 0. */
int maps_probe_page(const void *at, bool write)
{
    int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ, saved = errno;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    int error = madvise((void *)((uintptr_t)at & ~(uintptr_t)(size - 1)), size, advice) == 0 ? 0 : errno;

    if (error == EINVAL) /* the mapping does not permit this access */
        error = madvise(NULL, 0, advice) == 0 ? EFAULT : 0;
    else if (error != ENOMEM && error != EFAULT) /* other errors mean: beyond the end of a file */
        error = 0;                               /* interrupted by a signal: no result */
    errno = saved;
    return error;
}

/* ---- The kernel's map ----------------------------------------------------------------------------------- */

/* Find the mapping that contains `address`. Returns 0; ENOENT: there is none; another errno: the kernel can't
 * tell. */
static int query_mapping(int maps, uintptr_t address, struct mapping *found)
{
    struct map_query query = {.size = sizeof(query), .address = address};

    if (ioctl(maps, MAP_QUERY, &query) < 0)
        return errno;
    *found = (struct mapping){
        .start = (uintptr_t)query.start,
        .end = (uintptr_t)query.end,
        .readable = query.vma_flags & VMA_READABLE,
        .writable = query.vma_flags & VMA_WRITABLE,
        .lasting = !(query.vma_flags & VMA_SHARED) && query.inode == 0,
    };
    return 0;
}

/* Parse "START-END rwxp OFFSET MAJOR:MINOR INODE ..."; all numbers but the inode are hexadecimal. False:
 * another format. */
static bool parse_mapping(const char *line, struct mapping *found)
{
    char *at;

    found->start = (uintptr_t)strtoull(line, &at, 16);
    if (*at != '-')
        return false;
    found->end = (uintptr_t)strtoull(at + 1, &at, 16);
    if (*at != ' ' || strnlen(at, 6) < 6)
        return false;
    found->readable = at[1] == 'r';
    found->writable = at[2] == 'w';
    found->lasting = at[4] == 'p';
    for (int field = 0; field < 3 && at != NULL; field++) /* skip to the inode */
        at = strchr(at + 1, ' ');
    found->lasting = found->lasting && at != NULL && strtoull(at, NULL, 10) == 0;
    return true;
}

/* Like query_mapping(), from the text, whose lines are sorted. The rest of a long line is skipped. */
static int search_text(FILE *text, uintptr_t address, struct mapping *found)
{
    char line[LINE_MAX_READ];
    bool is_start = true;

    while (fgets(line, sizeof(line), text) != NULL) {
        bool is_whole = strchr(line, '\n') != NULL;

        if (is_start && parse_mapping(line, found) && found->end > address)
            return found->start <= address ? 0 : ENOENT;
        is_start = is_whole;
    }
    return ferror(text) ? EIO : ENOENT;
}

/* ---- A range --------------------------------------------------------------------------------------------- */

/* Check the part of the range that lies in one mapping. Returns 0, EFAULT or ENOMEM. */
static int check_mapping(const struct mapping *mapping, uintptr_t end, bool write, bool *lasting)
{
    uintptr_t last = (mapping->end < end ? mapping->end : end) - 1;

    if (!(write ? mapping->writable : mapping->readable))
        return EFAULT;
    if (mapping->lasting)
        return 0;
    *lasting = false;
    return maps_probe_page((const void *)last, !mapping->readable);
}

/* Returns 0, EFAULT or ENOMEM; -1: the kernel can't tell. */
static int check_mappings(int maps, FILE *text, uintptr_t at, uintptr_t end, bool write, bool *lasting)
{
    while (at < end) {
        struct mapping mapping;
        int error = text != NULL ? search_text(text, at, &mapping) : query_mapping(maps, at, &mapping);

        if (error != 0)
            return error == ENOENT ? EFAULT : -1;
        if ((error = check_mapping(&mapping, end, write, lasting)) != 0)
            return error;
        at = mapping.end;
    }
    return 0;
}

static int walk_text(uintptr_t start, uintptr_t end, bool write, bool *lasting)
{
    FILE *text = fopen("/proc/self/maps", "re");

    if (text == NULL)
        return -1;
    int error = check_mappings(-1, text, start, end, write, lasting);

    fclose(text);
    return error;
}

static int walk_map(uintptr_t start, uintptr_t end, bool write, bool *lasting)
{
    int maps = fds_own(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));

    if (maps == -1)
        return -1;
    int error = check_mappings(maps, NULL, start, end, write, lasting);

    fds_close(maps);
    return error >= 0 ? error : walk_text(start, end, write, lasting);
}

int maps_check(const void *start, size_t length, bool write, bool *nofault)
{
    uintptr_t from = (uintptr_t)start, last = from + (length - 1);
    bool lasting = true;
    int saved = errno, error;

    if (last < from || last == UINTPTR_MAX)
        return EFAULT;
    error = walk_map(from, last + 1, write, &lasting);
    if (error < 0 && !nofault_mapped(start, length))
        error = EFAULT;
    errno = saved;
    if (nofault != NULL)
        *nofault = error != 0 || !lasting || settings()->check;
    if (error > 0 || (error = maps_probe_page(start, write)) != 0)
        return error;
    return maps_probe_page((const void *)last, write);
}
