/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mw.c - what a memory window opens, and the requests that change it.
 *
 * A request names window and region by their keys, since both may be gone by its turn. It is carried out when
 * all before it are complete, and completes at once, so that nothing of it is ever done twice.
 */
#include "mw.h"
#include "engine.h"

static struct soft_mw *window_of(struct soft_context *context, uint32_t key)
{
    struct soft_mr *range = soft_key_find(&context->windows, key / SOFT_MW_KEYS);

    return range == NULL ? NULL : (struct soft_mw *)((char *)range - offsetof(struct soft_mw, range));
}

struct soft_mr *soft_mw_check(const struct soft_qp *qp, uint32_t key, uint64_t address, uint64_t length,
                              int access)
{
    struct soft_mw *mw = window_of(qp->context, key);
    struct soft_mr *range;

    if (mw == NULL || mw->region == NULL || mw->key != key || mw->ibv.pd != qp->ibv.qp_base.pd)
        return NULL;
    range = &mw->range;
    if ((range->access & access) != access || length > range->ibv.length ||
        address - range->iova > range->ibv.length - length)
        return NULL;
    return range;
}

void soft_mw_unbind(struct soft_mw *mw)
{
    if (mw->region != NULL)
        mw->region->windows--;
    mw->region = NULL;
}

/* ---- Requests ---- */

static void open_range(struct soft_mw *mw, struct soft_mr *region, const struct soft_send *send)
{
    soft_mw_unbind(mw);
    mw->key = send->rkey;
    if (region == NULL)
        return;
    region->windows++;
    mw->region = region;
    mw->range.iova = send->va;
    mw->range.ibv.length = send->compare;
    mw->range.access = (int)send->swap_add;
    mw->range.shift = region->shift;
    mw->range.fragile = region->fragile;
}

/* Of nothing: the window is closed. */
static enum ibv_wc_status bind_window(struct soft_qp *qp, const struct soft_send *send)
{
    struct ibv_pd *pd = qp->ibv.qp_base.pd;
    struct soft_mw *mw = window_of(qp->context, send->rkey);
    struct soft_mr *region = NULL;
    int needed = IBV_ACCESS_MW_BIND;

    if (mw == NULL || mw->ibv.pd != pd)
        return IBV_WC_MW_BIND_ERR;
    if (send->swap_add & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC))
        needed |= IBV_ACCESS_LOCAL_WRITE;
    if (send->compare > 0 &&
        (region = soft_mr_check(qp->context, pd, send->imm, send->va, send->compare, needed)) == NULL)
        return IBV_WC_MW_BIND_ERR;
    open_range(mw, region, send);
    return IBV_WC_SUCCESS;
}

void soft_local_go(struct soft_qp *qp, struct soft_send *send)
{
    struct soft_requester *req = &qp->req;
    enum ibv_wc_status status = bind_window(qp, send);

    req->index++;
    if (status == IBV_WC_SUCCESS) {
        soft_request_done(qp);
        return;
    }
    req->ring.tail++;
    soft_complete_send(qp, send, status);
    soft_send_queue_fail(qp);
}
