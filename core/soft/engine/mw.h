/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mw.h - memory windows: keys that open a part of a region to the peer, and are changed by work requests.
 *
 * A window has a block of 256 keys to itself, those with its upper 24 bits; which of them is valid changes with
 * each bind. No region ever has a key of a window's block, so that a window is looked for only with what is no
 * region's key.
 *
 * One of type 1 is open to the peers of its domain's queue pairs, and is closed by the next bind. One of type 2
 * (2B, in the specification's words) is open to the peer of the queue pair that bound it, and must be
 * invalidated before the next bind: by a request of that queue pair, or by a SEND of its peer's.
 *
 * Guarded by the context's lock.
 */
#ifndef SOFT_MW_H
#define SOFT_MW_H

#include "mr.h"
#include "qp.h"

#define SOFT_MW_KEYS 256 /* of each */

struct soft_send;

struct soft_mw {
    struct ibv_mw ibv;         /* its rkey is the application's to read, and so not what is checked */
    struct soft_mr range;      /* what is open, as if a region; its lkey is the number of the block of keys */
    struct soft_mr *region;    /* which that is a part of; NULL: unbound */
    uint32_t key;              /* that opens it, or the last that did */
    uint32_t given;            /* the last that ibv_bind_mw posted */
    bool second;               /* of type 2: */
    struct soft_qp *qp;        /* whose peer it is open to, while it is; NULL of type 1, */
    LIST_ENTRY(soft_mw) of_qp; /* and its place in that one's list */
};

/* The window's range, when this key opens it to the queue pair for such an access; else NULL. */
struct soft_mr *soft_mw_check(const struct soft_qp *qp, uint32_t key, uint64_t address, uint64_t length,
                              int access);
void soft_mw_unbind(struct soft_mw *mw);
/* Close the window of type 2 that this key names, by the queue pair's will or its peer's. False: there is none.
 */
bool soft_mw_invalidate(const struct soft_qp *qp, uint32_t key);
/* The queue pair goes: its windows are closed. */
void soft_mw_orphan(struct soft_qp *qp);
/* Carry out a request that sends nothing, the oldest of its queue; it completes. */
void soft_local_go(struct soft_qp *qp, struct soft_send *send);
/* Region or window: what this key opens to the queue pair's peer. */
static inline struct soft_mr *soft_remote_check(const struct soft_qp *qp, uint32_t key, uint64_t address,
                                                uint64_t length, int access)
{
    struct soft_mr *mr = soft_mr_check(qp->context, qp->ibv.qp_base.pd, key, address, length, access);

    return mr != NULL ? mr : soft_mw_check(qp, key, address, length, access);
}

#endif
