/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_windows_posted.c - memory windows of type 2, which work requests bind and invalidate; and zero-based
 * addresses.
 */
#include <errno.h>
#include <string.h>
#include "check/support/windows.h"

START_TEST(attributes)
{
    struct pair *pair = windows_pair(setup_default());
    struct ibv_device_attr attr;
    ck_assert_int_eq(soft_query_device(pair->end[0].context, &attr), 0);
    ck_assert_uint_ne(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0);
    ck_assert_uint_ne(attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS, 0);
    ck_assert_uint_eq(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0);
    pair_free(pair);
}
END_TEST

/* ---- Binding ---- */

/* Bound with the requested key, invalidated, and bound again, with the same key or another. */
START_TEST(opens_and_closes)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *b = &pair->end[1];
    uint64_t at = (uintptr_t)b->memory + AT;
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);
    static const uint8_t keys[] = {0, 7, 7, 255, 1};
    for (size_t i = 0; i < sizeof keys; i++) {
        memset(b->memory, 0x33, b->size);
        bind_ok(pair, mw, keys[i], AT, LENGTH, READS | WRITES);
        ck_assert_int_eq(soft_dereg_mr(b->mr), EBUSY);
        window_ask(pair, mw->rkey, IBV_WR_RDMA_WRITE, at, LENGTH, IBV_WC_SUCCESS);
        expect_byte(b->memory, AT, 0x33);
        expect_byte(b->memory + AT, LENGTH, 0xdd);
        expect_byte(b->memory + AT + LENGTH, b->size - AT - LENGTH, 0x33);
        window_ask(pair, mw->rkey, IBV_WR_RDMA_READ, at, LENGTH, IBV_WC_SUCCESS);
        invalidate_ok(pair, mw->rkey);
        invalidate_ok(pair, mw->rkey); /* invalidating it again is no error */
    }
    window_read(pair, mw->rkey, IBV_WC_REM_ACCESS_ERR);
    windows_end(pair, mw);
}
END_TEST

/* The upper 24 bits of the requested key are ignored, as by adapters: the window keeps its own. */
START_TEST(keeps_its_upper_bits)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);
    uint32_t own = mw->rkey | 9;
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_BIND_MW,
        .bind_mw = {mw, own ^ 0x5a5a00, {b->mr, (uintptr_t)b->memory + AT, LENGTH, READS}},
    };
    expect_local(pair, post_plain(b->qp, wr), IBV_WC_BIND_MW);
    ck_assert_uint_eq(mw->rkey, own);
    window_read(pair, own, IBV_WC_SUCCESS);
    window_read(pair, wr.bind_mw.rkey, IBV_WC_REM_ACCESS_ERR);
    windows_end(pair, mw);
}
END_TEST

static const struct {
    int64_t from;
    size_t length;
    enum ibv_wr_opcode opcode;
    unsigned access;
} refusals[] = {
    {-1, LENGTH, IBV_WR_RDMA_WRITE, READS | WRITES},
    {1, LENGTH, IBV_WR_RDMA_WRITE, READS | WRITES},
    {0, LENGTH + 1, IBV_WR_RDMA_READ, READS | WRITES},
    {LENGTH, 1, IBV_WR_RDMA_READ, READS | WRITES},
    {0, 8, IBV_WR_RDMA_WRITE, READS},
    {0, 8, IBV_WR_RDMA_READ, WRITES},
    {0, 8, IBV_WR_ATOMIC_FETCH_AND_ADD, READS | WRITES},
};
#define REFUSALS (sizeof refusals / sizeof *refusals)

/* The same for zero-based windows. */
START_TEST(opens_nothing_else)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);
    size_t i = (size_t)_i % REFUSALS;
    bool from_zero = (size_t)_i >= REFUSALS;
    uint64_t start = from_zero ? 0 : (uintptr_t)b->memory + AT;
    memset(b->memory, 0x33, b->size);
    bind_ok(pair, mw, 1, AT, LENGTH, refusals[i].access | (from_zero ? IBV_ACCESS_ZERO_BASED : 0));
    window_ask(pair, mw->rkey, refusals[i].opcode, start + (uint64_t)refusals[i].from, refusals[i].length,
               IBV_WC_REM_ACCESS_ERR);
    expect_byte(b->memory, b->size, 0x33);
    windows_end(pair, mw);
}
END_TEST

