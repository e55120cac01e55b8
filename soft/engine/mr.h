/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.h - protection domains and the objects in them: memory regions, scatter/gather lists (sge.c), address handles
 * (ah.c). The context's lock guards them, and is held when the functions here are called. */
#ifndef SOFT_MR_H
#define SOFT_MR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <infiniband/verbs.h>

#define SOFT_MAX_MR (1 << 23) /* maximum keys of a context's regions */
#define SOFT_MAX_MW (1 << 16) /* maximum memory windows of a context */
#define SOFT_MAX_SGE 32       /* maximum elements of a scatter/gather list */

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
    bool on_demand; /* on-demand paging: its pages are checked when they are used, not at registration */
    /* The region is not memory, but the bytes of the descriptor `file` from the offset `start` on. Such a region is
     * always nofault, and only a source of sends. */
    bool is_file;
    int file;
    uint64_t start;
    /* iova: the address of its first byte in requests. iova + shift: the address of that byte in this process. */
    uint64_t iova, shift;
    /* Number of memory windows bound to it; deregistering it fails with EBUSY while there are any. */
    unsigned windows;
};

/* Converts an address in a request to the address in this process; for a file's region, to an offset in the region. */
static inline void *soft_mr_at(const struct soft_mr *mr, uint64_t address)
{
    return (void *)(uintptr_t)(address + mr->shift);
}

/* Returns 0, or the errno for a call that names an invalid protection domain. */
int soft_pd_check(const struct ibv_pd *pd);
/* Returns the region with this key if it covers the range and allows the access, else NULL. */
struct soft_mr *soft_mr_check(struct soft_context *context, struct ibv_pd *pd, uint32_t key, uint64_t address,
                              uint64_t length, int access);
/* Gives a region a key that is in no window's block (mw.h). False: no memory, or too many regions. */
bool soft_region_enter(struct soft_context *context, struct soft_mr *mr);
/* True if each element is within a region that allows the access. */
bool soft_sge_check(struct soft_context *context, struct ibv_pd *pd, const struct ibv_sge *sge, int count,
                    int access);
/* Stores in `slice` which memory holds the `length` bytes from `offset` on of a list, after checking keys and bounds.
 * Returns the number of segments, or -1. Sets *nofault to a nofault region among them, if there is one. Bytes of a file
 * must be a single segment. */
int soft_sge_slice(struct soft_context *context, struct ibv_pd *pd, const struct ibv_sge *sge, int count,
                   uint64_t offset, uint64_t length, int access, struct iovec slice[SOFT_MAX_SGE],
                   const struct soft_mr **nofault);
/* Returns true if the page is mapped and writable. Makes a system call. */
bool soft_page_is_writable(const void *at);
/* Returns the number of bytes of a list. */
uint64_t soft_sge_length(const struct ibv_sge *sge, int count);
/* Copies bytes to the segments. `nofault`: their memory may vanish. False: it has vanished; some bytes may have been
 * written. */
bool soft_scatter(const struct iovec *to, int count, const void *from, bool nofault);
/* Stores a packet's payload in these segments. If packet->target is not NULL, the link only asks where the payload
 * belongs: the segments are stored in *target instead, and the caller must not execute the packet. False: the memory
 * has vanished. */
struct soft_packet;
bool soft_place_payload(const struct soft_packet *packet, const struct iovec *to, int count, bool nofault);

struct soft_ah {
    struct ibv_ah ibv;
    struct ibv_ah_attr attr;
};

#endif
