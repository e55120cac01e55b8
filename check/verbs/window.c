/* SPDX-License-Identifier: BSD-2-Clause */
/* window.c - memory windows: b binds and invalidates them, a accesses b's memory through them. */
#include "bind.h"
#include "cases.h"

#define WRONG_KEY 0x5a5a00

/* Binds a window with these rights, then accesses it with this opcode. */
static void opened(struct rig *r, enum ibv_mw_type type, unsigned access, enum ibv_wr_opcode opcode,
                   int64_t offset, uint32_t length)
{
    struct ibv_mw *mw = window_new(r, type);

    if (type == IBV_MW_TYPE_1)
        bind_first(r, mw, window_range(r, access));
    else
        bind_second(r, r->b.qp, mw, window_range(r, access));
    window_ask(r, opcode, (access & FROM_ZERO ? 0 : (uintptr_t)r->b.memory + AT) + (uint64_t)offset, length,
               mw->rkey);
}

#define OPENED(name, type, access, opcode, offset, length)                                                     \
    static void name(struct rig *r)                                                                            \
    {                                                                                                          \
        opened(r, type, access, opcode, offset, length);                                                       \
    }
OPENED(mw1_write, IBV_MW_TYPE_1, WRITES, IBV_WR_RDMA_WRITE, 0, LENGTH)
OPENED(mw1_local_write, IBV_MW_TYPE_1, WRITES | IBV_ACCESS_LOCAL_WRITE, IBV_WR_RDMA_WRITE, 0, LENGTH)
OPENED(mw1_read, IBV_MW_TYPE_1, READS, IBV_WR_RDMA_READ, 0, LENGTH)
OPENED(mw1_atomic, IBV_MW_TYPE_1, ATOMICS, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8)
OPENED(mw1_write_denied, IBV_MW_TYPE_1, READS | ATOMICS, IBV_WR_RDMA_WRITE, 0, 64)
OPENED(mw1_past_end, IBV_MW_TYPE_1, READS | WRITES, IBV_WR_RDMA_WRITE, LENGTH - 63, 64)
OPENED(mw2_write, IBV_MW_TYPE_2, WRITES, IBV_WR_RDMA_WRITE, 0, LENGTH)
OPENED(mw2_local_write, IBV_MW_TYPE_2, WRITES | IBV_ACCESS_LOCAL_WRITE, IBV_WR_RDMA_WRITE, 0, LENGTH)
OPENED(mw2_read, IBV_MW_TYPE_2, READS, IBV_WR_RDMA_READ, 0, LENGTH)
OPENED(mw2_atomic, IBV_MW_TYPE_2, ATOMICS, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8)
OPENED(mw2_write_denied, IBV_MW_TYPE_2, READS | ATOMICS, IBV_WR_RDMA_WRITE, 0, 64)
OPENED(mw2_read_denied, IBV_MW_TYPE_2, WRITES | ATOMICS, IBV_WR_RDMA_READ, 0, 64)
OPENED(mw2_atomic_denied, IBV_MW_TYPE_2, READS | WRITES, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8)
OPENED(mw2_before_start, IBV_MW_TYPE_2, READS | WRITES, IBV_WR_RDMA_WRITE, -1, 64)
OPENED(mw2_past_end, IBV_MW_TYPE_2, READS | WRITES, IBV_WR_RDMA_READ, LENGTH - 63, 64)
OPENED(mw2_zero_past_end, IBV_MW_TYPE_2, READS | WRITES | FROM_ZERO, IBV_WR_RDMA_WRITE, LENGTH - 63, 64)

static void mw2_zero_write(struct rig *r)
{
    opened(r, IBV_MW_TYPE_2, READS | WRITES | FROM_ZERO, IBV_WR_RDMA_WRITE, 16, 64);
    say("before", r->b.memory[AT + 15] == 0 ? "kept" : "written");
}

/* ---- Invalid binds ---- */

