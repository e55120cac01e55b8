/* SPDX-License-Identifier: BSD-2-Clause */
/* local.c - local memory: keys, ranges and rights of scatter/gather elements. */
#include "cases.h"
#include "work.h"

#include <string.h>

#define WRONG_KEY 0x5a5a00 /* changes a key into an unknown one */

static void send_lkey_wrong(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_SEND, 64);
    w.sges[0].lkey ^= WRONG_KEY;
    work_outcome(r, &w);
}

/* A request of 0 bytes: the key is not checked. */
static void send_nothing_lkey_wrong(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    receive(&r->b, 7, 64);
    work(&w, r, IBV_WR_SEND, 0);
    w.sges[0].lkey ^= WRONG_KEY;
    work_run(r, &w);
}

static void send_out_of_range(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_SEND, 64);
    w.sges[0].addr += MEMORY_SIZE - 63;
    work_outcome(r, &w);
}

static void send_other_pd(struct rig *r)
{
    struct work w;
    struct ibv_pd *pd = need(ibv_alloc_pd(r->context), "ibv_alloc_pd");

    rig_pair(r, IBV_QPT_RC);
    struct ibv_mr *mr = need(ibv_reg_mr(pd, r->a.memory, 64, 0), "ibv_reg_mr");
    work(&w, r, IBV_WR_SEND, 64);
    w.sges[0].lkey = mr->lkey;
    work_outcome(r, &w);
}

static void send_mr_gone(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_SEND, 64);
    must(ibv_dereg_mr(r->a.mr), "ibv_dereg_mr");
    work_outcome(r, &w);
}

/* Registers memory that the device may only read. */
static struct ibv_mr *read_only(struct rig *r, struct rig_end *end)
{
    return need(ibv_reg_mr(r->pd, end->memory, MEMORY_SIZE, 0), "ibv_reg_mr");
}

static void read_into_read_only(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_RDMA_READ, 64);
    w.sges[0].lkey = read_only(r, &r->a)->lkey;
    work_outcome(r, &w);
}

static void read_lkey_wrong(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_RDMA_READ, 64);
    w.sges[0].lkey ^= WRONG_KEY;
    work_outcome(r, &w);
}

static void atomic_into_read_only(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
    w.sges[0].lkey = read_only(r, &r->a)->lkey;
    work_outcome(r, &w);
}

/* A local error takes precedence over a remote one. */
static void read_both_wrong(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_RDMA_READ, 64);
    w.sges[0].lkey ^= WRONG_KEY;
    w.wr.wr.rdma.rkey ^= WRONG_KEY;
    work_outcome(r, &w);
}

/* An atomic without a valid local buffer is not executed: the target contains 1000, before and after. */
static void atomic_not_done(struct rig *r, enum ibv_wr_opcode opcode, uint32_t length, uint32_t wrong)
{
    struct work w;
    uint64_t value = 1000;

    rig_pair(r, IBV_QPT_RC);
    memcpy(r->b.memory, &value, sizeof(value));
    work(&w, r, opcode, length);
    w.wr.wr.atomic.compare_add = value;
    w.wr.wr.atomic.swap = 5;
    w.sges[0].lkey ^= wrong;
    work_run(r, &w);
    memcpy(&value, r->b.memory, sizeof(value));
    say_number("is", (long)value);
}
static void add_lkey_wrong(struct rig *r)
{
    atomic_not_done(r, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, WRONG_KEY);
}
static void swap_lkey_wrong(struct rig *r)
{
    atomic_not_done(r, IBV_WR_ATOMIC_CMP_AND_SWP, 8, WRONG_KEY);
}
static void add_too_short(struct rig *r)
{
    atomic_not_done(r, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0);
}

static void receives_into(struct rig *r, uint32_t offset, uint32_t lkey)
{
    struct work w;
    struct ibv_wc wc;
    int rc = receive_at(&r->b, 7, offset, 64, lkey);

    if (rc != 0) {
        say_error("post", rc);
        return;
    }
    work(&w, r, IBV_WR_SEND, 64);
    work_run(r, &w);
    say_completion("recv", &r->b, &wc);
    say_state("a", r->a.qp);
    say_state("b", r->b.qp);
}

static void recv_lkey_wrong(struct rig *r)
{
    rig_pair(r, IBV_QPT_RC);
    receives_into(r, 0, r->b.mr->lkey ^ WRONG_KEY);
}
static void recv_out_of_range(struct rig *r)
{
    rig_pair(r, IBV_QPT_RC);
    receives_into(r, MEMORY_SIZE - 63, r->b.mr->lkey);
}
static void recv_into_read_only(struct rig *r)
{
    rig_pair(r, IBV_QPT_RC);
    receives_into(r, 0, read_only(r, &r->b)->lkey);
}

/* The memory is deregistered while a receive into it is posted. */
static void recv_mr_gone(struct rig *r)
{
    struct work w;
    struct ibv_wc wc;

    rig_pair(r, IBV_QPT_RC);
    receive(&r->b, 7, 64);
    must(ibv_dereg_mr(r->b.mr), "ibv_dereg_mr");
    r->b.mr = need(ibv_reg_mr(r->pd, r->b.memory, 64, 0), "ibv_reg_mr");
    work(&w, r, IBV_WR_SEND, 64);
    work_run(r, &w);
    say_completion("recv", &r->b, &wc);
}

const struct verbs_case local_cases[] = {
    {"send-lkey-wrong", send_lkey_wrong},
    {"send-nothing-lkey-wrong", send_nothing_lkey_wrong},
    {"send-out-of-range", send_out_of_range},
    {"send-other-pd", send_other_pd},
    {"send-mr-gone", send_mr_gone},
    {"read-into-read-only", read_into_read_only},
    {"read-lkey-wrong", read_lkey_wrong},
    {"atomic-into-read-only", atomic_into_read_only},
    {"read-both-wrong", read_both_wrong},
    {"add-lkey-wrong", add_lkey_wrong},
    {"swap-lkey-wrong", swap_lkey_wrong},
    {"add-too-short", add_too_short},
    {"recv-lkey-wrong", recv_lkey_wrong},
    {"recv-out-of-range", recv_out_of_range},
    {"recv-into-read-only", recv_into_read_only},
    {"recv-mr-gone", recv_mr_gone},
    {0},
};
