/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.h - protection domains, and what belongs to one: memory regions, lists of pieces of them (sge.c), address
 * handles (ah.c). */
#ifndef SOFT_MR_H
#define SOFT_MR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <infiniband/verbs.h>

#define SOFT_MAX_MR (1 << 23)
#define SOFT_MAX_MW (1 << 16)
#define SOFT_MAX_SGE 32

struct soft_context;

struct soft_pd {
    struct ibv_pd ibv;
    unsigned users; /* memory regions and windows, queue pairs, shared receive queues, address handles */
};

struct soft_mr {
    struct ibv_mr ibv;
    int type;       /* 0: IBV_MR_TYPE_MR. This and `access` are where rdma-core has them, for code that looks */
    int access;     /* behind an ibv_mr */
    uint32_t key;   /* lkey and rkey: those in ibv are the application's to read, not what is checked */
    bool fragile;   /* its pages may go without our knowing: a file's, shared memory, or on demand */
    bool on_demand; /* its pages are only looked for when they are used */
    bool is_file;   /* it is no memory, but a file's bytes from `start` on: fragile, and only sent from */
    int file;
    uint64_t start;
    uint64_t iova, shift; /* its first byte's address to the network; memory is at that address + shift */
    unsigned windows;     /* that are bound to a part of it */
};

/* Where an address of the network is in memory; of a file's region, in the region. */
static inline void *soft_mr_at(const struct soft_mr *mr, uint64_t address)
{
    return (void *)(uintptr_t)(address + mr->shift);
}

/* 0, or the errno with which a call is refused that names it. (locked) */
int soft_pd_check(const struct ibv_pd *pd);
/* The region that this key names, when it covers the range and allows the access; else NULL. */
struct soft_mr *soft_mr_check(struct soft_context *context, struct ibv_pd *pd, uint32_t key, uint64_t address,
                              uint64_t length, int access);
/* A key for a region, of no window's block (mw.h). False: no memory, or too many. */
bool soft_region_enter(struct soft_context *context, struct soft_mr *mr);
/* Are all of them within regions that allow the access? */
bool soft_sge_check(struct soft_context *context, struct ibv_pd *pd, const struct ibv_sge *sge, int count,
                    int access);
/* The memory of bytes offset..offset+length of a list, checked: how many pieces, or -1. *fragile becomes a
 * region among them that is, if there is one. What is a file's comes from one place, in one piece. */
int soft_sge_slice(struct soft_context *context, struct ibv_pd *pd, const struct ibv_sge *sge, int count,
                   uint64_t offset, uint64_t length, int access, struct iovec slice[SOFT_MAX_SGE],
                   const struct soft_mr **fragile);
/* Is there a page, which may be written? (Asks the kernel.) */
bool soft_page_is_writable(const void *at);
uint64_t soft_sge_length(const struct ibv_sge *sge, int count);
/* False: some of it is fragile, and gone; some bytes may have been written. */
bool soft_scatter(const struct iovec *to, int count, const void *from, bool fragile);
/* A packet's payload belongs here: put it there, or, where the link asks, tell it; a packet that only asks is not to be
 * carried out. False: the memory has vanished. */
struct soft_packet;
bool soft_place_payload(const struct soft_packet *packet, const struct iovec *to, int count, bool fragile);

struct soft_ah {
    struct ibv_ah ibv;
    struct ibv_ah_attr attr;
};

#endif