static void mw_alloc_type_unknown(struct rig *r)
{
    say_result("alloc", ibv_alloc_mw(r->pd, (enum ibv_mw_type)7) != NULL);
}
static void mw1_zero(struct rig *r)
{
    struct ibv_mw *mw = window_new(r, IBV_MW_TYPE_1);

    bind_first(r, mw, window_range(r, READS | FROM_ZERO));
}
static void mw1_bind_anew(struct rig *r)
{
    struct ibv_mw *mw = window_new(r, IBV_MW_TYPE_1);

    bind_first(r, mw, window_range(r, WRITES));
    uint32_t old = mw->rkey;
    bind_first(r, mw, window_range(r, WRITES));
    window_write(r, mw->rkey);
    window_write(r, old);
}
static void mw2_bind_verb(struct rig *r)
{
    struct ibv_mw *mw = window_new(r, IBV_MW_TYPE_2);

    bind_first(r, mw, window_range(r, WRITES));
}
static void mw2_bind_twice(struct rig *r)
{
    struct ibv_mw *mw = window_new(r, IBV_MW_TYPE_2);

    bind_second(r, r->b.qp, mw, window_range(r, WRITES));
    bind_second(r, r->b.qp, mw, window_range(r, WRITES));
}
/* The requested key differs in its upper 24 bits, which the window's key must keep. */
static void mw2_bind_foreign_key(struct rig *r)
{
    struct ibv_mw *mw = window_new(r, IBV_MW_TYPE_2);
    uint32_t asked = ibv_inc_rkey(mw->rkey) ^ WRONG_KEY;

    if (bind_as(r, r->b.qp, mw, asked, window_range(r, WRITES)))
        mw->rkey = (mw->rkey & ~0xffu) | (asked & 0xff); /* some devices have set it already */
    say("key", mw->rkey == asked ? "asked" : "own");
    window_write(r, mw->rkey);
    window_write(r, asked);
}
static void mw2_bind_nothing(struct rig *r)
{
    struct ibv_mw *mw = window_new(r, IBV_MW_TYPE_2);
    struct ibv_mw_bind_info to = window_range(r, WRITES);

    to.length = 0;
    bind_second(r, r->b.qp, mw, to);
}
static void bind_outside(struct rig *r, unsigned access)
{
    struct ibv_mw *mw = window_new(r, IBV_MW_TYPE_2);
    struct ibv_mw_bind_info to = window_range(r, access);

    to.addr = (uintptr_t)r->b.memory + MEMORY_SIZE - LENGTH + 1;
    bind_second(r, r->b.qp, mw, to);
}
static void mw2_bind_outside(struct rig *r)
{
    bind_outside(r, WRITES);
}
static void mw2_zero_bind_outside(struct rig *r)
{
    bind_outside(r, WRITES | FROM_ZERO);
}
static void bind_to(struct rig *r, int region, unsigned access)
{
    struct ibv_mw *mw = window_new(r, IBV_MW_TYPE_2);

    r->b.mr = need(ibv_reg_mr(r->pd, r->b.memory, MEMORY_SIZE, region), "ibv_reg_mr");
    bind_second(r, r->b.qp, mw, window_range(r, access));
}
static void mw2_mr_not_bindable(struct rig *r)
{
    bind_to(r, IBV_ACCESS_LOCAL_WRITE | WRITES, WRITES);
}
static void mw2_mr_not_writable(struct rig *r)
{
    bind_to(r, READS | IBV_ACCESS_MW_BIND, WRITES);
}
static void mw2_other_pd(struct rig *r)
{
    struct ibv_pd *pd = need(ibv_alloc_pd(r->context), "ibv_alloc_pd");

    window_pair(r);
    bind_second(r, r->b.qp, need(ibv_alloc_mw(pd, IBV_MW_TYPE_2), "ibv_alloc_mw"), window_range(r, WRITES));
}

/* ---- Queue pair of the window ---- */

/* Binds a window by another queue pair of b, which has no peer. */
static struct ibv_qp *bound_by_another(struct rig *r, struct ibv_mw **mw)
{
    struct ibv_qp *first;

