/* SPDX-License-Identifier: BSD-2-Clause */
/* remote.c - remote memory: keys, ranges and rights that the responder checks. */
#include "cases.h"
#include "work.h"

#define WRONG_KEY 0x5a5a00
#define ADD IBV_WR_ATOMIC_FETCH_AND_ADD
#define SWAP IBV_WR_ATOMIC_CMP_AND_SWP

/* Sets the remote address and key of a request of any opcode. */
static void aim(struct work *w, int64_t shift, uint32_t rkey)
{
    if (w->wr.opcode == ADD || w->wr.opcode == SWAP) {
        w->wr.wr.atomic.remote_addr += (uint64_t)shift;
        w->wr.wr.atomic.rkey = rkey;
    } else {
        w->wr.wr.rdma.remote_addr += (uint64_t)shift;
        w->wr.wr.rdma.rkey = rkey;
    }
}

/* Posts a request that is valid except for its remote address and key. */
static void aimed(struct rig *r, enum ibv_wr_opcode opcode, int64_t shift, uint32_t rkey)
{
    struct work w;

    work(&w, r, opcode, opcode == ADD || opcode == SWAP ? 8 : 64);
    aim(&w, shift, rkey);
    work_outcome(r, &w);
}

#define RKEY_WRONG(name, opcode)                                                                               \
    static void name(struct rig *r)                                                                            \
    {                                                                                                          \
        rig_pair(r, IBV_QPT_RC);                                                                               \
        aimed(r, opcode, 0, r->b.mr->rkey ^ WRONG_KEY);                                                        \
    }
RKEY_WRONG(write_rkey_wrong, IBV_WR_RDMA_WRITE)
RKEY_WRONG(read_rkey_wrong, IBV_WR_RDMA_READ)
RKEY_WRONG(atomic_rkey_wrong, ADD)

/* The memory region permits all operations except the requested one. */
#define MR_DENIES(name, opcode, right)                                                                         \
    static void name(struct rig *r)                                                                            \
    {                                                                                                          \
        int rights =                                                                                           \
            IBV_ACCESS_LOCAL_WRITE | (int)((r->access | IBV_ACCESS_REMOTE_READ) & ~(unsigned)(right));         \
                                                                                                               \
        rig_pair(r, IBV_QPT_RC);                                                                               \
        struct ibv_mr *mr = need(ibv_reg_mr(r->pd, r->b.memory, MEMORY_SIZE, rights), "ibv_reg_mr");           \
        aimed(r, opcode, 0, mr->rkey);                                                                         \
    }
MR_DENIES(write_mr_denies, IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE)
MR_DENIES(read_mr_denies, IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ)
MR_DENIES(atomic_mr_denies, ADD, IBV_ACCESS_REMOTE_ATOMIC)

/* The queue pair permits all operations except the requested one. */
#define QP_DENIES(name, opcode, right)                                                                         \
    static void name(struct rig *r)                                                                            \
    {                                                                                                          \
        r->access &= ~(unsigned)(right);                                                                       \
        rig_pair(r, IBV_QPT_RC);                                                                               \
        aimed(r, opcode, 0, r->b.mr->rkey);                                                                    \
    }
QP_DENIES(write_qp_denies, IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE)
QP_DENIES(read_qp_denies, IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ)
QP_DENIES(atomic_qp_denies, SWAP, IBV_ACCESS_REMOTE_ATOMIC)

#define AIMED(name, opcode, shift)                                                                             \
    static void name(struct rig *r)                                                                            \
    {                                                                                                          \
        rig_pair(r, IBV_QPT_RC);                                                                               \
        aimed(r, opcode, shift, r->b.mr->rkey);                                                                \
    }
AIMED(write_past_end, IBV_WR_RDMA_WRITE, MEMORY_SIZE)
AIMED(write_over_end, IBV_WR_RDMA_WRITE, MEMORY_SIZE - 63)
AIMED(write_before_start, IBV_WR_RDMA_WRITE, -1)
AIMED(write_wraps, IBV_WR_RDMA_WRITE, -(int64_t)(uintptr_t)r->b.memory - 32)
AIMED(read_past_end, IBV_WR_RDMA_READ, MEMORY_SIZE)
AIMED(read_over_end, IBV_WR_RDMA_READ, MEMORY_SIZE - 63)
AIMED(atomic_past_end, ADD, MEMORY_SIZE)
AIMED(add_misaligned, ADD, 4)
AIMED(swap_misaligned, SWAP, 1)

