/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.c - memory and files of transfers. Memory that no transfer uses contains EMPTY, before a transfer's
 * call and from its event on, so that a write to it is detected, and a send from it sends wrong bytes. See
 * model.h.
 */
#include "model.h"

#include <sys/mman.h>

#define ROOM (6 * MIB) /* bytes of registered memory of an end, and as much unregistered */
#define GUARD 64       /* bytes between transfers */
#define EMPTY 0xA5

static struct arena {
    unsigned char *base;
    size_t used;
    exs_mhandle_t region;
} arenas[2][2]; /* of each end: unregistered, registered */

static struct disk {
    int fd;
    size_t used;
} disks[2];

static struct shared {
    unsigned char *memory;
    exs_mhandle_t region;
} shares[PAIRS][2];

static exs_mhandle_t registered(void *memory, size_t size)
{
    exs_mhandle_t region = exs_mregister(memory, size, 0);

    if (region == EXS_MHANDLE_INVALID)
        wrong("exs_mregister: %s", strerrorname_np(errno));
    return region;
}

void memory_open(void)
{
    for (int end = 0; end < 2; end++) {
        for (int kind = 0; kind < 2; kind++) {
            struct arena *arena = &arenas[end][kind];
            arena->base = malloc(ROOM);
            memset(arena->base, EMPTY, ROOM);
            arena->region = kind == 1 ? registered(arena->base, ROOM) : NULL;
        }
        disks[end].fd = memfd_create("model", MFD_CLOEXEC);
        for (int pair = 0; pair < PAIRS; pair++) {
            struct shared *shared = &shares[pair][end];
            shared->memory = calloc(1, SHARED);
            shared->region = registered(shared->memory, SHARED);
        }
    }
}

void memory_close(void)
{
    for (int end = 0; end < 2; end++) {
        if (exs_mderegister(arenas[end][1].region, 0) != 0)
            wrong("exs_mderegister after all events: %s", strerrorname_np(errno));
        for (int pair = 0; pair < PAIRS; pair++)
            if (exs_mderegister(shares[pair][end].region, 0) != 0)
                wrong("exs_mderegister of what was exported: %s", strerrorname_np(errno));
    }
}

void memory_begin(void)
{
    for (int end = 0; end < 2; end++) {
        arenas[end][0].used = arenas[end][1].used = 0;
        if (disks[end].used > 0 && ftruncate(disks[end].fd, 0) != 0)
            wrong("ftruncate: %s", strerrorname_np(errno));
        disks[end].used = 0;
    }
}

void memory_end(void)
{
    for (int end = 0; end < 2; end++)
        for (int kind = 0; kind < 2; kind++) {
            const struct arena *arena = &arenas[end][kind];
            for (size_t i = 0; i < arena->used; i++)
                if (arena->base[i] != EMPTY)
                    wrong("memory of end %c that no transfer has was written: byte %zu of %zu, %s", "ab"[end],
                          i, arena -> used, kind ? "registered" : "plain");
        }
}

static bool piece_cut(struct piece *piece, int end, size_t length, bool is_registered, bool file)
{
    struct arena *arena = &arenas[end][is_registered];

    *piece = (struct piece){.length = length, .region = arena->region};
    if (file) {
        piece->offset = (off_t)disks[end].used;
        disks[end].used += length + GUARD;
        return true;
    }
    if (arena->used + length + 2 * GUARD > ROOM)
        return false;
    piece->base = arena->base + arena->used + GUARD;
    arena->used += length + 2 * GUARD;
    return true;
}

bool memory_cut(struct piece *pieces, int count, int end, size_t length, bool is_registered, bool files)
{
    for (int i = 0; i < count; i++) {
        size_t part = i == count - 1 ? length : length / (size_t)(count - i);

        if (!piece_cut(&pieces[i], end, part, is_registered, files && i % 2 == 0))
            return false;
        length -= part;
    }
    return true;
}

void memory_put(const struct piece *pieces, int count, int end, const void *bytes)
{
    const unsigned char *from = bytes;

    for (int i = 0; i < count; from += pieces[i++].length)
        if (pieces[i].base)
            memcpy(pieces[i].base, from, pieces[i].length);
        else if (pwrite(disks[end].fd, from, pieces[i].length, pieces[i].offset) != (ssize_t)pieces[i].length)
            wrong("pwrite: %s", strerrorname_np(errno));
}

void memory_get(const struct piece *pieces, int count, int end, void *bytes, size_t length)
{
    unsigned char *to = bytes;

    for (int i = 0; i < count && length > 0; i++) {
        size_t part = length < pieces[i].length ? length : pieces[i].length;

        if (pieces[i].base)
            memcpy(to, pieces[i].base, part);
        else if (pread(disks[end].fd, to, part, pieces[i].offset) != (ssize_t)part)
            wrong("a file has fewer bytes than an event said");
        to += part;
        length -= part;
    }
}

void memory_forget(const struct piece *pieces, int count)
{
    for (int i = 0; i < count; i++)
        if (pieces[i].base)
            memset(pieces[i].base, EMPTY, pieces[i].length);
}

int memory_file(int end)
{
    return disks[end].fd;
}

unsigned char *shared_memory(unsigned pair, int end, exs_mhandle_t *region)
{
    *region = shares[pair][end].region;
    return shares[pair][end].memory;
}