/* A window gives access only through the queue pair that bound it, not through others of the domain. */
START_TEST(of_one_queue_pair)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *b = &pair->end[1], other = *b;
    other.qp = qp_new(&other, &pair->setup);
    qp_connect(&other, other.qp, 0, GHOST_QPN, 0, 0, &pair->setup);
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);
    expect_local(pair, bind_try(other.qp, mw, 1, b->mr, b->memory, LENGTH, READS), IBV_WC_BIND_MW);
    if (_i == 0) {
        window_read(pair, mw->rkey, IBV_WC_REM_ACCESS_ERR);
    } else if (_i == 1) {
        ck_assert_int_eq(invalidate_try(b->qp, mw->rkey), 0);
        run(pair);
        expect_wc(b->send_cq, 77, IBV_WC_MW_BIND_ERR);
    }
    /* Destroying that queue pair invalidates the window, which may then be bound by another. */
    ck_assert_int_eq(soft_destroy_qp(other.qp), 0);
    if (_i == 2) {
        bind_ok(pair, mw, 1, AT, LENGTH, READS);
        window_read(pair, mw->rkey, IBV_WC_SUCCESS);
    } else {
        struct ibv_mr *mr = b->mr;
        ck_assert_int_eq(soft_dereg_mr(mr), 0);
        b->mr = soft_reg_mr(b->pd, b->memory, b->size, ACCESS_ALL);
    }
    windows_end(pair, mw);
}
END_TEST

enum {
    OPEN_ALREADY,
    OF_NOTHING,
    FROM_ZERO,
    NOT_BINDABLE,
    OUTSIDE,
    OUTSIDE_FROM_ZERO,
    NOT_WRITABLE,
    FOREIGN,
    BIND_FAILURES
};

/* Errors that are found only when the bind is executed: the bind fails, and with it the queue pair. */
START_TEST(bind_fails)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *b = &pair->end[1];
    struct end other = *b;
    if (_i == FOREIGN)
        other.pd = soft_alloc_pd(b->context);
    struct ibv_mw *mw = window_new(&other, IBV_MW_TYPE_2);
    struct ibv_mr *mr = b->mr, *own = NULL;
    unsigned access = _i == NOT_WRITABLE ? IBV_ACCESS_REMOTE_ATOMIC : READS;
    size_t length = LENGTH;
    uint8_t *at = b->memory;
    if (_i == OPEN_ALREADY)
        bind_ok(pair, mw, 1, AT, LENGTH, READS);
    if (_i == OF_NOTHING)
        length = 0;
    if (_i == FROM_ZERO || _i == NOT_BINDABLE)
        mr = own = soft_reg_mr(b->pd, b->memory, b->size,
                               ACCESS_ALL | (_i == FROM_ZERO ? IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED : 0));
    if (_i == NOT_WRITABLE)
        mr = own = soft_reg_mr(b->pd, b->memory, b->size, READS | IBV_ACCESS_MW_BIND);
    if (_i == FROM_ZERO)
        at = NULL;
    if (_i == OUTSIDE || _i == OUTSIDE_FROM_ZERO)
        at += b->size - LENGTH + 1;
    if (_i == OUTSIDE_FROM_ZERO)
        access |= IBV_ACCESS_ZERO_BASED;
    ck_assert_int_eq(bind_try(b->qp, mw, 2, mr, at, length, access), 0);
    run(pair);
    expect_wc(b->send_cq, 77, IBV_WC_MW_BIND_ERR);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    if (own != NULL)
        ck_assert_int_eq(soft_dereg_mr(own), 0);
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
    if (other.pd != b->pd)
        ck_assert_int_eq(soft_dealloc_pd(other.pd), 0);
    pair_free(pair);
}
END_TEST

START_TEST(refused_at_once)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2), *first = window_new(b, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = {.bind_info = {b->mr, (uintptr_t)b->memory, 8, READS}};
    struct ibv_sge sge = {(uintptr_t)b->memory, 8, b->mr->lkey};
    struct ibv_send_wr with_memory = {.opcode = IBV_WR_LOCAL_INV, .sg_list = &sge, .num_sge = 1};
    ck_assert_int_eq(ibv_bind_mw(b->qp, mw, &bind), EINVAL);
    ck_assert_int_eq(soft_bind_mw(b->qp, mw, &bind), EINVAL);
    bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
    ck_assert_int_eq(ibv_bind_mw(b->qp, first, &bind), EINVAL);
    ck_assert_int_eq(bind_try(a->qp, mw, 1, b->mr, b->memory, 8, READS), EINVAL);
    ck_assert_int_eq(bind_try(b->qp, mw, 1, a->mr, a->memory, 8, READS), EINVAL);
    ck_assert_int_eq(bind_try(b->qp, mw, 1, b->mr, b->memory, 8, IBV_ACCESS_MW_BIND), EINVAL);
    ck_assert_int_eq(post_plain(b->qp, with_memory), EINVAL);
    with_memory.num_sge = 0;
    with_memory.send_flags = IBV_SEND_INLINE;
    ck_assert_int_eq(post_plain(b->qp, with_memory), EINVAL);
    expect_quiet(pair);
    ck_assert_int_eq(ibv_dealloc_mw(first), 0);
    windows_end(pair, mw);
}
END_TEST

