/* SPDX-License-Identifier: BSD-2-Clause */
/* windows.c - see windows.h. */
#include "windows.h"
#include <string.h>

struct pair *windows_pair(struct setup setup)
{
    setup.mr_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
    setup.qp_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC;
    return pair_new(&setup);
}

struct ibv_mw *window_new(struct end *end, enum ibv_mw_type type)
{
    struct ibv_mw *mw = ibv_alloc_mw(end->pd, type);
    ck_assert_ptr_nonnull(mw);
    ck_assert_int_eq(mw->type, type);
    return mw;
}

int post_plain(struct ibv_qp *qp, struct ibv_send_wr wr)
{
    struct ibv_send_wr *bad;
    wr.wr_id = 77;
    wr.send_flags |= IBV_SEND_SIGNALED;
    return ibv_post_send(qp, &wr, &bad);
}

int bind_try(struct ibv_qp *qp, struct ibv_mw *mw, uint8_t key, struct ibv_mr *mr, const void *at,
             size_t length, unsigned access)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW,
                             .bind_mw = {mw, (mw->rkey & ~0xffu) | key, {mr, (uintptr_t)at, length, access}}};
    int error = post_plain(qp, wr);
    if (!error)
        mw->rkey = wr.bind_mw.rkey;
    return error;
}

int invalidate_try(struct ibv_qp *qp, uint32_t key)
{
    return post_plain(qp, (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key});
}

void expect_local(struct pair *pair, int error, enum ibv_wc_opcode opcode)
{
    ck_assert_int_eq(error, 0);
    run(pair);
    expect_done(pair->end[1].send_cq, 77, opcode);
}

void bind_ok(struct pair *pair, struct ibv_mw *mw, uint8_t key, size_t at, size_t length, unsigned access)
{
    struct end *b = &pair->end[1];
    expect_local(pair, bind_try(b->qp, mw, key, b->mr, b->memory + at, length, access), IBV_WC_BIND_MW);
}

void invalidate_ok(struct pair *pair, uint32_t key)
{
    expect_local(pair, invalidate_try(pair->end[1].qp, key), IBV_WC_LOCAL_INV);
}

void window_ask(struct pair *pair, uint32_t rkey, enum ibv_wr_opcode opcode, uint64_t address, size_t length,
                enum ibv_wc_status status)
{
    struct end *a = &pair->end[0];
    struct ibv_sge sge = {(uintptr_t)a->memory, (uint32_t)length, a->mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = 5,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {address, rkey}};
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 2;
    }
    memset(a->memory, 0xdd, a->size);
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    run(pair);
    expect_wc(a->send_cq, 5, status);
}

void window_read(struct pair *pair, uint32_t key, enum ibv_wc_status status)
{
    window_ask(pair, key, IBV_WR_RDMA_READ, (uintptr_t)pair->end[1].memory + AT, 1, status);
}

void windows_end(struct pair *pair, struct ibv_mw *mw)
{
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
    pair_free(pair);
}