static void write_other_pd(struct rig *r)
{
    struct ibv_pd *pd = need(ibv_alloc_pd(r->context), "ibv_alloc_pd");

    rig_pair(r, IBV_QPT_RC);
    struct ibv_mr *mr =
        need(ibv_reg_mr(pd, r->b.memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), "ibv_reg_mr");
    aimed(r, IBV_WR_RDMA_WRITE, 0, mr->rkey);
}

static void write_mr_gone(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_RDMA_WRITE, 64);
    must(ibv_dereg_mr(r->b.mr), "ibv_dereg_mr");
    work_outcome(r, &w);
}

/* A request of 0 bytes: the key is not checked. */
static void nothing(struct rig *r, enum ibv_wr_opcode opcode)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, opcode, 0);
    w.wr.num_sge = 0;
    aim(&w, 0, r->b.mr->rkey ^ WRONG_KEY);
    work_outcome(r, &w);
}
static void write_nothing_rkey_wrong(struct rig *r)
{
    nothing(r, IBV_WR_RDMA_WRITE);
}
static void read_nothing_rkey_wrong(struct rig *r)
{
    nothing(r, IBV_WR_RDMA_READ);
}

/* The responder accepts no READ: max_dest_rd_atomic is 0. */
static void read_not_answered(struct rig *r)
{
    r->answers = 0;
    rig_pair(r, IBV_QPT_RC);
    aimed(r, IBV_WR_RDMA_READ, 0, r->b.mr->rkey);
}

static void event_access(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_RDMA_WRITE, 64);
    aim(&w, 0, r->b.mr->rkey ^ WRONG_KEY);
    work_run(r, &w);
    say_async("event", r);
}

static void event_request(struct rig *r)
{
    struct work w;

    r->access &= ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_RDMA_WRITE, 64);
    work_run(r, &w);
    say_async("event", r);
}

/* A write with immediate data consumes a receive only if it succeeds. If it fails, the receives are flushed with the
 * queue pair. */
static void failed_with_imm(struct rig *r, uint32_t wrong)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    receive(&r->b, 7, 64);
    receive(&r->b, 8, 64);
    work(&w, r, IBV_WR_RDMA_WRITE_WITH_IMM, 64);
    aim(&w, 0, r->b.mr->rkey ^ wrong);
    work_run(r, &w);
    say_completions("recv", &r->b, 2);
    say_async("event", r);
}
static void write_imm_rkey_wrong(struct rig *r)
{
    failed_with_imm(r, WRONG_KEY);
}
static void write_imm_qp_denies(struct rig *r)
{
    r->access &= ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
    failed_with_imm(r, 0);
}

/* An unreliable connection drops the request silently and continues. */
static void uc_write_rkey_wrong(struct rig *r)
{
    struct work w;
    struct ibv_wc wc;

    rig_pair(r, IBV_QPT_UC);
    receive(&r->b, 7, 64);
    work(&w, r, IBV_WR_RDMA_WRITE, 64);
    aim(&w, 0, r->b.mr->rkey ^ WRONG_KEY);
    work_run(r, &w);
    work_send(r, 32);
    if (say_completion("recv", &r->b, &wc))
        say_number("bytes", wc.byte_len);
}

const struct verbs_case remote_cases[] = {
    {"write-rkey-wrong", write_rkey_wrong},
    {"read-rkey-wrong", read_rkey_wrong},
    {"atomic-rkey-wrong", atomic_rkey_wrong},
    {"write-mr-denies", write_mr_denies},
    {"read-mr-denies", read_mr_denies},
    {"atomic-mr-denies", atomic_mr_denies},
    {"write-qp-denies", write_qp_denies},
    {"read-qp-denies", read_qp_denies},
    {"atomic-qp-denies", atomic_qp_denies},
    {"write-past-end", write_past_end},
    {"write-over-end", write_over_end},
    {"write-before-start", write_before_start},
    {"write-wraps", write_wraps},
    {"read-past-end", read_past_end},
    {"read-over-end", read_over_end},
    {"atomic-past-end", atomic_past_end},
    {"add-misaligned", add_misaligned},
    {"swap-misaligned", swap_misaligned},
    {"write-other-pd", write_other_pd},
    {"write-mr-gone", write_mr_gone},
    {"write-nothing-rkey-wrong", write_nothing_rkey_wrong},
    {"read-nothing-rkey-wrong", read_nothing_rkey_wrong},
    {"read-not-answered", read_not_answered},
    {"event-access", event_access},
    {"event-request", event_request},
    {"write-imm-rkey-wrong", write_imm_rkey_wrong},
    {"write-imm-qp-denies", write_imm_qp_denies},
    {"uc-write-rkey-wrong", uc_write_rkey_wrong},
    {0},
};
