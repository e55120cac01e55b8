/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_states.c - what queue pairs accept and refuse in each state, flushing, and the objects around them. */
#include <errno.h>
#include <string.h>
#include "check/support/endpoints.h"

static const enum ibv_wr_opcode operations[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                                IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};
#define OPERATIONS (sizeof operations / sizeof *operations)

START_TEST(full_queues_refuse)
{
    struct setup setup = setup_default();
    setup.send_depth = setup.recv_depth = 10;
    setup.timeout = 0;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    ck_assert_uint_ge(a->cap.max_send_wr, 10);
    ck_assert_uint_ge(a->cap.max_recv_wr, 10);
    for (uint64_t i = 0; i < a->cap.max_send_wr; i++)
        post(a, b,
             &(struct work){.id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED});
    ck_assert_int_eq(post_try(a, b, &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = 8}), ENOMEM);
    for (uint64_t i = 0; i < a->cap.max_recv_wr; i++)
        post_receive(a, i, 0, 8);
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
    ck_assert_int_eq(ibv_post_recv(a->qp, &wr, &bad), ENOMEM);
    ck_assert_ptr_eq(bad, &wr);
    run(pair);
    for (uint64_t i = 0; i < a->cap.max_send_wr; i++)
        expect_done(a->send_cq, i, IBV_WC_RDMA_WRITE);
    post(a, b, &(struct work){.id = 99, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 99, IBV_WC_RDMA_WRITE);
    pair_free(pair);
}
END_TEST

START_TEST(error_state_flushes)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (uint64_t i = 0; i < 5; i++)
        post_receive(a, 100 + i, 0, 8);
    for (uint64_t i = 0; i < 5; i++) /* unsignaled requests are flushed with a completion, too */
        post(a, b, &(struct work){.id = i, .opcode = operations[i], .length = 5000});
    qp_fail(a->qp);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    for (uint64_t i = 0; i < 5; i++) {
        expect_wc(a->send_cq, i, IBV_WC_WR_FLUSH_ERR);
        expect_wc(a->recv_cq, 100 + i, IBV_WC_WR_FLUSH_ERR);
    }
    post(a, b, &(struct work){.id = 50, .opcode = IBV_WR_RDMA_WRITE, .length = 8});
    post_receive(a, 51, 0, 8);
    expect_wc(a->send_cq, 50, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->recv_cq, 51, IBV_WC_WR_FLUSH_ERR);
    unsigned sent = count_packets(pair->network, 0, ROCE_NO_OPCODE);
    run(pair);
    ck_assert_uint_eq(count_packets(pair->network, 0, ROCE_NO_OPCODE), sent); /* nothing is sent any more */
    expect_none(a->send_cq);
    expect_none(a->recv_cq);
    pair_free(pair);
}
END_TEST

START_TEST(posting_before_its_time)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct work work = {.opcode = IBV_WR_RDMA_WRITE, .length = 8};
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad;
    struct end spare = *a;
    spare.qp = qp_new(&spare, &setup);
    ck_assert_int_eq(qp_state(spare.qp), IBV_QPS_RESET);
    ck_assert_int_eq(post_try(&spare, b, &work), EINVAL);
    ck_assert_int_eq(ibv_post_recv(spare.qp, &receive, &bad), EINVAL);
    ck_assert_int_eq(qp_init(spare.qp, ACCESS_ALL), 0);
    ck_assert_int_eq(qp_state(spare.qp), IBV_QPS_INIT);
    ck_assert_int_eq(post_try(&spare, b, &work), EINVAL);
    ck_assert_int_eq(ibv_post_recv(spare.qp, &receive, &bad), 0);
    ck_assert_int_eq(qp_ready_to_receive(&spare, spare.qp, b->node, b->qpn, 0, &setup), 0);
    ck_assert_int_eq(qp_state(spare.qp), IBV_QPS_RTR);
    ck_assert_int_eq(post_try(&spare, b, &work), EINVAL);
    ck_assert_int_eq(qp_ready_to_send(spare.qp, 0, &setup), 0);
    ck_assert_int_eq(qp_state(spare.qp), IBV_QPS_RTS);
    ck_assert_int_eq(soft_destroy_qp(spare.qp), 0);
    run(pair);
    expect_quiet(pair); /* destroying a queue pair causes no completions */
    ck_assert_uint_eq(network_packets(pair->network), 0);
    pair_free(pair);
}
END_TEST

