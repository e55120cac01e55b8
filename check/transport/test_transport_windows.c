/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_windows.c - memory windows of type 1: what a bind permits, to which peer, and until when. */
#include <errno.h>
#include <string.h>
#include "check/support/endpoints.h"

#define READS IBV_ACCESS_REMOTE_READ
#define WRITES IBV_ACCESS_REMOTE_WRITE
#define AT 1000 /* offset of the window in the region */
#define LENGTH 3000

/* A pair whose second end's region is accessible to the peer only through windows. */
static struct pair *pair_with(unsigned access)
{
    struct setup setup = setup_default();
    setup.mr_access = access | IBV_ACCESS_MW_BIND;
    setup.qp_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC;
    return pair_new(&setup);
}

static struct ibv_mw *window_new(struct end *end)
{
    struct ibv_mw *mw = ibv_alloc_mw(end->pd, IBV_MW_TYPE_1);
    ck_assert_ptr_nonnull(mw);
    ck_assert_int_eq(mw->type, IBV_MW_TYPE_1);
    ck_assert_ptr_eq(mw->pd, end->pd);
    return mw;
}

static int bind_try(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr, const void *at, size_t length,
                    unsigned access)
{
    struct ibv_mw_bind bind = {
        .wr_id = 77, .send_flags = IBV_SEND_SIGNALED, .bind_info = {mr, (uintptr_t)at, length, access}};
    return ibv_bind_mw(qp, mw, &bind);
}

static void bind_ok(struct pair *pair, struct ibv_mw *mw, size_t at, size_t length, unsigned access)
{
    struct end *b = &pair->end[1];
    uint32_t before = mw->rkey;
    ck_assert_int_eq(bind_try(b->qp, mw, b->mr, b->memory + at, length, access), 0);
    run(pair);
    expect_done(b->send_cq, 77, IBV_WC_BIND_MW);
    ck_assert_uint_ne(mw->rkey, before);
    ck_assert_uint_eq(mw->rkey & ~0xffu, before & ~0xffu);
}

/* Posts a request of the first end with this key. */
static void ask(struct pair *pair, uint32_t rkey, enum ibv_wr_opcode opcode, size_t at, size_t length,
                enum ibv_wc_status status)
{
    struct end *a = &pair->end[0], target = pair->end[1];
    target.rkey = rkey;
    memset(a->memory, 0xdd, a->size);
    post(a, &target,
         &(struct work){.id = 5, .opcode = opcode, .length = length, .target = at, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_wc(a->send_cq, 5, status);
}

static void end_with(struct pair *pair, struct ibv_mw *mw)
{
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
    pair_free(pair);
}

/* The device attributes contain memory windows. */
START_TEST(attributes)
{
    struct pair *pair = pair_with(ACCESS_ALL);
    struct ibv_device_attr attr;
    ck_assert_int_eq(soft_query_device(pair->end[0].context, &attr), 0);
    ck_assert_uint_ne(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0);
    ck_assert_int_gt(attr.max_mw, 0);
    ck_assert_int_eq(soft_dealloc_pd(pair->end[0].pd), EBUSY);
    pair_free(pair);
}
END_TEST

/* The peer can write and read the whole window, although the region itself is not accessible. */
START_TEST(opens_its_range)
{
    struct pair *pair = pair_with(IBV_ACCESS_LOCAL_WRITE);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b);
    memset(b->memory, 0x33, b->size);
    bind_ok(pair, mw, AT, LENGTH, READS | WRITES);
    ask(pair, mw->rkey, IBV_WR_RDMA_WRITE, AT, LENGTH, IBV_WC_SUCCESS);
    expect_byte(b->memory, AT, 0x33);
    expect_byte(b->memory + AT, LENGTH, 0xdd);
    expect_byte(b->memory + AT + LENGTH, b->size - AT - LENGTH, 0x33);
    memset(b->memory + AT, 0x44, LENGTH);
    ask(pair, mw->rkey, IBV_WR_RDMA_READ, AT, LENGTH, IBV_WC_SUCCESS);
    expect_byte(a->memory, LENGTH, 0x44);
    ask(pair, b->rkey, IBV_WR_RDMA_WRITE, AT, 1, IBV_WC_REM_ACCESS_ERR);
    end_with(pair, mw);
}
END_TEST

static const struct {
    size_t at, length;
    enum ibv_wr_opcode opcode;
    unsigned access;
} refusals[] = {
    {AT - 1, LENGTH, IBV_WR_RDMA_WRITE, READS | WRITES},
    {AT + 1, LENGTH, IBV_WR_RDMA_WRITE, READS | WRITES},
    {AT, LENGTH + 1, IBV_WR_RDMA_WRITE, READS | WRITES},
    {AT + LENGTH, 1, IBV_WR_RDMA_WRITE, READS | WRITES},
    {AT - 1, 1, IBV_WR_RDMA_WRITE, READS | WRITES},
    {(size_t)-1 - AT, LENGTH, IBV_WR_RDMA_WRITE, READS | WRITES},
    {AT - 1, LENGTH, IBV_WR_RDMA_READ, READS | WRITES},
    {AT, LENGTH + 1, IBV_WR_RDMA_READ, READS | WRITES},
    {AT, LENGTH, IBV_WR_RDMA_WRITE, READS},
    {AT, LENGTH, IBV_WR_RDMA_WRITE, 0},
    {AT, LENGTH, IBV_WR_RDMA_READ, WRITES},
};

/* No byte outside, and no operation that the bind does not permit. */
START_TEST(opens_nothing_else)
{
    struct pair *pair = pair_with(ACCESS_ALL);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b);
    memset(b->memory, 0x33, b->size);
    bind_ok(pair, mw, AT, LENGTH, refusals[_i].access);
    ask(pair, mw->rkey, refusals[_i].opcode, refusals[_i].at, refusals[_i].length, IBV_WC_REM_ACCESS_ERR);
    expect_byte(b->memory, b->size, 0x33);
    if (refusals[_i].opcode == IBV_WR_RDMA_READ)
        expect_byte(a->memory, a->size, 0xdd);
    end_with(pair, mw);
}
END_TEST

