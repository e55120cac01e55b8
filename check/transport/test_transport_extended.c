/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_extended.c - the extended verbs: ibv_wr_ calls, ibv_start_poll(), regions with another base address
 * (iova), and objects that are changed.
 */
#include <errno.h>
#include <string.h>
#include "check/support/endpoints.h"

#define ALL_OPS                                                                                                \
    (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |                          \
     IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |       \
     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static struct ibv_qp_init_attr_ex extended(const struct end *end, enum ibv_qp_type type, uint64_t operations)
{
    return (struct ibv_qp_init_attr_ex){.send_cq = end->send_cq,
                                        .recv_cq = end->recv_cq,
                                        .qp_type = type,
                                        .cap = {.max_send_wr = 8,
                                                .max_recv_wr = 8,
                                                .max_send_sge = 2,
                                                .max_recv_sge = 2,
                                                .max_inline_data = 64},
                                        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                        .pd = end->pd,
                                        .send_ops_flags = operations};
}

/* Replaces the pair's first queue pair by an extended one, connected in the same way. */
static struct ibv_qp_ex *extend(struct pair *pair)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    struct ibv_qp_init_attr_ex attr = extended(a, IBV_QPT_RC, ALL_OPS);
    ck_assert_int_eq(soft_destroy_qp(a->qp), 0);
    a->qp = ibv_create_qp_ex(a->context, &attr);
    ck_assert_ptr_nonnull(a->qp);
    a->qpn = a->qp->qp_num;
    qp_connect(a, a->qp, b->node, b->qpn, a->psn, b->psn, &pair->setup);
    ck_assert_int_eq(soft_modify_qp(b->qp, &reset, IBV_QP_STATE), 0);
    qp_connect(b, b->qp, a->node, a->qpn, b->psn, a->psn, &pair->setup);
    return soft_qp_to_qp_ex(a->qp);
}

static void begin(struct ibv_qp_ex *qp, uint64_t id)
{
    qp->wr_id = id;
    qp->wr_flags = IBV_SEND_SIGNALED;
}

/* One list with every operation, each with another way to give its payload. */
START_TEST(every_operation)
{
    struct setup setup = setup_default();
    setup.mr_access = setup.qp_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_qp_ex *qp = extend(pair);
    ck_assert_ptr_nonnull(qp);
    uintptr_t from = (uintptr_t)a->memory, to = (uintptr_t)b->memory;
    uint32_t lkey = a->mr->lkey, rkey = b->rkey;
    struct ibv_sge halves[] = {{from, 50, lkey}, {from + 50, 50, lkey}};
    struct ibv_data_buf bufs[] = {{a->memory, 10}, {a->memory + 10, 20}};
    uint64_t word = 5;
    fill(a->memory, 100, 1);
    fill(b->memory + 4096, 100, 2);
    memcpy(b->memory + 8192, &word, sizeof word);
    post_receive(b, 20, 1000, 100);
    post_receive(b, 21, 2000, 100);
    post_receive(b, 22, 0, 0);
    ibv_wr_start(qp);
    begin(qp, 1);
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, 2, halves);
    begin(qp, 2);
    ibv_wr_send_imm(qp, 77);
    ibv_wr_set_inline_data_list(qp, 2, bufs);
    begin(qp, 3);
    ibv_wr_rdma_write(qp, rkey, to + 3000);
    ibv_wr_set_inline_data(qp, a->memory, 60);
    begin(qp, 4);
    ibv_wr_rdma_write_imm(qp, rkey, to + 3100, 78);
    ibv_wr_set_sge(qp, lkey, from, 100);
    begin(qp, 5);
    ibv_wr_rdma_read(qp, rkey, to + 4096);
    ibv_wr_set_sge(qp, lkey, from + 5000, 100);
    begin(qp, 6);
    ibv_wr_atomic_fetch_add(qp, rkey, to + 8192, 3);
    ibv_wr_set_sge(qp, lkey, from + 6000, 8);
    begin(qp, 7);
    ibv_wr_atomic_cmp_swp(qp, rkey, to + 8192, 8, 100);
    ibv_wr_set_sge(qp, lkey, from + 6008, 8);
    ck_assert_uint_eq(network_packets(pair->network), 0); /* nothing is sent before ibv_wr_complete() */
    ck_assert_int_eq(ibv_wr_complete(qp), 0);
    run(pair);
    for (uint64_t id = 1; id <= 7; id++)
        expect_wc(a->send_cq, id, IBV_WC_SUCCESS);
    expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
    struct ibv_wc wc = expect_wc(b->recv_cq, 21, IBV_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, 30);
    ck_assert_uint_eq(wc.imm_data, 77);
    ck_assert_uint_eq(expect_wc(b->recv_cq, 22, IBV_WC_SUCCESS).imm_data, 78);
    ck_assert(filled(b->memory + 1000, 100, 1));
    ck_assert_mem_eq(b->memory + 2000, a->memory, 30);
    ck_assert_mem_eq(b->memory + 3000, a->memory, 60);
    ck_assert(filled(b->memory + 3100, 100, 1));
    ck_assert(filled(a->memory + 5000, 100, 2));
    uint64_t found[2];
    memcpy(found, a->memory + 6000, sizeof found);
    memcpy(&word, b->memory + 8192, sizeof word);
    ck_assert_uint_eq(found[0], 5);
    ck_assert_uint_eq(found[1], 8);
    ck_assert_uint_eq(word, 100);
    pair_free(pair);
}
END_TEST

