/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_invalidate.c - invalidating the keys of memory windows: by a local request, or by a SEND WITH
 * INVALIDATE of the peer.
 */
#include <errno.h>
#include <string.h>
#include "check/support/windows.h"

enum { UNKNOWN, REGION, FIRST_TYPE, OLD, FOREIGN, WRONG_KEYS };

static uint32_t wrong_key(struct pair *pair, struct ibv_mw *mw, int which)
{
    struct end *b = &pair->end[1];
    if (which == UNKNOWN)
        return GHOST_RKEY;
    if (which == REGION)
        return b->mr->rkey;
    if (which != FIRST_TYPE)
        return mw->rkey ^ (which == OLD);
    struct ibv_mw_bind bind = {
        .wr_id = 77, .send_flags = IBV_SEND_SIGNALED, .bind_info = {b->mr, (uintptr_t)b->memory, 8, READS}};
    expect_local(pair, ibv_bind_mw(b->qp, mw, &bind), IBV_WC_BIND_MW);
    return mw->rkey;
}

/* A key that is not of a bound type 2 window in this protection domain: neither a local request nor the peer can
 * invalidate it. */
START_TEST(invalidates_nothing_else)
{
    bool by_peer = _i >= WRONG_KEYS;
    int which = _i % WRONG_KEYS;
    struct pair *pair = windows_pair(setup_default());
    struct end *a = &pair->end[0], *b = &pair->end[1], other = *b;
    if (which == FOREIGN)
        other.pd = soft_alloc_pd(b->context);
    struct ibv_mw *mw = window_new(&other, which == FIRST_TYPE ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    if (which == OLD)
        bind_ok(pair, mw, 4, AT, LENGTH, READS);
    uint32_t key = wrong_key(pair, mw, which);
    if (by_peer) {
        post_receive(b, 9, 0, 100);
        ck_assert_int_eq(
            post_plain(a->qp, (struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = key}), 0);
        run(pair);
        expect_wc(a->send_cq, 77, IBV_WC_REM_ACCESS_ERR);
        expect_wc(b->recv_cq, 9, IBV_WC_REM_INV_REQ_ERR);
        ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    } else {
        ck_assert_int_eq(invalidate_try(b->qp, key), 0);
        run(pair);
        expect_wc(b->send_cq, 77, IBV_WC_MW_BIND_ERR);
        ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    }
    if (which == OLD)
        ck_assert_int_eq(soft_dereg_mr(b->mr), EBUSY); /* the window is still bound */
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
    if (which == FOREIGN)
        ck_assert_int_eq(soft_dealloc_pd(other.pd), 0);
    pair_free(pair);
}
END_TEST

/* A SEND WITH INVALIDATE of any length: the receive completion reports the key, and later requests find the window
 * closed. */
START_TEST(closed_by_the_peer)
{
    static const size_t lengths[] = {0, 1, 1024, 1025, 10000};
    struct pair *pair = windows_pair(setup_default());
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);
    fill(a->memory, lengths[_i], 3);
    for (int i = 0; i < 3; i++) {
        bind_ok(pair, mw, (uint8_t)i, AT, LENGTH, READS);
        network_forget(pair->network);
        post_receive(b, 9, 0, 10000);
        post(a, b,
             &(struct work){.id = 5,
                            .opcode = IBV_WR_SEND_WITH_INV,
                            .length = lengths[_i],
                            .flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
                            .imm = mw->rkey});
        run(pair);
        expect_done(a->send_cq, 5, IBV_WC_SEND);
        struct ibv_wc wc = expect_wc(b->recv_cq, 9, IBV_WC_SUCCESS);
        ck_assert_uint_eq(wc.wc_flags, IBV_WC_WITH_INV);
        ck_assert_uint_eq(wc.invalidated_rkey, mw->rkey);
        ck_assert_uint_eq(wc.byte_len, lengths[_i]);
        ck_assert(filled(b->memory, lengths[_i], 3));
        const struct packet *last =
            find_packet(pair->network, 0, lengths[_i] > 1024 ? SEND_LAST_INV : SEND_ONLY_INV, 0);
        ck_assert_ptr_nonnull(last);
        ck_assert(last->roce.solicited && last->roce.ackreq && last->roce.has_ieth && !last->roce.has_imm);
        ck_assert_uint_eq(last->roce.invalidate, mw->rkey);
        ck_assert_uint_eq(memcmp(last->bytes + ROCE_BTH, &(uint32_t){htobe32(mw->rkey)}, 4), 0);
    }
    window_read(pair, mw->rkey, IBV_WC_REM_ACCESS_ERR);
    windows_end(pair, mw);
}
END_TEST

static enum fate echo_sends(void *arg, const struct packet *packet)
{
    (void)arg;
    return packet->from == 0 ? FATE_ECHO : FATE_DELIVER;
}

/* A duplicate of it that arrives after the window was bound again does not invalidate the new binding. */
START_TEST(closed_once)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);
    struct ibv_wc wc;
    bind_ok(pair, mw, 1, AT, LENGTH, READS);
    network_set_script(pair->network, echo_sends, NULL);
    post_receive(b, 9, 0, 100);
    post(a, b, &(struct work){.opcode = IBV_WR_SEND_WITH_INV, .length = 10, .imm = mw->rkey});
    while (ibv_poll_cq(b->recv_cq, 1, &wc) == 0)
        ck_assert(network_step(pair->network));
    uint64_t duplicates = counters_of(b).duplicates;
    ck_assert_int_eq(bind_try(b->qp, mw, 1, b->mr, b->memory + AT, LENGTH, READS), 0);
    run(pair);
    ck_assert_uint_gt(counters_of(b).duplicates, duplicates);
    expect_done(b->send_cq, 77, IBV_WC_BIND_MW);
    window_read(pair, mw->rkey, IBV_WC_SUCCESS);
    windows_end(pair, mw);
}
END_TEST

