/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - registration of memory. */
#include "cases.h"
#include "work.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void reg(struct rig *r, void *address, size_t length, int access)
{
    say_result("reg", ibv_reg_mr(r->pd, address, length, access) != NULL);
}

static void *pages(int protection)
{
    void *at = mmap(NULL, 8192, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        give_up("mmap", errno);
    return at;
}

static void reg_plain(struct rig *r)
{
    reg(r, pages(PROT_READ | PROT_WRITE), 8192, IBV_ACCESS_LOCAL_WRITE);
}
/* Remote write permission requires local write permission. */
static void reg_remote_write_alone(struct rig *r)
{
    reg(r, pages(PROT_READ | PROT_WRITE), 8192, IBV_ACCESS_REMOTE_WRITE);
}
static void reg_remote_atomic_alone(struct rig *r)
{
    reg(r, pages(PROT_READ | PROT_WRITE), 8192, IBV_ACCESS_REMOTE_ATOMIC);
}
static void reg_remote_read_alone(struct rig *r)
{
    reg(r, pages(PROT_READ | PROT_WRITE), 8192, IBV_ACCESS_REMOTE_READ);
}
static void reg_unmapped(struct rig *r)
{
    char *at = pages(PROT_READ | PROT_WRITE);

    munmap(at + 4096, 4096);
    reg(r, at, 8192, IBV_ACCESS_LOCAL_WRITE);
}
static void reg_wraps(struct rig *r)
{
    reg(r, pages(PROT_READ | PROT_WRITE), SIZE_MAX - 100, IBV_ACCESS_LOCAL_WRITE);
}
static void reg_read_only_to_read(struct rig *r)
{
    reg(r, pages(PROT_READ), 8192, IBV_ACCESS_REMOTE_READ);
}
static void reg_read_only_to_write(struct rig *r)
{
    reg(r, pages(PROT_READ), 8192, IBV_ACCESS_LOCAL_WRITE);
}
static void reg_access_unknown(struct rig *r)
{
    reg(r, pages(PROT_READ | PROT_WRITE), 8192, IBV_ACCESS_LOCAL_WRITE | 1 << 19);
}
static void reg_nothing(struct rig *r)
{
    reg(r, pages(PROT_READ | PROT_WRITE), 0, IBV_ACCESS_LOCAL_WRITE);
}
/* Addresses of a zero-based region are offsets into it. */
static void reg_from_zero(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    struct ibv_mr *mr = ibv_reg_mr(r->pd, r->b.memory + 4096, 4096,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED);
    say_result("reg", mr != NULL);
    if (mr == NULL)
        return;
    work(&w, r, IBV_WR_RDMA_WRITE, 64);
    memset(r->a.memory, 1, 64);
    w.wr.wr.rdma.remote_addr = 8;
    w.wr.wr.rdma.rkey = mr->rkey;
    work_run(r, &w);
    say("data", memcmp(r->b.memory + 4096 + 8, r->a.memory, 64) == 0 ? "same" : "different");
}
/* The same memory may be registered several times. */
static void reg_twice(struct rig *r)
{
    char *at = pages(PROT_READ | PROT_WRITE);
    struct ibv_mr *first = need(ibv_reg_mr(r->pd, at, 8192, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
    struct ibv_mr *second = need(ibv_reg_mr(r->pd, at, 8192, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");

    say("keys", first->lkey == second->lkey ? "same" : "differ");
    say_error("dereg", ibv_dereg_mr(first));
    say_error("dereg", ibv_dereg_mr(second));
}

/* The flag is a hint: the memory need not be in huge pages. */
static void reg_huge_pages(struct rig *r)
{
    reg(r, pages(PROT_READ | PROT_WRITE), 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB);
}
/* Few devices can import objects of another process. */
static void import(struct rig *r)
{
    say_result("pd", ibv_import_pd(r->context, r->pd->handle) != NULL);
    say_result("mr", ibv_import_mr(r->pd, 1) != NULL);
    say_result("dm", ibv_import_dm(r->context, 1) != NULL);
}

const struct verbs_case memory_cases[] = {
    {"reg-plain", reg_plain},
    {"reg-huge-pages", reg_huge_pages},
    {"import", import},
    {"reg-remote-read-alone", reg_remote_read_alone},
    {"reg-remote-write-alone", reg_remote_write_alone},
    {"reg-remote-atomic-alone", reg_remote_atomic_alone},
    {"reg-unmapped", reg_unmapped},
    {"reg-wraps", reg_wraps},
    {"reg-read-only-to-read", reg_read_only_to_read},
    {"reg-read-only-to-write", reg_read_only_to_write},
    {"reg-access-unknown", reg_access_unknown},
    {"reg-nothing", reg_nothing},
    {"reg-from-zero", reg_from_zero},
    {"reg-twice", reg_twice},
    {0},
};