/* If any request of a list is invalid, none is posted. */
START_TEST(all_or_nothing)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_qp_ex *qp = extend(pair);
    struct ibv_sge sges[3] = {0};
    char bytes[65] = {0};
    for (int fault = 0; fault < 5; fault++) {
        ibv_wr_start(qp);
        if (fault == 4) /* a payload without a request */
            ibv_wr_set_sge(qp, 0, 0, 0);
        for (uint64_t i = 0; i < (fault == 0 ? 9 : 2); i++) { /* one more than the queue holds */
            begin(qp, i);
            ibv_wr_rdma_write(qp, b->rkey, (uintptr_t)b->memory);
            ibv_wr_set_sge(qp, a->mr->lkey, (uintptr_t)a->memory, 8);
        }
        if (fault == 1)
            ibv_wr_set_sge_list(qp, 3, sges);
        else if (fault == 2)
            ibv_wr_set_inline_data(qp, bytes, sizeof bytes);
        if (fault == 3)
            ibv_wr_abort(qp);
        else
            ck_assert_int_eq(ibv_wr_complete(qp), fault == 0 ? ENOMEM : EINVAL);
    }
    run(pair);
    expect_quiet(pair);
    ck_assert_uint_eq(network_packets(pair->network), 0);
    ibv_wr_start(qp);
    ck_assert_int_eq(ibv_wr_complete(qp), 0); /* an empty list is valid */
    ibv_wr_start(qp);
    begin(qp, 9);
    ibv_wr_rdma_write(qp, b->rkey, (uintptr_t)b->memory);
    ibv_wr_set_sge(qp, a->mr->lkey, (uintptr_t)a->memory, 8);
    ck_assert_int_eq(ibv_wr_complete(qp), 0);
    run(pair);
    expect_done(a->send_cq, 9, IBV_WC_RDMA_WRITE);
    pair_free(pair);
}
END_TEST

START_TEST(operations_of_each_type)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    struct ibv_qp_init_attr_ex uc = extended(a, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ),
                               ud = extended(a, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE),
                               tso = extended(a, IBV_QPT_RC, IBV_QP_EX_WITH_TSO);
    ck_assert_ptr_null(ibv_create_qp_ex(a->context, &uc));
    ck_assert_int_eq(errno, EOPNOTSUPP);
    ck_assert_ptr_null(ibv_create_qp_ex(a->context, &ud));
    ck_assert_ptr_null(ibv_create_qp_ex(a->context, &tso));
    ck_assert_ptr_null(soft_qp_to_qp_ex(a->qp));
    union ibv_gid gid = {0};
    ck_assert_int_eq(soft_attach_mcast(a->qp, &gid, 0), EINVAL); /* multicast is for UD */
    pair_free(pair);
}
END_TEST

/* ---- Completions ---- */

static struct ibv_cq_ex *make_cq(struct end *end, uint64_t flags)
{
    struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = flags};
    return ibv_create_cq_ex(end->context, &attr);
}

