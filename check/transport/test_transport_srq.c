/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_srq.c - shared receive queues: receives for several queue pairs, the limit event, destruction. */
#include <errno.h>
#include <string.h>
#include "check/support/endpoints.h"

static struct setup srq_setup(enum ibv_qp_type type)
{
    struct setup setup = setup_default();
    setup.type = type;
    setup.srq_depth = 16;
    return setup;
}

/* Two queue pairs consume receives of one queue, in the order of their messages. */
START_TEST(shared_by_two)
{
    struct setup setup = srq_setup(_i ? IBV_QPT_UC : IBV_QPT_RC);
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], c = *a, d = *b;
    c.qp = qp_new(&c, &setup);
    d.qp = qp_new(&d, &setup);
    qp_connect(&c, c.qp, d.node, d.qp->qp_num, 5, 6, &setup);
    qp_connect(&d, d.qp, c.node, c.qp->qp_num, 6, 5, &setup);
    for (uint64_t i = 0; i < 8; i++)
        post_receive(b, i, i * 4096, 4096);
    for (uint64_t i = 0; i < 8; i++) {
        fill(a->memory, 3000, i);
        post(i % 2 ? &c : a, b, &(struct work){.id = i, .opcode = IBV_WR_SEND, .length = 3000});
        run(pair);
        struct ibv_wc wc = expect_wc(b->recv_cq, i, IBV_WC_SUCCESS);
        ck_assert_uint_eq(wc.qp_num, i % 2 ? d.qp->qp_num : b->qpn);
        ck_assert(filled(b->memory + i * 4096, 3000, i));
    }
    expect_quiet(pair);
    ck_assert_int_eq(soft_destroy_qp(c.qp), 0);
    ck_assert_int_eq(soft_destroy_qp(d.qp), 0);
    pair_free(pair);
}
END_TEST

static enum fate drop_second(void *arg, const struct packet *packet)
{
    (void)arg;
    return packet->number == 1 ? FATE_DROP : FATE_DELIVER;
}

/* The receive of an unreliable connection's lost message is used for the next message. */
START_TEST(lost_message_keeps_its_receive)
{
    struct setup setup = srq_setup(IBV_QPT_UC);
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    network_set_script(pair->network, drop_second, NULL);
    post_receive(b, 20, 0, 4096);
    post(a, b, &(struct work){.opcode = IBV_WR_SEND, .length = 3000});
    post(a, b, &(struct work){.opcode = IBV_WR_SEND, .length = 2000});
    run(pair);
    ck_assert_uint_eq(expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS).byte_len, 2000);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* An empty queue causes an RNR NAK; the message arrives when a receive is posted. */
START_TEST(empty_is_not_ready)
{
    struct setup setup = srq_setup(IBV_QPT_RC);
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 100, .flags = IBV_SEND_SIGNALED});
    while (counters_of(a).rnr_naks_received < 3)
        ck_assert(network_step(pair->network));
    post_receive(b, 20, 0, 100);
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_SEND);
    expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
    pair_free(pair);
}
END_TEST

START_TEST(limit_event_comes_once)
{
    struct setup setup = srq_setup(IBV_QPT_RC);
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_srq_attr attr = {.srq_limit = 3};
    for (uint64_t i = 0; i < 6; i++)
        post_receive(b, i, 0, 100);
    ck_assert_int_eq(soft_modify_srq(b->srq, &attr, IBV_SRQ_LIMIT), 0);
    ck_assert_int_eq(soft_query_srq(b->srq, &attr), 0);
    ck_assert_uint_eq(attr.srq_limit, 3);
    ck_assert_uint_eq(attr.max_wr, 16);
    ck_assert_uint_eq(attr.max_sge, setup.sges);
    for (uint64_t i = 0; i < 6; i++) {
        expect_no_async(b);
        post(a, b, &(struct work){.opcode = IBV_WR_SEND, .length = 100});
        run(pair);
        if (i == 3) /* two receives are left */
            expect_async(b, IBV_EVENT_SRQ_LIMIT_REACHED, b->srq);
    }
    ck_assert_int_eq(soft_query_srq(b->srq, &attr), 0);
    ck_assert_uint_eq(attr.srq_limit, 0); /* the limit must be set again */
    pair_free(pair);
}
END_TEST