/* A message that is too long for its receive invalidates nothing. */
START_TEST(too_long_closes_nothing)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);
    bind_ok(pair, mw, 1, AT, LENGTH, READS);
    post_receive(b, 9, 0, 9);
    post(a, b, &(struct work){.id = 5, .opcode = IBV_WR_SEND_WITH_INV, .length = 10, .imm = mw->rkey});
    run(pair);
    expect_wc(a->send_cq, 5, IBV_WC_REM_INV_REQ_ERR);
    expect_wc(b->recv_cq, 9, IBV_WC_LOC_LEN_ERR);
    ck_assert_int_eq(soft_dereg_mr(b->mr), EBUSY);
    windows_end(pair, mw);
}
END_TEST

/* Windows work on unreliable connections, but the peer can't invalidate them. */
START_TEST(unreliable)
{
    struct setup setup = setup_default();
    setup.type = IBV_QPT_UC;
    struct pair *pair = windows_pair(setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);
    struct ibv_send_wr inv = {.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = 1};
    uint64_t at = (uintptr_t)b->memory + AT;
    memset(b->memory, 0x33, b->size);
    bind_ok(pair, mw, 1, AT, LENGTH, WRITES);
    window_ask(pair, mw->rkey, IBV_WR_RDMA_WRITE, at, LENGTH, IBV_WC_SUCCESS);
    expect_byte(b->memory + AT, LENGTH, 0xdd);
    memset(b->memory, 0x33, b->size);
    invalidate_ok(pair, mw->rkey);
    window_ask(pair, mw->rkey, IBV_WR_RDMA_WRITE, at, LENGTH, IBV_WC_SUCCESS);
    expect_byte(b->memory, b->size, 0x33);
    ck_assert_int_eq(post_plain(a->qp, inv), EINVAL);
    windows_end(pair, mw);
}
END_TEST

/* The same with the ibv_wr_ calls: bind, write, invalidate; bind again, and the peer invalidates. */
START_TEST(extended)
{
    struct pair *pair = windows_pair(setup_default());
    struct end *ends = pair->end, *b = &ends[1];
    struct ibv_qp_ex *ex[2];
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_init_attr_ex attr = {.send_cq = ends[i].send_cq,
                                           .recv_cq = ends[i].recv_cq,
                                           .qp_type = IBV_QPT_RC,
                                           .cap = {8, 8, 1, 1, 0},
                                           .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                           .pd = ends[i].pd,
                                           .send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
                                                             IBV_QP_EX_WITH_SEND_WITH_INV};
        ck_assert_int_eq(soft_destroy_qp(ends[i].qp), 0);
        ends[i].qp = ibv_create_qp_ex(ends[i].context, &attr);
        ck_assert_ptr_nonnull(ends[i].qp);
        ex[i] = soft_qp_to_qp_ex(ends[i].qp);
        ex[i]->wr_id = 77;
        ex[i]->wr_flags = IBV_SEND_SIGNALED;
    }
    for (int i = 0; i < 2; i++)
        qp_connect(&ends[i], ends[i].qp, ends[!i].node, ends[!i].qp->qp_num, 0, 0, &pair->setup);
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);
    struct ibv_mw_bind_info info = {b->mr, (uintptr_t)b->memory + AT, LENGTH, READS};
    uint32_t first = mw->rkey; /* a bind changes it */
    for (uint32_t i = 0; i < 2; i++) {
        ibv_wr_start(ex[1]);
        ibv_wr_bind_mw(ex[1], mw, first + 5 + i, &info);
        expect_local(pair, ibv_wr_complete(ex[1]), IBV_WC_BIND_MW);
        window_read(pair, first + 5 + i, IBV_WC_SUCCESS);
        ibv_wr_start(ex[i ? 0 : 1]);
        if (i == 0) {
            ibv_wr_local_inv(ex[1], first + 5);
            expect_local(pair, ibv_wr_complete(ex[1]), IBV_WC_LOCAL_INV);
            continue;
        }
        post_receive(b, 9, 0, 0);
        ibv_wr_send_inv(ex[0], first + 6);
        ck_assert_int_eq(ibv_wr_complete(ex[0]), 0);
        run(pair);
        expect_done(ends[0].send_cq, 77, IBV_WC_SEND);
        ck_assert_uint_eq(expect_wc(b->recv_cq, 9, IBV_WC_SUCCESS).invalidated_rkey, first + 6);
    }
    window_read(pair, first + 6, IBV_WC_REM_ACCESS_ERR);
    windows_end(pair, mw);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: invalidating");
    TCase *tcase = new_case(suite, "invalidating");
    tcase_add_loop_test(tcase, invalidates_nothing_else, 0, 2 * WRONG_KEYS);
    tcase_add_loop_test(tcase, closed_by_the_peer, 0, 5);
    tcase_add_test(tcase, closed_once);
    tcase_add_test(tcase, too_long_closes_nothing);
    tcase_add_test(tcase, unreliable);
    tcase_add_test(tcase, extended);
    return run_suite(suite);
}