/* ---- Zero-based addresses ---- */

/* Addresses count from the window's start, not from the region's. */
START_TEST(window_from_zero)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);
    uint64_t word = 40;
    memset(b->memory, 0x33, b->size);
    memcpy(b->memory + AT + 16, &word, 8);
    bind_ok(pair, mw, 1, AT, LENGTH, READS | WRITES | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED);
    window_ask(pair, mw->rkey, IBV_WR_RDMA_READ, 0, 16, IBV_WC_SUCCESS);
    expect_byte(a->memory, 16, 0x33);
    window_ask(pair, mw->rkey, IBV_WR_RDMA_WRITE, LENGTH - 1, 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(b->memory[AT + LENGTH - 1], 0xdd);
    ck_assert_uint_eq(b->memory[AT + LENGTH], 0x33);
    window_ask(pair, mw->rkey, IBV_WR_ATOMIC_FETCH_AND_ADD, 16, 8, IBV_WC_SUCCESS);
    memcpy(&word, b->memory + AT + 16, 8);
    ck_assert_uint_eq(word, 42);
    invalidate_ok(pair, mw->rkey);
    /* The address is aligned, the memory is not. */
    bind_ok(pair, mw, 2, AT + 1, LENGTH, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED);
    window_ask(pair, mw->rkey, IBV_WR_ATOMIC_FETCH_AND_ADD, 16, 8, IBV_WC_REM_ACCESS_ERR);
    windows_end(pair, mw);
}
END_TEST

/* A zero-based region: for local requests as for the peer's. */
START_TEST(region_from_zero)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mr *mr = soft_reg_mr(b->pd, b->memory + AT, LENGTH, ACCESS_ALL | IBV_ACCESS_ZERO_BASED);
    ck_assert_ptr_nonnull(mr);
    ck_assert_ptr_eq(mr->addr, b->memory + AT);
    memset(b->memory, 0x33, b->size);
    window_ask(pair, mr->rkey, IBV_WR_RDMA_WRITE, 0, LENGTH, IBV_WC_SUCCESS);
    expect_byte(b->memory, AT, 0x33);
    expect_byte(b->memory + AT, LENGTH, 0xdd);
    expect_byte(b->memory + AT + LENGTH, b->size - AT - LENGTH, 0x33);
    struct ibv_sge sge = {4, 8, mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = 6,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {(uintptr_t)a->memory, a->rkey}};
    fill(b->memory + AT + 4, 8, 1);
    ck_assert_int_eq(ibv_post_send(b->qp, &wr, &bad), 0);
    run(pair);
    expect_done(b->send_cq, 6, IBV_WC_RDMA_WRITE);
    ck_assert(filled(a->memory, 8, 1));
    if (_i == 0) {
        window_ask(pair, mr->rkey, IBV_WR_RDMA_READ, LENGTH, 1, IBV_WC_REM_ACCESS_ERR);
    } else if (_i == 1) {
        window_ask(pair, mr->rkey, IBV_WR_RDMA_READ, (uintptr_t)b->memory + AT, 1, IBV_WC_REM_ACCESS_ERR);
    } else {
        sge.addr = (uintptr_t)b->memory + AT;
        ck_assert_int_eq(ibv_post_send(b->qp, &wr, &bad), 0);
        run(pair);
        expect_wc(b->send_cq, 6, IBV_WC_LOC_PROT_ERR);
    }
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: windows that are posted");
    TCase *windows = new_case(suite, "type 2");
    tcase_add_test(windows, attributes);
    tcase_add_test(windows, opens_and_closes);
    tcase_add_test(windows, keeps_its_upper_bits);
    tcase_add_loop_test(windows, opens_nothing_else, 0, 2 * REFUSALS);
    tcase_add_loop_test(windows, of_one_queue_pair, 0, 3);
    tcase_add_loop_test(windows, bind_fails, 0, BIND_FAILURES);
    tcase_add_test(windows, refused_at_once);
    TCase *zero = new_case(suite, "from zero");
    tcase_add_test(zero, window_from_zero);
    tcase_add_loop_test(zero, region_from_zero, 0, 3);
    return run_suite(suite);
}
