/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * objects.h - which objects a context has: from the handle that an application names one by to the object.
 *
 * A call that makes, changes or destroys looks here first, as the kernel does for a real device: whose handle
 * is not that of this very object is refused, hence so is what is another context's, or was destroyed and its
 * memory put to another use. For that the memory of what is destroyed is kept for a while: of a program that
 * destroys something twice the second is refused, too. Posting and polling don't look. Guarded by the context's
 * lock.
 */
#ifndef SOFT_OBJECTS_H
#define SOFT_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

enum soft_kind {
    SOFT_NO_OBJECT,
    SOFT_PD,
    SOFT_MR,
    SOFT_MW,
    SOFT_AH,
    SOFT_CQ,
    SOFT_SRQ,
    SOFT_QP,
    SOFT_XRCD,
    SOFT_KINDS
};

#define SOFT_GRAVES 64 /* objects that are gone, and whose memory is not free yet */

struct soft_context;

struct soft_objects {
    struct soft_object {
        enum soft_kind kind;
        uint32_t next; /* unused one, while this is one; `room`: there is none */
        const void *object;
    } * slots; /* by handle */
    uint32_t room, unused;
    void *graves[SOFT_GRAVES];   /* a ring */
    unsigned grave;              /* the next to be used again */
    uint32_t counts[SOFT_KINDS]; /* of the ones with a handle, by kind */
    uint32_t count;              /* of all of them, and completion channels: with any it can't be closed */
};

/* How many of the kind a context may have at most, as ibv_query_device tells. */
uint32_t soft_object_limit(enum soft_kind kind);
/* Gives it a handle. False: no memory, or as many of its kind as may be. */
bool soft_object_enter(struct soft_context *context, enum soft_kind kind, const void *object, uint32_t *handle);
void soft_object_leave(struct soft_context *context, uint32_t handle); /* a right one */
/* As soft_object_leave, of what is destroyed: the context can't be closed before soft_object_free. */
void soft_object_retire(struct soft_context *context, uint32_t handle);
/* (not locked) Nobody uses it any more: its memory is freed, after that of SOFT_GRAVES others. */
void soft_object_free(struct soft_context *context, void *object);
/* Is the handle that object's? 0; ENOENT; or EINVAL: the object is of another kind. */
int soft_object_check(const struct soft_context *context, enum soft_kind kind, const void *object,
                      uint32_t handle);

#endif