/* A queue pair that fails flushes the receive that it consumed, and raises LAST_WQE_REACHED. */
START_TEST(last_receive)
{
    struct setup setup = srq_setup(IBV_QPT_RC);
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    network_set_script(pair->network, drop_second, NULL);
    post_receive(b, 20, 0, 4096);
    post_receive(b, 21, 0, 4096);
    post(a, b, &(struct work){.opcode = IBV_WR_SEND, .length = 4096});
    ck_assert(network_step(pair->network)); /* all packets but one have arrived */
    expect_none(b->recv_cq);
    qp_fail(b->qp);
    expect_wc(b->recv_cq, 20, IBV_WC_WR_FLUSH_ERR);
    expect_none(b->recv_cq);
    expect_async(b, IBV_EVENT_QP_LAST_WQE_REACHED, b->qp);
    expect_no_async(b);
    pair_free(pair);
}
END_TEST

START_TEST(what_is_refused)
{
    struct setup setup = srq_setup(IBV_QPT_RC);
    struct pair *pair = pair_new(&setup);
    struct end *b = &pair->end[1];
    struct ibv_srq_init_attr none = {.attr = {.max_wr = 0}};
    struct ibv_srq_attr attr = {.srq_limit = 17, .max_wr = 4};
    struct ibv_sge sges[64] = {0};
    struct ibv_recv_wr many = {.sg_list = sges, .num_sge = (int)setup.sges + 1}, one = {.wr_id = 1},
                       *bad = NULL;
    ck_assert_ptr_null(soft_create_srq(b->pd, &none));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(soft_destroy_srq(b->srq), EBUSY);
    ck_assert_int_eq(ibv_post_recv(b->qp, &one, &bad), EINVAL);
    ck_assert_ptr_eq(bad, &one);
    bad = NULL;
    ck_assert_int_eq(ibv_post_srq_recv(b->srq, &many, &bad), EINVAL);
    ck_assert_ptr_eq(bad, &many);
    ck_assert_int_eq(soft_modify_srq(b->srq, &attr, IBV_SRQ_LIMIT), EINVAL);
    for (uint64_t i = 0; i < 16; i++)
        post_receive(b, i, 0, 100);
    ck_assert_int_eq(ibv_post_srq_recv(b->srq, &one, &bad), ENOMEM);
    ck_assert_int_eq(soft_modify_srq(b->srq, &attr, IBV_SRQ_MAX_WR), EINVAL); /* more receives are posted */
    pair_free(pair);
}
END_TEST

/* Posted receives are kept, in their order. */
START_TEST(grows)
{
    struct setup setup = srq_setup(IBV_QPT_RC);
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_srq_attr attr = {.max_wr = 100};
    for (uint64_t i = 0; i < 16; i++)
        post_receive(b, i, 0, 100);
    ck_assert_int_eq(soft_modify_srq(b->srq, &attr, IBV_SRQ_MAX_WR), 0);
    for (uint64_t i = 16; i < 100; i++)
        post_receive(b, i, 0, 100);
    for (uint64_t i = 0; i < 100; i++) {
        post(a, b, &(struct work){.opcode = IBV_WR_SEND, .length = 10});
        run(pair);
        expect_wc(b->recv_cq, i, IBV_WC_SUCCESS);
    }
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: shared receive queues");
    TCase *tcase = new_case(suite, "srq");
    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, shared_by_two, 0, 2);
    tcase_add_test(tcase, lost_message_keeps_its_receive);
    tcase_add_test(tcase, empty_is_not_ready);
    tcase_add_test(tcase, limit_event_comes_once);
    tcase_add_test(tcase, last_receive);
    tcase_add_test(tcase, what_is_refused);
    tcase_add_test(tcase, grows);
    return run_suite(suite);
}
