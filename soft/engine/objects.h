/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * objects.h - the table of a context's objects: from the handle by which an application names an object to the object.
 *
 * A call that creates, modifies or destroys an object looks its arguments up here first, as the kernel does for a real
 * device. It fails if the handle is not that of this very object, for example because the object was destroyed or
 * belongs to another context. The memory of a destroyed object is kept for a while, so that destroying it twice fails,
 * too. Posting and polling skip this check. Guarded by the context's lock.
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

#define SOFT_GRAVES 64 /* maximum number of destroyed objects whose memory is not freed yet */

struct soft_context;

struct soft_objects {
    /* The table. A handle is an index in it. */
    struct soft_object {
        enum soft_kind kind;
        uint32_t next; /* in an unused entry: the next unused one; `room`: there is none */
        const void *object;
    } * slots;
    uint32_t room, unused;       /* entries of the table; the first unused one, or `room` */
    void *graves[SOFT_GRAVES];   /* ring buffer: memory of destroyed objects */
    unsigned grave;              /* the entry of `graves` that is replaced next */
    uint32_t counts[SOFT_KINDS]; /* objects with a handle, by kind */
    /* All objects with a handle, objects that are being destroyed, and completion channels. The context can't be closed
     * before this is 0. */
    uint32_t count;
};

/* Returns the maximum number of objects of this kind in a context, as ibv_query_device() reports it. */
uint32_t soft_object_limit(enum soft_kind kind);
/* All functions except soft_object_limit() and soft_object_free() are called with the context's lock. */

/* Gives the object a handle. False: no memory, or the maximum is reached. */
bool soft_object_enter(struct soft_context *context, enum soft_kind kind, const void *object, uint32_t *handle);
/* Makes a valid handle invalid. */
void soft_object_leave(struct soft_context *context, uint32_t handle);
/* Like soft_object_leave(), for an object that is being destroyed. The context can't be closed before
 * soft_object_free(). */
void soft_object_retire(struct soft_context *context, uint32_t handle);
/* Called without the lock, when nothing uses the object any more. Frees its memory after that of SOFT_GRAVES others. */
void soft_object_free(struct soft_context *context, void *object);
/* Checks that the handle is that of this object. Returns 0 or an errno. ENOENT: it is not; EINVAL: the handle is that
 * of an object of another kind. */
int soft_object_check(const struct soft_context *context, enum soft_kind kind, const void *object,
                      uint32_t handle);

#endif
