/* SPDX-License-Identifier: BSD-2-Clause */
/* on_demand.c - on-demand paging: b's memory is registered, whether it is mapped or not. */
#include "cases.h"
#include "work.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096
#define ALL                                                                                                    \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* Maps two pages, the second of which is inaccessible. It must not be unmapped, because another thread could then map
 * memory there. */
static char *half(int protection)
{
    char *at = mmap(NULL, 2 * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED || mprotect(at + PAGE, PAGE, PROT_NONE) == -1)
        give_up("mmap", errno);
    return at;
}

/* Registers memory for on-demand paging. If the device does not support it, prints that and ends the case. */
static struct ibv_mr *region(struct rig *r, void *at, size_t length, int access)
{
    struct ibv_mr *mr = ibv_reg_mr(r->pd, at, length, access | IBV_ACCESS_ON_DEMAND);

    if (!mr)
        say_result("reg", false);
    return mr;
}

static void ask(struct rig *r, const struct ibv_mr *mr, enum ibv_wr_opcode opcode, const void *at)
{
    struct work w;

    work(&w, r, opcode, 8);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        w.wr.wr.atomic.remote_addr = (uintptr_t)at;
        w.wr.wr.atomic.compare_add = 1;
        w.wr.wr.atomic.rkey = mr->rkey;
    } else {
        w.wr.wr.rdma.remote_addr = (uintptr_t)at;
        w.wr.wr.rdma.rkey = mr->rkey;
    }
    work_run(r, &w);
}

static void odp_comes_later(struct rig *r)
{
    char *at = half(PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = region(r, at, 2 * PAGE, ALL);

    if (!mr)
        return;
    rig_pair(r, IBV_QPT_RC);
    memset(r->a.memory, 'x', 8);
    if (mmap(at + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        give_up("mmap", errno);
    ask(r, mr, IBV_WR_RDMA_WRITE, at + PAGE);
    say("memory", memcmp(at + PAGE, r->a.memory, 8) == 0 ? "same" : "other");
}

static void odp_hole(struct rig *r)
{
    char *at = half(PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = region(r, at, 2 * PAGE, ALL);

    if (!mr)
        return;
    rig_pair(r, IBV_QPT_RC);
    ask(r, mr, IBV_WR_RDMA_WRITE, at + PAGE);
}

static void odp_atomic_read_only(struct rig *r)
{
    char *at = half(PROT_READ);
    struct ibv_mr *mr = region(r, at, PAGE, ALL);

    if (!mr)
        return;
    rig_pair(r, IBV_QPT_RC);
    ask(r, mr, IBV_WR_ATOMIC_FETCH_AND_ADD, at);
}

static void odp_implicit(struct rig *r)
{
    struct ibv_mr *mr = region(r, NULL, SIZE_MAX, ALL);

    if (!mr)
        return;
    rig_pair(r, IBV_QPT_RC);
    memset(r->a.memory, 'y', 8);
    ask(r, mr, IBV_WR_RDMA_WRITE, r->b.memory + 512);
    say("memory", memcmp(r->b.memory + 512, r->a.memory, 8) == 0 ? "same" : "other");
    ask(r, mr, IBV_WR_ATOMIC_FETCH_AND_ADD, r->b.memory + 512);
}

static void odp_advise(struct rig *r)
{
    const enum ibv_advise_mr_advice reads = IBV_ADVISE_MR_ADVICE_PREFETCH,
                                    writes = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    char *at = half(PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = region(r, at, 2 * PAGE, 0);
    struct ibv_sge sge = {.addr = (uintptr_t)at, .length = PAGE};

    if (!mr)
        return;
    sge.lkey = mr->lkey;
    say_error("there", ibv_advise_mr(r->pd, reads, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
    say_error("to_write", ibv_advise_mr(r->pd, writes, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
    sge.length = 2 * PAGE;
    say_error("hole", ibv_advise_mr(r->pd, reads, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
    say_error("later", ibv_advise_mr(r->pd, reads, 0, &sge, 1));
    sge.lkey ^= 0x5a5a00;
    say_error("key", ibv_advise_mr(r->pd, reads, 0, &sge, 1));
    say_error("nothing", ibv_advise_mr(r->pd, reads, 0, &sge, 0));
}

const struct verbs_case on_demand_cases[] = {
    {"odp-comes-later", odp_comes_later},
    {"odp-hole", odp_hole},
    {"odp-atomic-read-only", odp_atomic_read_only},
    {"odp-implicit", odp_implicit},
    {"odp-advise", odp_advise},
    {0},
};