    *mw = window_new(r, IBV_MW_TYPE_2);
    first = r->b.qp;
    rig_qp(r, &r->b, IBV_QPT_RC, NULL);
    struct ibv_qp *other = r->b.qp;
    r->b.qp = first;
    rig_move(other, rig_init(r, IBV_QPT_RC));
    rig_move(other, rig_rtr(r, IBV_QPT_RC, 0x7fff));
    rig_move(other, rig_rts(r, IBV_QPT_RC));
    bind_second(r, other, *mw, window_range(r, READS | WRITES));
    return other;
}
static void mw2_other_qp(struct rig *r)
{
    struct ibv_mw *mw;

    bound_by_another(r, &mw);
    window_write(r, mw->rkey);
}
static void mw2_other_qp_invalidates(struct rig *r)
{
    struct ibv_mw *mw;

    bound_by_another(r, &mw);
    invalidate(r, r->b.qp, mw->rkey);
}

/* ---- Invalidating ---- */

/* Does not invalidate a window twice: Linux 6.1 panics in rxe_invalidate_mw(). */
static void mw2_inv(struct rig *r)
{
    struct ibv_mw *mw = window_bound(r);

    invalidate(r, r->b.qp, mw->rkey);
    window_write(r, mw->rkey);
}
static void mw2_inv_and_bind(struct rig *r)
{
    struct ibv_mw *mw = window_bound(r);

    invalidate(r, r->b.qp, mw->rkey);
    bind_second(r, r->b.qp, mw, window_range(r, READS | WRITES));
    window_write(r, mw->rkey);
}
static void inv_key_wrong(struct rig *r)
{
    invalidate(r, r->b.qp, window_bound(r)->rkey ^ WRONG_KEY);
}
static void inv_region(struct rig *r)
{
    window_pair(r);
    invalidate(r, r->b.qp, r->b.mr->rkey);
}
static void inv_mw1(struct rig *r)
{
    struct ibv_mw *mw = window_new(r, IBV_MW_TYPE_1);

    bind_first(r, mw, window_range(r, READS));
    invalidate(r, r->b.qp, mw->rkey);
}

/* Posts a SEND with invalidate, and prints the results at both ends. */
static void send_inv(struct rig *r, uint32_t length, uint32_t key)
{
    struct work w;
    struct ibv_wc wc;

    receive(&r->b, 7, 8192);
    work(&w, r, IBV_WR_SEND_WITH_INV, length);
    w.wr.invalidate_rkey = key;
    work_run(r, &w);
    if (!say_completion("recv", &r->b, &wc) || wc.status != IBV_WC_SUCCESS)
        return;
    say_number("bytes", wc.byte_len);
    say("told", wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == key ? "key" : "nothing");
}
static void mw2_send_inv(struct rig *r)
{
    struct ibv_mw *mw = window_bound(r);

    send_inv(r, 64, mw->rkey);
    window_write(r, mw->rkey);
}
static void mw2_send_inv_long(struct rig *r)
{
    struct ibv_mw *mw = window_bound(r);

    send_inv(r, 8000, mw->rkey);
    bind_second(r, r->b.qp, mw, window_range(r, READS | WRITES));
    window_write(r, mw->rkey);
}
static void send_inv_key_wrong(struct rig *r)
{
    send_inv(r, 64, window_bound(r)->rkey ^ WRONG_KEY);
    say_state("a", r->a.qp);
    say_state("b", r->b.qp);
}
static void send_inv_region(struct rig *r)
{
    window_pair(r);
    send_inv(r, 64, r->b.mr->rkey);
}
static void mw2_send_inv_other_qp(struct rig *r)
{
    struct ibv_mw *mw;

    bound_by_another(r, &mw);
    send_inv(r, 64, mw->rkey);
}
static void uc_send_inv(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_UC);
    work(&w, r, IBV_WR_SEND_WITH_INV, 64);
    work_run(r, &w);
}

