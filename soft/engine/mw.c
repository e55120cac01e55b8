/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mw.c - memory windows: checks accesses to their range, and executes the requests that bind and invalidate them.
 *
 * A request names window and region by their keys, because both may have been destroyed when it is executed. It is
 * executed when all earlier requests are complete, and completes at once, so it is never executed twice.
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
    if (mw->second && mw->qp != qp)
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
    if (mw->qp != NULL)
        LIST_REMOVE(mw, of_qp);
    mw->qp = NULL;
}

void soft_mw_orphan(struct soft_qp *qp)
{
    while (!LIST_EMPTY(&qp->windows))
        soft_mw_unbind(LIST_FIRST(&qp->windows));
}

/* A window that is closed already remains closed, without an error. */
bool soft_mw_invalidate(const struct soft_qp *qp, uint32_t key)
{
    struct soft_mw *mw = window_of(qp->context, key);

    if (mw == NULL || !mw->second || mw->key != key || mw->ibv.pd != qp->ibv.qp_base.pd)
        return false;
    if (mw->qp != NULL && mw->qp != qp)
        return false;
    soft_mw_unbind(mw);
    return true;
}

/* ---- Requests ---- */

static void open_range(struct soft_mw *mw, struct soft_mr *region, const struct soft_send *send)
{
    bool from_zero = send->swap_add & IBV_ACCESS_ZERO_BASED;

    region->windows++;
    mw->region = region;
    mw->range.iova = from_zero ? 0 : send->va;
    mw->range.ibv.length = send->compare;
    mw->range.access = (int)send->swap_add;
    mw->range.shift = region->shift + (from_zero ? send->va : 0);
    mw->range.nofault = region->nofault;
    mw->range.on_demand = region->on_demand;
}

/* Returns the region that contains the range; NULL: it may not be bound. */
static struct soft_mr *region_of(struct soft_qp *qp, const struct soft_send *send)
{
    int needed = IBV_ACCESS_MW_BIND;
    struct soft_mr *region;

    if (send->swap_add & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC))
        needed |= IBV_ACCESS_LOCAL_WRITE;
    region = soft_mr_check(qp->context, qp->ibv.qp_base.pd, send->imm, send->va, send->compare, needed);
    return region == NULL || region->access & IBV_ACCESS_ZERO_BASED ? NULL : region;
}

/* A bind of 0 bytes closes a window of type 1; for type 2 it is an error (the application invalidates it instead). */
static enum ibv_wc_status bind_window(struct soft_qp *qp, const struct soft_send *send)
{
    struct soft_mw *mw = window_of(qp->context, send->rkey);
    struct soft_mr *region = NULL;

    if (mw == NULL || mw->ibv.pd != qp->ibv.qp_base.pd)
        return IBV_WC_MW_BIND_ERR;
    if (mw->second && (mw->region != NULL || send->compare == 0))
        return IBV_WC_MW_BIND_ERR;
    if (send->compare > 0 && (region = region_of(qp, send)) == NULL)
        return IBV_WC_MW_BIND_ERR;
    soft_mw_unbind(mw);
    mw->key = send->rkey;
    if (region != NULL)
        open_range(mw, region, send);
    if (mw->second) {
        mw->qp = qp;
        LIST_INSERT_HEAD(&qp->windows, mw, of_qp);
    }
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status carry_out(struct soft_qp *qp, const struct soft_send *send)
{
    if (send->opcode == IBV_WR_BIND_MW)
        return bind_window(qp, send);
    return soft_mw_invalidate(qp, send->rkey) ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
}

void soft_local_go(struct soft_qp *qp, struct soft_send *send)
{
    struct soft_requester *req = &qp->req;
    enum ibv_wc_status status = carry_out(qp, send);

    req->index++;
    if (status == IBV_WC_SUCCESS) {
        soft_request_done(qp);
        return;
    }
    req->ring.tail++;
    soft_complete_send(qp, send, status);
    soft_send_queue_fail(qp);
}