static int modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
    return soft_modify_qp(qp, &attr, mask);
}

START_TEST(wrong_transitions_are_refused)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end spare = pair->end[0];
    spare.qp = qp_new(&spare, &setup);
    ck_assert_int_eq(qp_ready_to_send(spare.qp, 0, &setup), EINVAL); /* RESET -> RTS */
    ck_assert_int_eq(qp_ready_to_receive(&spare, spare.qp, 1, pair->end[1].qpn, 0, &setup), EINVAL);
    /* RESET -> INIT without the required attributes. */
    ck_assert_int_eq(
        modify(spare.qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1}, IBV_QP_STATE), EINVAL);
    ck_assert_int_eq(qp_init(spare.qp, ACCESS_ALL), 0);
    ck_assert_int_eq(qp_ready_to_send(spare.qp, 0, &setup), EINVAL); /* INIT -> RTS */
    ck_assert_int_eq(modify(spare.qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR}, IBV_QP_STATE), EINVAL);
    ck_assert_int_eq(qp_state(spare.qp), IBV_QPS_INIT);
    ck_assert_int_eq(qp_ready_to_receive(&spare, spare.qp, 1, pair->end[1].qpn, 0, &setup), 0);
    ck_assert_int_eq(modify(spare.qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_STATE), EINVAL);
    ck_assert_int_eq(qp_ready_to_send(spare.qp, 0, &setup), 0);
    ck_assert_int_eq(qp_init(spare.qp, ACCESS_ALL), EINVAL); /* RTS -> INIT */
    ck_assert_int_eq(qp_state(spare.qp), IBV_QPS_RTS);
    ck_assert_int_eq(soft_destroy_qp(spare.qp), 0);
    pair_free(pair);
}
END_TEST

START_TEST(reset_makes_it_new)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    for (int i = 0; i < 2; i++) {
        struct end *end = &pair->end[i];
        post_receive(end, 1, 0, 8);
        post(end, &pair->end[!i], &(struct work){.opcode = IBV_WR_RDMA_READ, .length = 20000});
        ck_assert_int_eq(modify(end->qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE), 0);
        ck_assert_int_eq(qp_state(end->qp), IBV_QPS_RESET);
    }
    network_drain(pair->network);
    run(pair);
    for (int i = 0; i < 2; i++) {
        struct end *end = &pair->end[i], *other = &pair->end[!i];
        qp_connect(end, end->qp, other->node, other->qpn, end->psn + 5, other->psn + 5, &setup);
    }
    for (size_t op = 0; op < OPERATIONS; op++) {
        post_receive(&pair->end[1], op, 0, 5000);
        post(&pair->end[0], &pair->end[1],
             &(struct work){.id = op, .opcode = operations[op], .length = 5000, .flags = IBV_SEND_SIGNALED});
        run(pair);
        expect_wc(pair->end[0].send_cq, op, IBV_WC_SUCCESS);
    }
    ck_assert_uint_eq(expect_wc(pair->end[1].recv_cq, 0, IBV_WC_SUCCESS).byte_len, 5000);
    pair_free(pair);
}
END_TEST