/* Atomics need their own permission in the bind. */
START_TEST(atomics)
{
    bool allowed = _i == 1;
    struct pair *pair = pair_with(ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b);
    uint64_t word = 40;
    memcpy(b->memory + 8, &word, 8);
    bind_ok(pair, mw, 8, 8, allowed ? IBV_ACCESS_REMOTE_ATOMIC : READS | WRITES);
    struct ibv_sge sge = {(uintptr_t)a->memory, 8, a->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.wr_id = 6,
              .sg_list = &sge,
              .num_sge = 1,
              .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
              .send_flags = IBV_SEND_SIGNALED,
              .wr.atomic = {.remote_addr = (uintptr_t)b->memory + 8, .compare_add = 2, .rkey = mw->rkey}};
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    run(pair);
    expect_wc(a->send_cq, 6, allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
    memcpy(&word, b->memory + 8, 8);
    ck_assert_uint_eq(word, allowed ? 42 : 40);
    end_with(pair, mw);
}
END_TEST

/* The next bind invalidates the old key: elsewhere, at the same place, or with length 0. */
START_TEST(bound_anew)
{
    static const size_t lengths[] = {LENGTH, 100, 0};
    struct pair *pair = pair_with(ACCESS_ALL);
    struct ibv_mw *mw = window_new(&pair->end[1]);
    bind_ok(pair, mw, AT, LENGTH, READS);
    uint32_t old = mw->rkey;
    bind_ok(pair, mw, AT, lengths[_i], READS);
    if (lengths[_i] > 0)
        ask(pair, mw->rkey, IBV_WR_RDMA_READ, AT, lengths[_i], IBV_WC_SUCCESS);
    ask(pair, lengths[_i] > 0 ? old : mw->rkey, IBV_WR_RDMA_READ, AT, 1, IBV_WC_REM_ACCESS_ERR);
    end_with(pair, mw);
}
END_TEST

/* Before the first bind, and after deallocation. */
START_TEST(unbound)
{
    struct pair *pair = pair_with(ACCESS_ALL);
    struct ibv_mw *mw = window_new(&pair->end[1]);
    uint32_t key = mw->rkey;
    if (_i == 1) {
        bind_ok(pair, mw, AT, LENGTH, READS);
        key = mw->rkey;
        ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
    }
    ask(pair, key, IBV_WR_RDMA_READ, AT, 1, IBV_WC_REM_ACCESS_ERR);
    if (_i == 0)
        ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
    pair_free(pair);
}
END_TEST

/* A region can't be deregistered or changed while a window is bound to it, and a domain not freed while it has a
 * window. */
START_TEST(region_is_held)
{
    struct pair *pair = pair_with(ACCESS_ALL);
    struct end *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b), *other = window_new(b);
    struct ibv_mr *mr = soft_reg_mr(b->pd, b->memory, 100, ACCESS_ALL | IBV_ACCESS_MW_BIND);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(bind_try(b->qp, mw, mr, b->memory, 10, READS), 0);
        ck_assert_int_eq(bind_try(b->qp, other, mr, b->memory, 10, READS), 0);
        run(pair);
        expect_done(b->send_cq, 77, IBV_WC_BIND_MW);
        expect_done(b->send_cq, 77, IBV_WC_BIND_MW);
        ck_assert_int_eq(soft_dereg_mr(mr), EBUSY);
        errno = 0;
        ck_assert_int_eq(soft_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS_ALL),
                         IBV_REREG_MR_ERR_CMD);
        ck_assert_int_eq(errno, EBUSY);
        ck_assert_int_eq(ibv_dealloc_mw(other), 0);
        other = window_new(b);
        ck_assert_int_eq(soft_dereg_mr(mr), EBUSY);
        bind_ok(pair, mw, 0, i == 1 ? 0 : 10, READS); /* to another region, or to none */
    }
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    struct ibv_pd *pd = soft_alloc_pd(b->context);
    struct ibv_mw *of_it = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    ck_assert_int_eq(soft_dealloc_pd(pd), EBUSY);
    ck_assert_int_eq(ibv_dealloc_mw(of_it), 0);
    ck_assert_int_eq(soft_dealloc_pd(pd), 0);
    ck_assert_int_eq(ibv_dealloc_mw(other), 0);
    end_with(pair, mw);
}
END_TEST

