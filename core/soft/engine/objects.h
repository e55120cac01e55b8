/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * objects.h - which objects a context has: from the handle that an application names one by to the object.
 *
 * A call that makes, changes or destroys looks here first, as the kernel does for a real device: whose handle
 * is not that of this very object is refused, hence so is what is another context's, or was destroyed and its
 * memory put to another use. Posting and polling don't look. Guarded by the context's lock.
 */
#ifndef SOFT_OBJECTS_H
#define SOFT_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

enum soft_kind { SOFT_NO_OBJECT, SOFT_PD, SOFT_MR, SOFT_MW, SOFT_AH, SOFT_CQ, SOFT_SRQ, SOFT_QP, SOFT_KINDS };

struct soft_context;

struct soft_objects {
    struct soft_object {
        enum soft_kind kind;
        uint32_t next; /* unused one, while this is one; `room`: there is none */
        const void *object;
    } * slots; /* by handle */
    uint32_t room, unused;
    uint32_t counts[SOFT_KINDS]; /* of the ones with a handle, by kind */
    uint32_t count;              /* of all of them, and completion channels: with any it can't be closed */
};

/* How many of the kind a context may have at most, as ibv_query_device tells. */
uint32_t soft_object_limit(enum soft_kind kind);
/* Gives it a handle. False: no memory, or as many of its kind as may be. */
bool soft_object_enter(struct soft_context *context, enum soft_kind kind, const void *object, uint32_t *handle);
void soft_object_leave(struct soft_context *context, uint32_t handle); /* a right one */
/* Is the handle that object's? 0; ENOENT; or EINVAL: the object is of another kind. */
int soft_object_check(const struct soft_context *context, enum soft_kind kind, const void *object,
                      uint32_t handle);

#endif
