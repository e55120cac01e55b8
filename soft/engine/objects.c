/* SPDX-License-Identifier: BSD-2-Clause */
/* objects.c - handles are indices of an array; the one that became free last is used first. See objects.h. */
#include "objects.h"
#include <errno.h>
#include <stdlib.h>
#include "context.h"
#include "mr.h"
#include "qp.h"

#define FIRST_ROOM 16

/* The sum of the limits is smaller than the number of handles. */
static const uint32_t limits[SOFT_KINDS] = {
    [SOFT_PD] = SOFT_MAX_QP, [SOFT_MR] = SOFT_MAX_MR - 1, [SOFT_MW] = SOFT_MAX_MW, [SOFT_AH] = SOFT_MAX_QP,
    [SOFT_CQ] = SOFT_MAX_QP, [SOFT_SRQ] = SOFT_MAX_QP,    [SOFT_QP] = SOFT_MAX_QP, [SOFT_XRCD] = SOFT_MAX_QP,
};

uint32_t soft_object_limit(enum soft_kind kind)
{
    return limits[kind];
}

static bool grow_objects(struct soft_objects *objects)
{
    uint32_t room = objects->room == 0 ? FIRST_ROOM : objects->room * 2;
    struct soft_object *slots;

    if ((slots = realloc(objects->slots, room * sizeof *slots)) == NULL)
        return false;
    for (uint32_t i = objects->room; i < room; i++)
        slots[i] = (struct soft_object){.next = i + 1};
    objects->slots = slots;
    objects->unused = objects->room;
    objects->room = room;
    return true;
}

bool soft_object_enter(struct soft_context *context, enum soft_kind kind, const void *object, uint32_t *handle)
{
    struct soft_objects *objects = &context->objects;

    if (objects->counts[kind] >= limits[kind] || (objects->unused == objects->room && !grow_objects(objects)))
        return false;
    *handle = objects->unused;
    objects->unused = objects->slots[*handle].next;
    objects->slots[*handle] = (struct soft_object){.kind = kind, .object = object};
    objects->counts[kind]++;
    objects->count++;
    return true;
}

void soft_object_leave(struct soft_context *context, uint32_t handle)
{
    struct soft_objects *objects = &context->objects;

    objects->counts[objects->slots[handle].kind]--;
    objects->slots[handle] = (struct soft_object){.next = objects->unused};
    objects->unused = handle;
    objects->count--;
}

void soft_object_retire(struct soft_context *context, uint32_t handle)
{
    soft_object_leave(context, handle);
    context->objects.count++;
}

void soft_object_free(struct soft_context *context, void *object)
{
    struct soft_objects *objects = &context->objects;
    void **grave;

    soft_lock(&context->verbs.context);
    grave = &objects->graves[objects->grave++ % SOFT_GRAVES];
    free(*grave);
    *grave = object;
    objects->count--;
    soft_unlock(&context->verbs.context);
}

int soft_object_check(const struct soft_context *context, enum soft_kind kind, const void *object,
                      uint32_t handle)
{
    const struct soft_objects *objects = &context->objects;

    if (handle >= objects->room || objects->slots[handle].object != object || object == NULL)
        return ENOENT;
    return objects->slots[handle].kind == kind ? 0 : EINVAL;
}