enum { NOT_BINDABLE, NOT_WRITABLE, BELOW, BEHIND, FOREIGN_QP, REGION_GONE, FAILURES };

/* Errors that are found only when the bind is executed: the bind fails, and with it the queue pair; the window is
 * unchanged. */
START_TEST(bind_fails)
{
    struct setup setup = setup_default();
    setup.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
    if (_i == NOT_BINDABLE)
        setup.mr_access = ACCESS_ALL;
    if (_i == NOT_WRITABLE)
        setup.mr_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
    struct pair *pair = pair_new(&setup);
    struct end *b = &pair->end[1], other = *b;
    struct ibv_mw *mw;
    struct ibv_mr *mr = b->mr, *gone = NULL;
    uint8_t *at = b->memory;
    if (_i == BELOW)
        at--;
    if (_i == BEHIND)
        at += b->size - LENGTH + 1;
    if (_i == FOREIGN_QP) {
        other.pd = soft_alloc_pd(b->context);
        mr = gone = soft_reg_mr(other.pd, b->memory, b->size, setup.mr_access);
    }
    mw = window_new(&other);
    if (_i == REGION_GONE) {
        struct ibv_mr copy;
        gone = soft_reg_mr(b->pd, b->memory, b->size, setup.mr_access);
        copy = *gone;
        ck_assert_int_eq(soft_dereg_mr(gone), 0);
        gone = NULL;
        ck_assert_int_eq(bind_try(b->qp, mw, &copy, at, LENGTH, READS), 0);
    } else {
        ck_assert_int_eq(bind_try(b->qp, mw, mr, at, LENGTH, _i == NOT_WRITABLE ? WRITES : READS), 0);
    }
    run(pair);
    expect_wc(b->send_cq, 77, IBV_WC_MW_BIND_ERR);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    ck_assert_int_eq(bind_try(b->qp, mw, mr, at, LENGTH, READS), 0);
    expect_wc(b->send_cq, 77, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
    if (gone != NULL)
        ck_assert_int_eq(soft_dereg_mr(gone), 0);
    if (other.pd != b->pd)
        ck_assert_int_eq(soft_dealloc_pd(other.pd), 0);
    pair_free(pair);
}
END_TEST

/* A window gives access only through queue pairs of its protection domain. */
START_TEST(other_domain)
{
    struct pair *pair = pair_with(ACCESS_ALL);
    struct end *b = &pair->end[1], other = *b;
    other.pd = soft_alloc_pd(b->context);
    other.mr = soft_reg_mr(other.pd, b->memory, b->size, ACCESS_ALL | IBV_ACCESS_MW_BIND);
    other.qp = qp_new(&other, &pair->setup);
    qp_connect(&other, other.qp, 0, GHOST_QPN, 0, 0, &pair->setup);
    struct ibv_mw *mw = window_new(&other);
    ck_assert_int_eq(bind_try(other.qp, mw, other.mr, b->memory, LENGTH, READS), 0);
    run(pair);
    expect_done(b->send_cq, 77, IBV_WC_BIND_MW);
    ask(pair, mw->rkey, IBV_WR_RDMA_READ, 0, 1, IBV_WC_REM_ACCESS_ERR);
    ck_assert_int_eq(soft_destroy_qp(other.qp), 0);
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
    ck_assert_int_eq(soft_dereg_mr(other.mr), 0);
    ck_assert_int_eq(soft_dealloc_pd(other.pd), 0);
    pair_free(pair);
}
END_TEST

/* A bind is executed in order: after requests that were posted before it, and before those posted after it. */
START_TEST(in_order)
{
    struct pair *pair = pair_with(ACCESS_ALL);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b);
    for (uint64_t i = 0; i < 4; i++) {
        struct work work = {.id = i, .opcode = IBV_WR_RDMA_READ, .length = LENGTH, .flags = IBV_SEND_SIGNALED};
        post(b, a, &work);
        ck_assert_int_eq(bind_try(b->qp, mw, b->mr, b->memory, LENGTH, READS), 0);
        work.opcode = IBV_WR_RDMA_WRITE;
        post(b, a, &work);
    }
    run(pair);
    for (uint64_t i = 0; i < 4; i++) {
        expect_done(b->send_cq, i, IBV_WC_RDMA_READ);
        expect_done(b->send_cq, 77, IBV_WC_BIND_MW);
        expect_done(b->send_cq, i, IBV_WC_RDMA_WRITE);
    }
    expect_quiet(pair);
    ask(pair, mw->rkey, IBV_WR_RDMA_READ, 0, LENGTH, IBV_WC_SUCCESS);
    end_with(pair, mw);
}
END_TEST