/* ---- Destroying the objects of a window ---- */

static void mw2_mr_held(struct rig *r)
{
    struct ibv_mw *mw = window_bound(r);

    say_error("dereg", ibv_dereg_mr(r->b.mr));
    window_write(r, mw->rkey);
}
static void mw2_mr_freed(struct rig *r)
{
    invalidate(r, r->b.qp, window_bound(r)->rkey);
    say_error("dereg", ibv_dereg_mr(r->b.mr));
}
static void mw2_dealloc_bound(struct rig *r)
{
    struct ibv_mw *mw = window_bound(r);
    uint32_t key = mw->rkey;

    say_error("dealloc", ibv_dealloc_mw(mw));
    window_write(r, key);
}
static void mw_pd_held(struct rig *r)
{
    struct ibv_pd *pd = need(ibv_alloc_pd(r->context), "ibv_alloc_pd");
    struct ibv_mw *mw = need(ibv_alloc_mw(pd, IBV_MW_TYPE_2), "ibv_alloc_mw");

    say_error("pd", ibv_dealloc_pd(pd));
    say_error("dealloc", ibv_dealloc_mw(mw));
    say_error("pd", ibv_dealloc_pd(pd));
}

const struct verbs_case window_cases[] = {
    {"mw1-write", mw1_write},
    {"mw1-local-write", mw1_local_write},
    {"mw1-read", mw1_read},
    {"mw1-atomic", mw1_atomic},
    {"mw1-write-denied", mw1_write_denied},
    {"mw1-past-end", mw1_past_end},
    {"mw2-write", mw2_write},
    {"mw2-local-write", mw2_local_write},
    {"mw2-read", mw2_read},
    {"mw2-atomic", mw2_atomic},
    {"mw2-write-denied", mw2_write_denied},
    {"mw2-read-denied", mw2_read_denied},
    {"mw2-atomic-denied", mw2_atomic_denied},
    {"mw2-before-start", mw2_before_start},
    {"mw2-past-end", mw2_past_end},
    {"mw2-zero-write", mw2_zero_write},
    {"mw2-zero-past-end", mw2_zero_past_end},
    {"mw-alloc-type-unknown", mw_alloc_type_unknown},
    {"mw1-zero", mw1_zero},
    {"mw1-bind-anew", mw1_bind_anew},
    {"mw2-bind-verb", mw2_bind_verb},
    {"mw2-bind-twice", mw2_bind_twice},
    {"mw2-bind-foreign-key", mw2_bind_foreign_key},
    {"mw2-bind-nothing", mw2_bind_nothing},
    {"mw2-bind-outside", mw2_bind_outside},
    {"mw2-zero-bind-outside", mw2_zero_bind_outside},
    {"mw2-mr-not-bindable", mw2_mr_not_bindable},
    {"mw2-mr-not-writable", mw2_mr_not_writable},
    {"mw2-other-pd", mw2_other_pd},
    {"mw2-other-qp", mw2_other_qp},
    {"mw2-other-qp-invalidates", mw2_other_qp_invalidates},
    {"mw2-inv", mw2_inv},
    {"mw2-inv-and-bind", mw2_inv_and_bind},
    {"inv-key-wrong", inv_key_wrong},
    {"inv-region", inv_region},
    {"inv-mw1", inv_mw1},
    {"mw2-send-inv", mw2_send_inv},
    {"mw2-send-inv-long", mw2_send_inv_long},
    {"send-inv-key-wrong", send_inv_key_wrong},
    {"send-inv-region", send_inv_region},
    {"mw2-send-inv-other-qp", mw2_send_inv_other_qp},
    {"uc-send-inv", uc_send_inv},
    {"mw2-mr-held", mw2_mr_held},
    {"mw2-mr-freed", mw2_mr_freed},
    {"mw2-dealloc-bound", mw2_dealloc_bound},
    {"mw-pd-held", mw_pd_held},
    {0},
};
