/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xrc.h - extended reliable connections (XRC). Each request names a shared receive queue in the XRC domain of the
 * receiving queue pair, from which the request takes its receive.
 */
#ifndef SOFT_XRC_H
#define SOFT_XRC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <infiniband/verbs.h>

#define SOFT_XRC_BUCKETS 64

struct soft_qp;
struct soft_srq;

/* An XRC domain. Guarded by its context's lock. */
struct soft_xrcd {
    struct ibv_xrcd ibv;
    uint32_t comp_mask; /* comp_mask and handle are where rdma-core has them */
    uint32_t handle;
    unsigned users; /* queue pairs and shared receive queues in the domain */
    unsigned opens; /* how often it was opened and not closed */
    /* The domain was opened by a file, with this device and inode number. Later calls with this file open the same
     * domain. */
    bool named;
    dev_t device;
    ino_t inode;
    LIST_HEAD(, soft_srq) srqs[SOFT_XRC_BUCKETS]; /* hash table by number */
    LIST_ENTRY(soft_xrcd) link;
};

/* All functions are called with the context's lock. */

/* Returns 0, or the errno for a call that names an invalid XRC domain. */
int soft_xrcd_check(const struct ibv_xrcd *xrcd);
/* Adds the shared receive queue to the domain, and gives it a number. */
void soft_xrc_enter(struct soft_xrcd *xrcd, struct soft_srq *srq);
/* Removes the shared receive queue, so that no queue pair takes receives from it any more. */
void soft_xrc_leave(struct soft_srq *srq);

#endif
