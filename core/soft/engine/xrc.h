/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xrc.h - extended connections (XRC): each request names the shared receive queue that it is for, of those in
 * the receiving queue pair's domain.
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

/* Guarded by its context's lock. */
struct soft_xrcd {
    struct ibv_xrcd ibv;
    uint32_t comp_mask; /* rdma-core has these two here */
    uint32_t handle;
    unsigned users; /* queue pairs and shared receive queues */
    unsigned opens; /* of the file that names it; once where none does */
    bool named;
    dev_t device; /* which file */
    ino_t inode;
    LIST_HEAD(, soft_srq) srqs[SOFT_XRC_BUCKETS]; /* by number */
    LIST_ENTRY(soft_xrcd) link;
};

/* 0, or the errno with which a call is refused that names it. (locked) */
int soft_xrcd_check(const struct ibv_xrcd *xrcd);
/* The queue gets a number in the domain; and leaves it: no queue pair takes its receives from there. (locked)
 */
void soft_xrc_enter(struct soft_xrcd *xrcd, struct soft_srq *srq);
void soft_xrc_leave(struct soft_srq *srq);

#endif
