/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mw.c - memory windows: ibv_alloc_mw, ibv_dealloc_mw, ibv_bind_mw, and the checks of requests that change a window.
 *
 * ibv_bind_mw(), which is for type 1, gives a window the next key of its block. A posted request names the low 8 bits of
 * the key itself; its other bits are ignored, as by adapters: the upper 24 bits are the window's and never change.
 * engine/mw.c executes the binds and invalidations.
 */
#include <errno.h>
#include <stdlib.h>
#include "soft/engine/engine.h"
#include "soft/engine/mw.h"
#include "verbs.h"

/* A window cannot grant local access; that flag is ignored, as by adapters. */
#define ACCESS_KNOWN                                                                                           \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static bool has_a_region(const struct soft_keys *keys, uint32_t block)
{
    for (uint32_t i = 0; i < SOFT_MW_KEYS; i++)
        if (soft_key_find(keys, block * SOFT_MW_KEYS + i) != NULL)
            return true;
    return false;
}

/* Gives the window a block of keys. (locked) */
static bool enter_window(struct soft_context *context, struct soft_mw *mw)
{
    if (!soft_key_enter(&context->windows, &mw->range))
        return false;
    while (has_a_region(&context->keys, mw->range.ibv.lkey)) {
        soft_key_leave(&context->windows, &mw->range);
        if (!soft_key_enter(&context->windows, &mw->range))
            return false;
    }
    mw->ibv.rkey = mw->key = mw->given = mw->range.ibv.lkey * SOFT_MW_KEYS;
    return true;
}

/* (locked) 0 or an errno. */
static int enter_mw(struct soft_context *context, struct soft_mw *mw)
{
    int error = soft_pd_check(mw->ibv.pd);

    if (error != 0)
        return error;
    if (!soft_object_enter(context, SOFT_MW, mw, &mw->ibv.handle))
        return ENOMEM;
    if (!enter_window(context, mw)) {
        soft_object_leave(context, mw->ibv.handle);
        return ENOMEM;
    }
    ((struct soft_pd *)mw->ibv.pd)->users++;
    return 0;
}

bool soft_region_enter(struct soft_context *context, struct soft_mr *mr)
{
    if (!soft_key_enter(&context->keys, mr))
        return false;
    while (soft_key_find(&context->windows, mr->ibv.rkey / SOFT_MW_KEYS) != NULL) {
        soft_key_leave(&context->keys, mr);
        if (!soft_key_enter(&context->keys, mr))
            return false;
    }
    return true;
}

struct ibv_mw *soft_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct soft_context *context = soft_context_of(pd->context);
    struct soft_mw *mw;
    int error;

    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
        errno = EINVAL;
        return NULL;
    }
    if ((mw = calloc(1, sizeof *mw)) == NULL)
        return NULL;
    mw->ibv.context = pd->context;
    mw->ibv.pd = pd;
    mw->ibv.type = type;
    mw->second = type == IBV_MW_TYPE_2;
    soft_lock(pd->context);
    error = enter_mw(context, mw);
    soft_unlock(pd->context);
    if (error == 0)
        return &mw->ibv;
    free(mw);
    errno = error;
    return NULL;
}

int soft_dealloc_mw(struct ibv_mw *ibv)
{
    struct soft_mw *mw = (struct soft_mw *)ibv;
    struct soft_context *context = soft_context_of(ibv->context);
    int error;

    soft_lock(&context->verbs.context);
    error = soft_object_check(context, SOFT_MW, ibv, ibv->handle);
    if (error == 0) {
        soft_mw_unbind(mw);
        soft_key_leave(&context->windows, &mw->range);
        ((struct soft_pd *)ibv->pd)->users--;
        soft_object_retire(context, ibv->handle);
    }
    soft_unlock(&context->verbs.context);
    if (error != 0)
        return errno = error;
    soft_object_free(context, mw);
    return 0;
}

/* The next key of the window, also if the last bind failed. */
static uint32_t next_key(struct soft_mw *mw)
{
    uint32_t key;

    soft_lock(mw->ibv.context);
    key = mw->given = ibv_inc_rkey(mw->given);
    soft_unlock(mw->ibv.context);
    return key;
}

int soft_bind_mw(struct ibv_qp *qp, struct ibv_mw *ibv, struct ibv_mw_bind *bind)
{
    struct ibv_send_wr *bad, wr = {.wr_id = bind->wr_id,
                                   .opcode = IBV_WR_BIND_MW,
                                   .send_flags = bind->send_flags,
                                   .bind_mw = {.mw = ibv, .bind_info = bind->bind_info}};

    if (qp->context != ibv->context || ((struct soft_mw *)ibv)->second)
        return EINVAL;
    wr.bind_mw.rkey = next_key((struct soft_mw *)ibv);
    return soft_post_send(qp, &wr, &bad);
}

static int refuse_bind(const struct soft_qp *qp, const struct ibv_send_wr *wr)
{
    const struct soft_mw *mw = (const struct soft_mw *)wr->bind_mw.mw;
    const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

    if (mw == NULL || mw->ibv.context != &qp->context->verbs.context)
        return EINVAL;
    if (info->mw_access_flags & ~(ACCESS_KNOWN | (mw->second ? IBV_ACCESS_ZERO_BASED : 0u)))
        return EINVAL;
    return info->length > 0 && (info->mr == NULL || info->mr->context != mw->ibv.context) ? EINVAL : 0;
}

int soft_local_refuse(const struct soft_qp *qp, const struct ibv_send_wr *wr)
{
    if (wr->num_sge != 0 || wr->send_flags & IBV_SEND_INLINE)
        return EINVAL;
    return wr->opcode == IBV_WR_BIND_MW ? refuse_bind(qp, wr) : 0;
}

/* The key that this bind gives the window. The application finds it in the window, too. */
static uint32_t take_key(const struct ibv_send_wr *wr)
{
    struct soft_mw *mw = (struct soft_mw *)wr->bind_mw.mw;

    return mw->ibv.rkey = mw->range.ibv.lkey * SOFT_MW_KEYS + wr->bind_mw.rkey % SOFT_MW_KEYS;
}

void soft_local_keep(struct soft_send *send, const struct ibv_send_wr *wr)
{
    const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

    send->status = IBV_WC_MW_BIND_ERR;
    if (wr->opcode == IBV_WR_LOCAL_INV) {
        send->rkey = wr->invalidate_rkey;
        return;
    }
    send->rkey = take_key(wr);
    send->imm = info->length > 0 ? info->mr->lkey : 0;
    send->va = info->addr;
    send->compare = info->length;
    send->swap_add = info->mw_access_flags;
}
