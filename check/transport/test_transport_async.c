/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_async.c - asynchronous events, and draining a send queue (SQD). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include "check/support/endpoints.h"

/* Errors that the responder learns of only by an event, because it has no completion for them. */
START_TEST(refused_requests)
{
    struct setup setup = setup_default();
    if (_i == 1)
        setup.qp_access = IBV_ACCESS_LOCAL_WRITE;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], wrong = *b;
    wrong.rkey ^= _i ? 0 : 1;
    post(a, &wrong, &(struct work){.id = 1, .opcode = IBV_WR_RDMA_READ, .length = 100});
    run(pair);
    expect_wc(a->send_cq, 1, _i ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
    expect_async(b, _i ? IBV_EVENT_QP_REQ_ERR : IBV_EVENT_QP_ACCESS_ERR, b->qp);
    expect_no_async(b);
    expect_no_async(a);
    pair_free(pair);
}
END_TEST

/* If a receive of the message completes with the error, there is no event in addition. */
START_TEST(completions_are_no_events)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post_receive(b, 20, 0, 99);
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 100});
    run(pair);
    expect_wc(a->send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
    expect_wc(b->recv_cq, 20, IBV_WC_LOC_LEN_ERR);
    expect_no_async(a);
    expect_no_async(b);
    pair_free(pair);
}
END_TEST

START_TEST(overrun)
{
    struct setup setup = setup_default();
    setup.cqe = 3;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (uint64_t i = 0; i < 4; i++)
        post(a, b,
             &(struct work){.id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_async(a, IBV_EVENT_CQ_ERR, a->send_cq);
    expect_async(a, IBV_EVENT_QP_FATAL, a->qp);
    expect_no_async(a);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    pair_free(pair);
}
END_TEST

/* The first packet raises COMM_EST on a passive end in RTR; later ones do not. */
START_TEST(communication_established)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    ck_assert_int_eq(soft_modify_qp(b->qp, &attr, IBV_QP_STATE), 0);
    ck_assert_int_eq(qp_init(b->qp, ACCESS_ALL), 0);
    ck_assert_int_eq(qp_ready_to_receive(b, b->qp, a->node, a->qpn, a->psn, &setup), 0);
    expect_no_async(b);
    for (int i = 0; i < 2; i++)
        post(a, b, &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = 8});
    run(pair);
    expect_async(b, IBV_EVENT_COMM_EST, b->qp);
    expect_no_async(b);
    pair_free(pair);
}
END_TEST

/* Destroying an object removes its events. */
START_TEST(destroyed_with_events)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], wrong = *b;
    wrong.rkey ^= 1;
    post(a, &wrong, &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 100});
    run(pair);
    pair_renew(pair);
    expect_no_async(b);
    pair_free(pair);
}
END_TEST

static void *destroy(void *qp)
{
    return (void *)(intptr_t)soft_destroy_qp(qp);
}

/* Destroying a queue pair waits until a fetched event has been acknowledged. */
START_TEST(destroying_waits)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], spare = *b, wrong = *b;
    struct ibv_async_event event;
    pthread_t thread;
    void *result;
    spare.qp = qp_new(&spare, &setup);
    wrong.rkey ^= 1;
    qp_connect(&spare, spare.qp, a->node, a->qpn, 1, a->psn, &setup);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    ck_assert_int_eq(soft_modify_qp(a->qp, &attr, IBV_QP_STATE), 0);
    qp_connect(a, a->qp, b->node, spare.qp->qp_num, a->psn, 1, &setup);
    post(a, &wrong, &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 100});
    run(pair);
    ck_assert_int_eq(soft_get_async_event(b->context, &event), 0);
    ck_assert_ptr_eq(event.element.qp, spare.qp);
    ck_assert_int_eq(pthread_create(&thread, NULL, destroy, spare.qp), 0);
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += (limit.tv_nsec += 50000000) / 1000000000;
    limit.tv_nsec %= 1000000000;
    ck_assert_int_eq(pthread_timedjoin_np(thread, &result, &limit), ETIMEDOUT);
    soft_ack_async_event(&event);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_null(result);
    pair_free(pair);
}
END_TEST

START_TEST(nonblocking)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    struct ibv_async_event event;
    int flags = fcntl(a->context->async_fd, F_GETFL);
    ck_assert_int_eq(flags & O_NONBLOCK, 0); /* blocking, as in rdma-core */
    ck_assert_int_eq(fcntl(a->context->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
    errno = 0;
    ck_assert_int_eq(soft_get_async_event(a->context, &event), -1);
    ck_assert_int_eq(errno, EAGAIN);
    pair_free(pair);
}
END_TEST

/* ---- Draining ---- */

static int drain(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    return soft_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

static int resume(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    return soft_modify_qp(qp, &attr, IBV_QP_STATE);
}

static bool draining(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    ck_assert_int_eq(soft_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    ck_assert_int_eq(attr.qp_state, IBV_QPS_SQD);
    return attr.sq_draining;
}

/* Requests that were sent are completed, in spite of losses; the others wait. */
START_TEST(drained)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (uint64_t i = 0; i < 4; i++)
        post(a, b,
             &(struct work){.id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 60000, .flags = IBV_SEND_SIGNALED});
    ck_assert_int_eq(drain(a->qp), 0);
    ck_assert(draining(a->qp));
    expect_no_async(a);
    network_drain(pair->network); /* all of them are lost once */
    run(pair);
    expect_async(a, IBV_EVENT_SQ_DRAINED, a->qp);
    ck_assert(!draining(a->qp));
    struct ibv_wc wc[4];
    int done = ibv_poll_cq(a->send_cq, 4, wc);
    ck_assert_int_ge(done, 1);
    ck_assert_int_lt(done, 4); /* the window holds fewer */
    post(a, b, &(struct work){.id = 4, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_none(a->send_cq);
    ck_assert_int_eq(resume(a->qp), 0);
    run(pair);
    for (uint64_t i = (uint64_t)done; i <= 4; i++)
        expect_done(a->send_cq, i, IBV_WC_RDMA_WRITE);
    expect_no_async(a);
    pair_free(pair);
}
END_TEST

START_TEST(nothing_to_drain)
{
    struct setup setup = setup_default();
    setup.type = _i ? IBV_QPT_UC : IBV_QPT_RC;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    ck_assert_int_eq(drain(a->qp), 0);
    expect_async(a, IBV_EVENT_SQ_DRAINED, a->qp);
    post_receive(a, 10, 0, 100);
    post(b, a, &(struct work){.opcode = IBV_WR_SEND, .length = 100}); /* a drained queue pair still receives */
    run(pair);
    expect_wc(a->recv_cq, 10, IBV_WC_SUCCESS);
    ck_assert_int_eq(resume(a->qp), 0);
    expect_no_async(a);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: asynchronous events");
    TCase *tcase = new_case(suite, "events");
    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, refused_requests, 0, 2);
    tcase_add_test(tcase, completions_are_no_events);
    tcase_add_test(tcase, overrun);
    tcase_add_test(tcase, communication_established);
    tcase_add_test(tcase, destroyed_with_events);
    tcase_add_test(tcase, destroying_waits);
    tcase_add_test(tcase, nonblocking);
    tcase_add_test(tcase, drained);
    tcase_add_loop_test(tcase, nothing_to_drain, 0, 2);
    return run_suite(suite);
}
