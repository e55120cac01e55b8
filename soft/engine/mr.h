/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.h - protection domains and their objects: memory regions, scatter/gather lists (sge.c), address handles (ah.c).
 * Guarded by the context's lock. */
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
    unsigned users; /* number of its regions, windows, queue pairs, shared receive queues and address handles */
};

struct soft_mr {
    struct ibv_mr ibv;
    /* 0: IBV_MR_TYPE_MR. `type` and `access` are where rdma-core has them, for code that reads behind an ibv_mr. */
    int type;
    int access;
    /* lkey and rkey. The copies in ibv are for the application to read, and are not used for checks. */
    uint32_t key;
    /* Its pages may vanish without notice (of a file, of shared memory, or paged on demand), so the engine accesses
     * them only with the functions of core/base/nofault.h, where a missing page is an error and raises no signal. */
    bool nofault;
    bool on_demand; /* Its pages are first looked up when they are used, not at registration. */
    /* Not memory, but the bytes of `file` from `start` on: always nofault, and only a source of sends. */
    bool is_file;
    int file;
    uint64_t start;
    /* The address that the network uses for its first byte; memory is at that address + shift. */
    uint64_t iova, shift;
    /* Number of memory windows bound to it; deregistering it fails with EBUSY while there are any. */
    unsigned windows;
};

/* Converts an address of the network to memory; for a file's region, to an offset in the region. */
static inline void *soft_mr_at(const struct soft_mr *mr, uint64_t address)
{
    return (void *)(uintptr_t)(address + mr->shift);
}

/* 0, or the errno for a call that names an invalid protection domain. (locked) */
int soft_pd_check(const struct ibv_pd *pd);
/* Returns the region with this key if it covers the range and allows the access, else NULL. */
struct soft_mr *soft_mr_check(struct soft_context *context, struct ibv_pd *pd, uint32_t key, uint64_t address,
                              uint64_t length, int access);
/* Gives a region a key that is in no window's block (mw.h). False: no memory, or too many regions. */
bool soft_region_enter(struct soft_context *context, struct soft_mr *mr);
/* True if each element is within a region that allows the access. */
bool soft_sge_check(struct soft_context *context, struct ibv_pd *pd, const struct ibv_sge *sge, int count,
                    int access);
/* Stores which memory holds the bytes offset..offset+length of a list, after checking it; returns the number of
 * segments, or -1. *nofault is set to a nofault region among them, if there is one. Bytes of a file must be a single
 * segment. */
int soft_sge_slice(struct soft_context *context, struct ibv_pd *pd, const struct ibv_sge *sge, int count,
                   uint64_t offset, uint64_t length, int access, struct iovec slice[SOFT_MAX_SGE],
                   const struct soft_mr **nofault);
/* True if the page is mapped and writable. (A system call.) */
bool soft_page_is_writable(const void *at);
uint64_t soft_sge_length(const struct ibv_sge *sge, int count);
/* Copies to the segments. False: some of the memory is nofault and has vanished; some bytes may have been written. */
bool soft_scatter(const struct iovec *to, int count, const void *from, bool nofault);
/* Stores a packet's payload in these segments. If the link only asks where the payload belongs (packet->target), stores
 * the segments there instead, and the caller must not execute the packet. False: the memory has vanished. */
struct soft_packet;
bool soft_place_payload(const struct soft_packet *packet, const struct iovec *to, int count, bool nofault);

struct soft_ah {
    struct ibv_ah ibv;
    struct ibv_ah_attr attr;
};

#endif
