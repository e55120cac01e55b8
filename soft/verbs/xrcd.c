/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xrcd.c - opens and closes XRC domains.
 *
 * A file may name a domain, so that all that open the same file get the same domain; here this holds within one
 * context.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "soft/engine/engine.h"
#include "soft/engine/xrc.h"
#include "verbs.h"

int soft_xrcd_check(const struct ibv_xrcd *xrcd)
{
    return soft_object_check(soft_context_of(xrcd->context), SOFT_XRCD, xrcd,
                             ((const struct soft_xrcd *)xrcd)->handle);
}

/* (locked) */
static struct soft_xrcd *find_xrcd(struct soft_context *context, const struct stat *file)
{
    struct soft_xrcd *xrcd;

    LIST_FOREACH (xrcd, &context->xrcds, link) {
        if (xrcd->named && xrcd->device == file->st_dev && xrcd->inode == file->st_ino)
            return xrcd;
    }
    return NULL;
}

/* (locked) NULL and an errno. */
static struct soft_xrcd *make_xrcd(struct soft_context *context, const struct stat *file, int *error)
{
    struct soft_xrcd *xrcd = calloc(1, sizeof *xrcd);

    *error = ENOMEM;
    if (xrcd == NULL)
        return NULL;
    if (!soft_object_enter(context, SOFT_XRCD, xrcd, &xrcd->handle)) {
        free(xrcd);
        return NULL;
    }
    xrcd->ibv.context = &context->verbs.context;
    for (int i = 0; i < SOFT_XRC_BUCKETS; i++)
        LIST_INIT(&xrcd->srqs[i]);
    if (file != NULL) {
        xrcd->named = true;
        xrcd->device = file->st_dev;
        xrcd->inode = file->st_ino;
    }
    LIST_INSERT_HEAD(&context->xrcds, xrcd, link);
    *error = 0;
    return xrcd;
}

/* (locked) */
static struct soft_xrcd *open_one(struct soft_context *context, const struct stat *file, int oflags, int *error)
{
    struct soft_xrcd *xrcd = file == NULL ? NULL : find_xrcd(context, file);

    if (xrcd != NULL && oflags & O_EXCL)
        *error = EINVAL;
    else if (xrcd == NULL && !(oflags & O_CREAT))
        *error = file == NULL ? EINVAL : EAGAIN; /* as in the kernel */
    else if (xrcd != NULL || (xrcd = make_xrcd(context, file, error)) != NULL)
        xrcd->opens++;
    return *error == 0 ? xrcd : NULL;
}

struct ibv_xrcd *soft_open_xrcd(struct ibv_context *ibv, struct ibv_xrcd_init_attr *attr)
{
    const uint32_t needs = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    struct soft_xrcd *xrcd;
    struct stat file;
    int error = 0;

    if (attr->comp_mask != needs || attr->oflags & ~(O_CREAT | O_EXCL)) {
        errno = EINVAL;
        return NULL;
    }
    if (attr->fd != -1 && fstat(attr->fd, &file) == -1)
        return NULL;
    soft_lock(ibv);
    xrcd = open_one(soft_context_of(ibv), attr->fd == -1 ? NULL : &file, attr->oflags, &error);
    soft_unlock(ibv);
    if (error != 0)
        errno = error;
    return xrcd == NULL ? NULL : &xrcd->ibv;
}

/* (locked) 0 or an errno; *gone: it was the last open. */
static int close_one(struct soft_xrcd *xrcd, bool *gone)
{
    int error = soft_xrcd_check(&xrcd->ibv);

    *gone = false;
    if (error != 0)
        return error;
    if (xrcd->opens == 1 && xrcd->users > 0)
        return EBUSY;
    *gone = --xrcd->opens == 0;
    if (!*gone)
        return 0;
    LIST_REMOVE(xrcd, link);
    soft_object_retire(soft_context_of(xrcd->ibv.context), xrcd->handle);
    return 0;
}

int soft_close_xrcd(struct ibv_xrcd *ibv)
{
    struct ibv_context *context = ibv->context;
    bool gone;
    int error;

    soft_lock(context);
    error = close_one((struct soft_xrcd *)ibv, &gone);
    soft_unlock(context);
    if (error != 0)
        return errno = error;
    if (gone)
        soft_object_free(soft_context_of(context), ibv);
    return 0;
}
