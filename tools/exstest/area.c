/* SPDX-License-Identifier: BSD-2-Clause */
/* area.c - the memory of one endpoint of a connection; see area.h. */
#include "area.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "pattern.h"
#include "wire.h"

#define GUARD ((size_t)64)

static size_t stride_of(const struct op *op, bool server)
{
    return op_is_mine(op, server) ? (op->size + 2 * GUARD - 1) / GUARD * GUARD : op->size;
}

/* Returns the bytes of a place and of the guard after it. */
static size_t room_of(const struct op *op, bool server)
{
    return (stride_of(op, server) * op->segments + 2 * GUARD - 1) / GUARD * GUARD;
}

struct place *area_place(const struct area *area, int op, int copy)
{
    return &area->place[copy * area->ops.count + op];
}

size_t area_bytes(const struct ops *ops, int copies, bool server)
{
    size_t all = GUARD;

    for (int i = 0; i < ops->count; i++) {
        all += room_of(&ops->op[i], server) * (size_t)copies;
        if (all > MEMORY_MAX)
            return 0;
    }
    return all;
}

static void lay_out(struct area *area, int copies)
{
    char *at = area->base + GUARD;

    for (int copy = 0; copy < copies; copy++) {
        for (int i = 0; i < area->ops.count; i++) {
            const struct op *op = &area->ops.op[i];

            *area_place(area, i, copy) = (struct place){at, stride_of(op, area->server)};
            at += room_of(op, area->server);
        }
    }
}

/* Calls visit() for the guards around a place and between its segments, until it returns a byte. Returns that, or
 * NULL. */
static char *each_guard(const struct area *area, int op, int copy, char *(*visit)(char *at, size_t length))
{
    const struct op *what = &area->ops.op[op];
    const struct place *place = area_place(area, op, copy);
    size_t end = place->stride * what->segments;
    char *named = visit(place->base - GUARD, GUARD);

    if (named == NULL)
        named = visit(place->base + end, room_of(what, area->server) - end);
    for (uint32_t i = 0; i < what->segments && named == NULL; i++)
        named = visit(place->base + i * place->stride + what->size, place->stride - what->size);
    return named;
}

static char *put_guard(char *at, size_t length)
{
    memset(at, GUARD_BYTE, length);
    return NULL;
}

/* Writes only the guards, so that memory between them is not allocated before it is used. */
void area_put_guards(struct area *area)
{
    for (int i = 0; i < area->ops.count; i++)
        each_guard(area, i, 0, put_guard);
}

int area_make(struct area *area, const struct ops *ops, int copies, bool server)
{
    *area = (struct area){.ops = *ops, .server = server, .length = area_bytes(ops, copies, server)};
    if (area->length == 0) {
        errno = E2BIG;
        return -1;
    }
    area->base = mmap(NULL, area->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area->base == MAP_FAILED) {
        area->base = NULL;
        return -1;
    }
    area->place = calloc((size_t)ops->count * (size_t)copies, sizeof(*area->place));
    if (area->place == NULL)
        goto unmap;
    area->region = exs_mregister(area->base, area->length, 0);
    if (area->region == EXS_MHANDLE_INVALID)
        goto free_places;
    lay_out(area, copies);
    return 0;
free_places:
    free(area->place);
unmap:
    munmap(area->base, area->length);
    area->base = NULL;
    return -1;
}

int area_free(struct area *area)
{
    if (area->base == NULL)
        return 0;
    if (exs_mderegister(area->region, 0) == -1)
        return -1;
    free(area->place);
    munmap(area->base, area->length);
    area->base = NULL;
    return 0;
}

static char *not_guard(char *at, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)at[i] != GUARD_BYTE)
            return at + i;
    return NULL;
}

const char *area_broken_guard(const struct area *area, int op)
{
    return each_guard(area, op, 0, not_guard);
}
