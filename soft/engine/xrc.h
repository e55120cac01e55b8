/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xrc.h - extended reliable connections (XRC): each request names the shared receive queue that it is for, one of those
 * in the XRC domain of the receiving queue pair.
 */
#ifndef SOFT_XRC_H
#define SOFT_XRC_H

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
    uint32_t comp_mask; /* `comp_mask` and `handle` are where rdma-core has them. */
    uint32_t handle;
    unsigned users; /* queue pairs and shared receive queues */
    unsigned opens; /* How often it was opened by its file; 1 without a file. */
    bool named;
    dev_t device; /* `device` and `inode`: the file, if `named`. */
    ino_t inode;
    LIST_HEAD(, soft_srq) srqs[SOFT_XRC_BUCKETS]; /* by number */
    LIST_ENTRY(soft_xrcd) link;
};

/* 0, or the errno for a call that names an invalid XRC domain. (locked) */
int soft_xrcd_check(const struct ibv_xrcd *xrcd);
/* enter: gives the queue a number in the domain. leave: removes it, so that no queue pair takes receives from it any
 * more. (locked) */
void soft_xrc_enter(struct soft_xrcd *xrcd, struct soft_srq *srq);
void soft_xrc_leave(struct soft_srq *srq);

#endif