START_TEST(query_tells_what_was_set)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    ck_assert_int_eq(soft_query_qp(pair->end[0].qp, &attr, 0x1fffff, &init), 0);
    ck_assert_int_eq(attr.qp_state, IBV_QPS_RTS);
    ck_assert_int_eq(attr.path_mtu, setup.mtu);
    ck_assert_uint_eq(attr.dest_qp_num, pair->end[1].qpn);
    ck_assert_uint_eq(attr.timeout, setup.timeout);
    ck_assert_uint_eq(attr.retry_cnt, setup.retry_cnt);
    ck_assert_uint_eq(attr.rnr_retry, setup.rnr_retry);
    ck_assert_uint_eq(attr.min_rnr_timer, setup.min_rnr_timer);
    ck_assert_uint_eq(attr.max_rd_atomic, setup.max_rd_atomic);
    ck_assert_uint_eq(attr.max_dest_rd_atomic, setup.max_rd_atomic);
    ck_assert_uint_eq(attr.qp_access_flags & ACCESS_ALL, setup.qp_access);
    ck_assert_ptr_eq(init.send_cq, pair->end[0].send_cq);
    ck_assert_ptr_eq(init.recv_cq, pair->end[0].recv_cq);
    ck_assert_int_eq(init.qp_type, IBV_QPT_RC);
    pair_free(pair);
}
END_TEST

/* Objects in use can't be destroyed. */
START_TEST(objects_in_use_are_busy)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    ck_assert_int_eq(soft_dealloc_pd(a->pd), EBUSY);
    ck_assert_int_eq(soft_destroy_cq(a->send_cq), EBUSY);
    ck_assert_int_eq(soft_destroy_comp_channel(a->channel), EBUSY);
    ck_assert_int_eq(soft_close(a->context), EBUSY);
    pair_free(pair);
}
END_TEST

START_TEST(device_and_port_tell_their_limits)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    ck_assert_int_eq(soft_query_device(pair->end[0].context, &device), 0);
    ck_assert_int_eq(soft_query_port(pair->end[0].context, 1, &port), 0);
    ck_assert_int_gt(device.max_qp, 1000);
    ck_assert_int_gt(device.max_cq, 1000);
    ck_assert_int_ge(device.max_sge, (int)setup.sges);
    ck_assert_int_ge(device.phys_port_cnt, 1);
    ck_assert_int_eq(port.state, IBV_PORT_ACTIVE);
    ck_assert_int_eq(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    ck_assert_int_eq(port.max_mtu, IBV_MTU_4096);
    ck_assert_uint_ge(port.max_msg_sz, 1 << 30);
    ck_assert_int_ne(soft_query_port(pair->end[0].context, 99, &port), 0);
    pair_free(pair);
}
END_TEST

START_TEST(unknown_types_are_refused)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    struct ibv_qp_init_attr attr = {.send_cq = a->send_cq,
                                    .recv_cq = a->recv_cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 1u << 31, .max_recv_wr = 1, .max_send_sge = 1}};
    errno = 0;
    ck_assert_ptr_null(soft_create_qp(a->pd, &attr));
    ck_assert_int_ne(errno, 0);
    attr.cap.max_send_wr = 1;
    attr.qp_type = IBV_QPT_RAW_PACKET;
    ck_assert_ptr_null(soft_create_qp(a->pd, &attr));
    ck_assert_int_eq(errno, EOPNOTSUPP);
    attr.qp_type = (enum ibv_qp_type)99;
    ck_assert_ptr_null(soft_create_qp(a->pd, &attr));
    ck_assert_int_eq(errno, EINVAL);
    errno = 0;
    ck_assert_ptr_null(soft_create_cq(a->context, 0, NULL, NULL, 0));
    ck_assert_int_eq(errno, EINVAL);
    /* A region that peers may write must be writable locally. */
    errno = 0;
    ck_assert_ptr_null(soft_reg_mr(a->pd, a->memory, 100, IBV_ACCESS_REMOTE_WRITE));
    ck_assert_int_eq(errno, EINVAL);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: states");
    TCase *tcase = new_case(suite, "states");
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, full_queues_refuse);
    tcase_add_test(tcase, error_state_flushes);
    tcase_add_test(tcase, posting_before_its_time);
    tcase_add_test(tcase, wrong_transitions_are_refused);
    tcase_add_test(tcase, reset_makes_it_new);
    tcase_add_test(tcase, query_tells_what_was_set);
    tcase_add_test(tcase, objects_in_use_are_busy);
    tcase_add_test(tcase, device_and_port_tell_their_limits);
    tcase_add_test(tcase, unknown_types_are_refused);
    return run_suite(suite);
}
