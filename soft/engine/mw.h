/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mw.h - memory windows: keys that open a part of a memory region to the peer, and that work requests change.
 *
 * Each window has a block of 256 keys, all with the same upper 24 bits; each bind makes another key of the block valid.
 * No region has a key in a window's block, so a key is looked up as a window's only if it is not a region's.
 *
 * A window of type 1 is open to the peers of all queue pairs of its protection domain, until the next bind. A window of
 * type 2 (type 2B of the specification) is open to the peer of the queue pair that bound it. It must be invalidated
 * before the next bind, by a request of that queue pair or by a SEND with invalidate from its peer.
 *
 * The context's lock guards the windows, and is held when the functions here are called.
 */
#ifndef SOFT_MW_H
#define SOFT_MW_H

#include "mr.h"
#include "qp.h"

#define SOFT_MW_KEYS 256 /* keys of a window */

struct soft_send;

struct soft_mw {
    struct ibv_mw ibv; /* its rkey is for the application to read, and is not used for checks */
    /* The range that is open to the peer, in the form of a region. Its lkey is the number of the window's block of
     * keys. */
    struct soft_mr range;
    struct soft_mr *region; /* the region that the range is part of; NULL: the window is not bound */
    uint32_t key;           /* the key that opens the window, or the last one that did */
    uint32_t given;         /* the key of the last bind that ibv_bind_mw() posted */
    bool second;            /* the window is of type 2 */
    /* For type 2, while bound: the queue pair whose peer may use the window, and the entry in that queue pair's
     * list. */
    struct soft_qp *qp;
    LIST_ENTRY(soft_mw) of_qp;
};

/* Returns the window's range if this key opens it to the queue pair for this access, else NULL. */
struct soft_mr *soft_mw_check(const struct soft_qp *qp, uint32_t key, uint64_t address, uint64_t length,
                              int access);
/* Unbinds the window: no key opens it. */
void soft_mw_unbind(struct soft_mw *mw);
/* Unbinds the window of type 2 with this key, for the queue pair or its peer. False: there is none. */
bool soft_mw_invalidate(const struct soft_qp *qp, uint32_t key);
/* Called when the queue pair is being destroyed: unbinds its windows of type 2. */
void soft_mw_orphan(struct soft_qp *qp);
/* Executes and completes a request that sends no packet (bind, local invalidate), which is the oldest of its queue. */
void soft_local_go(struct soft_qp *qp, struct soft_send *send);
/* Returns the region or window range that this key opens to the queue pair's peer, or NULL. */
static inline struct soft_mr *soft_remote_check(const struct soft_qp *qp, uint32_t key, uint64_t address,
                                                uint64_t length, int access)
{
    struct soft_mr *mr = soft_mr_check(qp->context, qp->ibv.qp_base.pd, key, address, length, access);

    return mr != NULL ? mr : soft_mw_check(qp, key, address, length, access);
}

#endif