START_TEST(polling_by_pieces)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_poll_cq_attr attr = {0};
    struct ibv_cq_ex *cq = make_cq(b, IBV_WC_STANDARD_FLAGS);
    ck_assert_ptr_nonnull(cq);
    ck_assert_ptr_null(make_cq(b, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP));
    ck_assert_int_eq(errno, EOPNOTSUPP);
    struct ibv_cq *plain = b->recv_cq;
    b->recv_cq = ibv_cq_ex_to_cq(cq);
    pair_renew(pair);
    for (uint64_t i = 0; i < 3; i++) {
        post_receive(b, 20 + i, 0, 100);
        post(a, b, &(struct work){.opcode = IBV_WR_SEND_WITH_IMM, .length = 10 + i, .imm = (uint32_t)i});
    }
    run(pair);
    ck_assert_int_eq(ibv_start_poll(cq, &attr), 0);
    for (uint64_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(cq->wr_id, 20 + i);
        ck_assert_int_eq(cq->status, IBV_WC_SUCCESS);
        ck_assert_int_eq(ibv_wc_read_opcode(cq), IBV_WC_RECV);
        ck_assert_uint_eq(ibv_wc_read_byte_len(cq), 10 + i);
        ck_assert_uint_eq(ibv_wc_read_imm_data(cq), i);
        ck_assert_uint_eq(ibv_wc_read_qp_num(cq), b->qpn);
        ck_assert_uint_eq(ibv_wc_read_src_qp(cq), a->qpn);
        ck_assert_uint_eq(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
        ck_assert_uint_eq(ibv_wc_read_vendor_err(cq), 0);
        ck_assert_int_eq(ibv_next_poll(cq), i < 2 ? 0 : ENOENT);
    }
    ibv_end_poll(cq);
    ck_assert_int_eq(ibv_start_poll(cq, &attr), ENOENT);
    attr.comp_mask = 1;
    ck_assert_int_eq(ibv_start_poll(cq, &attr), EINVAL);
    b->recv_cq = plain;
    pair_renew(pair);
    ck_assert_int_eq(soft_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    pair_free(pair);
}
END_TEST

/* Waiting completions are kept, and the queue has the requested size. */
START_TEST(completion_queue_is_resized)
{
    struct setup setup = setup_default();
    setup.cqe = 4;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct work work = {.opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED};
    uint64_t next = 0;
    for (work.id = 0; work.id < 6; work.id++) { /* so that the ring has wrapped around */
        if (work.id >= 3)
            expect_wc(a->send_cq, next++, IBV_WC_SUCCESS);
        post(a, b, &work);
        run(pair);
    }
    ck_assert_int_eq(soft_resize_cq(a->send_cq, 2), EINVAL); /* three completions wait */
    ck_assert_int_eq(soft_resize_cq(a->send_cq, 0), EINVAL);
    ck_assert_int_eq(soft_resize_cq(a->send_cq, 10), 0);
    ck_assert_int_eq(a->send_cq->cqe, 10);
    for (; work.id < next + 10; work.id++)
        post(a, b, &work);
    run(pair);
    for (int i = 0; i < 10; i++)
        expect_wc(a->send_cq, next++, IBV_WC_SUCCESS);
    expect_none(a->send_cq);
    pair_free(pair);
}
END_TEST

/* ---- Memory ---- */

/* A region with a base address of the program's choice, used by every operation. */
START_TEST(other_addresses)
{
    const uint64_t iova = 0x7000000000001000;
    struct setup setup = setup_default();
    setup.qp_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mr *mr = soft_reg_mr_iova2(b->pd, b->memory, 8192, iova, setup.qp_access);
    ck_assert_ptr_nonnull(mr);
    struct end other = *b;
    other.memory = (uint8_t *)(uintptr_t)iova;
    other.rkey = mr->rkey;
    fill(a->memory, 3000, 1);
    post(a, &other, &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 3000, .target = 96});
    post(a, &other,
         &(struct work){.id = 2, .opcode = IBV_WR_RDMA_READ, .at = 4096, .length = 3000, .target = 96});
    run(pair);
    ck_assert(filled(b->memory + 96, 3000, 1));
    ck_assert(filled(a->memory + 4096, 3000, 1));
    struct ibv_sge sge = {.addr = iova + 4096, .length = 3000, .lkey = mr->lkey};
    struct ibv_recv_wr receive = {.wr_id = 20, .sg_list = &sge, .num_sge = 1}, *bad;
    ck_assert_int_eq(ibv_post_recv(b->qp, &receive, &bad), 0);
    post(a, b, &(struct work){.id = 3, .opcode = IBV_WR_SEND, .length = 3000});
    run(pair);
    expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
    ck_assert(filled(b->memory + 4096, 3000, 1));
    /* Its real addresses are not in the region. */
    other.memory = b->memory;
    post(a, &other, &(struct work){.id = 4, .opcode = IBV_WR_RDMA_WRITE, .length = 10});
    run(pair);
    expect_wc(a->send_cq, 4, IBV_WC_REM_ACCESS_ERR);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    pair_free(pair);
}
END_TEST

START_TEST(region_is_changed)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_pd *pd = soft_alloc_pd(b->context);
    struct ibv_mr *mr = soft_reg_mr(b->pd, b->memory, 4096, ACCESS_ALL);
    struct end target = *b;
    ck_assert_int_eq(soft_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b->memory + 8192, 4096, 0), 0);
    ck_assert_ptr_eq(mr->addr, b->memory + 8192);
    target.rkey = mr->rkey;
    post(a, &target,
         &(struct work){
             .id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .target = 8192, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    /* An invalid change has no effect. */
    ck_assert_int_eq(soft_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b->memory, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    ck_assert_int_eq(soft_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
                     IBV_REREG_MR_ERR_CMD);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(soft_rereg_mr(mr, 1 << 7, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
    ck_assert_int_eq(soft_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
    ck_assert_int_eq(soft_dealloc_pd(pd), EBUSY);
    post(a, &target, &(struct work){.id = 2, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .target = 8192});
    run(pair);
    expect_wc(a->send_cq, 2, IBV_WC_REM_ACCESS_ERR); /* the region is now in another protection domain */
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    ck_assert_int_eq(soft_dealloc_pd(pd), 0);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: extended verbs");
    TCase *tcase = new_case(suite, "extended");
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, every_operation);
    tcase_add_test(tcase, all_or_nothing);
    tcase_add_test(tcase, operations_of_each_type);
    tcase_add_test(tcase, polling_by_pieces);
    tcase_add_test(tcase, completion_queue_is_resized);
    tcase_add_test(tcase, other_addresses);
    tcase_add_test(tcase, region_is_changed);
    return run_suite(suite);
}