/* A window's key is not valid for local memory. */
START_TEST(no_local_key)
{
    struct pair *pair = pair_with(ACCESS_ALL);
    struct end *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b);
    bind_ok(pair, mw, 0, LENGTH, READS | WRITES);
    struct ibv_sge sge = {(uintptr_t)b->memory, 8, mw->rkey};
    struct ibv_send_wr *bad, wr = {.wr_id = 6, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    ck_assert_int_eq(ibv_post_send(b->qp, &wr, &bad), 0);
    run(pair);
    expect_wc(b->send_cq, 6, IBV_WC_LOC_PROT_ERR);
    end_with(pair, mw);
}
END_TEST

/* Errors that the call itself finds. */
START_TEST(refused_at_once)
{
    struct pair *pair = pair_with(ACCESS_ALL);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b);
    uint32_t key = mw->rkey;
    ck_assert_int_eq(bind_try(b->qp, mw, b->mr, b->memory, 8, IBV_ACCESS_MW_BIND), EINVAL);
    ck_assert_int_eq(bind_try(a->qp, mw, b->mr, b->memory, 8, READS), EINVAL);
    ck_assert_uint_eq(mw->rkey, key);
    errno = 0;
    ck_assert_ptr_null(ibv_alloc_mw(b->pd, (enum ibv_mw_type)7));
    ck_assert_int_eq(errno, EINVAL);
    expect_quiet(pair);
    end_with(pair, mw);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: windows");
    TCase *windows = new_case(suite, "type 1");
    tcase_add_test(windows, attributes);
    tcase_add_test(windows, opens_its_range);
    tcase_add_loop_test(windows, opens_nothing_else, 0, sizeof refusals / sizeof *refusals);
    tcase_add_loop_test(windows, atomics, 0, 2);
    tcase_add_loop_test(windows, bound_anew, 0, 3);
    tcase_add_loop_test(windows, unbound, 0, 2);
    tcase_add_test(windows, region_is_held);
    tcase_add_loop_test(windows, bind_fails, 0, FAILURES);
    tcase_add_test(windows, other_domain);
    tcase_add_test(windows, in_order);
    tcase_add_test(windows, no_local_key);
    tcase_add_test(windows, refused_at_once);
    return run_suite(suite);
}
