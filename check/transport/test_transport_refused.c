/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_refused.c - extended objects with invalid attributes: objects of another context, unknown bits,
 * numbers that are too large; and XRC domains, which are named by files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "check/support/endpoints.h"
#include "soft/engine/engine.h"

#define UNKNOWN (UINT32_C(1) << 30) /* a bit that no mask has */

#define REFUSED(call, error)                                                                                   \
    do {                                                                                                       \
        errno = 0;                                                                                             \
        expect((call) == NULL && errno == (error), "%s: %s, want %s", #call, strerror(errno),                  \
               strerror(error));                                                                               \
    } while (0)

static struct setup setup;
static struct pair *pair;
static struct end *a, *b;
static struct ibv_xrcd *xrcd, *other_xrcd;

static struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int how)
{
    struct ibv_xrcd_init_attr attr = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = how};

    return soft_open_xrcd(context, &attr);
}

static void begin(void)
{
    setup = setup_default();
    pair = pair_new(&setup);
    a = &pair->end[0];
    b = &pair->end[1];
    xrcd = open_domain(a->context, -1, O_CREAT);
    other_xrcd = open_domain(b->context, -1, O_CREAT);
    ck_assert(xrcd != NULL && other_xrcd != NULL);
}

static void end(void)
{
    ck_assert_int_eq(soft_close_xrcd(xrcd), 0);
    ck_assert_int_eq(soft_close_xrcd(other_xrcd), 0);
    pair_free(pair);
}

/* ---- Queue pairs ---- */

static struct ibv_qp_init_attr_ex qp_attr(void)
{
    return (struct ibv_qp_init_attr_ex){
        .send_cq = a->send_cq,
        .recv_cq = a->recv_cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 2, .max_recv_sge = 2},
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = a->pd};
}

#define QP_REFUSED(error, ...)                                                                                 \
    do {                                                                                                       \
        struct ibv_qp_init_attr_ex attr = qp_attr();                                                           \
        __VA_ARGS__;                                                                                           \
        REFUSED(soft_create_qp_ex(a->context, &attr), error);                                                  \
    } while (0)

START_TEST(queue_pairs)
{
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1, .max_sge = 1}};

    begin();
    QP_REFUSED(EOPNOTSUPP, attr.comp_mask |= UNKNOWN);
    QP_REFUSED(EOPNOTSUPP, (attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS, attr.create_flags = 1));
    QP_REFUSED(EINVAL, attr.comp_mask = 0);
    QP_REFUSED(EINVAL, attr.pd = NULL);
    QP_REFUSED(EINVAL, attr.pd = b->pd);
    QP_REFUSED(EINVAL, attr.send_cq = NULL);
    QP_REFUSED(EINVAL, attr.send_cq = b->send_cq);
    QP_REFUSED(EINVAL, attr.recv_cq = NULL);
    QP_REFUSED(EINVAL, attr.recv_cq = b->recv_cq);
    QP_REFUSED(EINVAL, attr.cap.max_send_wr = SOFT_MAX_WR + 1);
    QP_REFUSED(EINVAL, attr.cap.max_recv_wr = SOFT_MAX_WR + 1);
    QP_REFUSED(EINVAL, attr.cap.max_send_sge = SOFT_MAX_SGE + 1);
    QP_REFUSED(EINVAL, attr.cap.max_recv_sge = SOFT_MAX_SGE + 1);
    QP_REFUSED(EINVAL, attr.cap.max_inline_data = SOFT_MAX_INLINE + 1);
    QP_REFUSED(EINVAL, attr.qp_type = (enum ibv_qp_type)77);
    QP_REFUSED(EOPNOTSUPP, attr.qp_type = IBV_QPT_RAW_PACKET);
    b->srq = soft_create_srq(b->pd, &srq);
    QP_REFUSED(EINVAL, attr.srq = b->srq);
    struct ibv_qp_init_attr_ex attr = qp_attr(); /* flags, all of them zero */

    attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    struct ibv_qp *qp = soft_create_qp_ex(a->context, &attr);

    ck_assert_ptr_nonnull(qp);
    ck_assert_ptr_null(soft_qp_to_qp_ex(qp));
    ck_assert_int_eq(soft_destroy_qp(qp), 0);
    end();
}
END_TEST

/* The receiving end of an XRC connection has a domain instead of the other objects. */
START_TEST(receiving_ends)
{
    const uint32_t has = IBV_QP_INIT_ATTR_XRCD;

    begin();
    QP_REFUSED(EOPNOTSUPP, (attr.qp_type = IBV_QPT_XRC_RECV, attr.comp_mask = has | IBV_QP_INIT_ATTR_PD));
    QP_REFUSED(EOPNOTSUPP, (attr.qp_type = IBV_QPT_XRC_RECV, attr.xrcd = xrcd,
                            attr.comp_mask = has | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                            attr.send_ops_flags = IBV_QP_EX_WITH_SEND));
    QP_REFUSED(EINVAL, (attr.qp_type = IBV_QPT_XRC_RECV, attr.comp_mask = 0));
    QP_REFUSED(EINVAL, (attr.qp_type = IBV_QPT_XRC_RECV, attr.comp_mask = has));
    QP_REFUSED(EINVAL, (attr.qp_type = IBV_QPT_XRC_RECV, attr.comp_mask = has, attr.xrcd = other_xrcd));
    QP_REFUSED(EOPNOTSUPP, (attr.comp_mask |= has, attr.xrcd = xrcd));
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_XRC_RECV, .comp_mask = has | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .xrcd = xrcd};
    struct ibv_qp *qp = soft_create_qp_ex(a->context, &attr);

    ck_assert_ptr_nonnull(qp);
    ck_assert_int_eq(soft_close_xrcd(xrcd), EBUSY);
    ck_assert_int_eq(soft_destroy_qp(qp), 0);
    end();
}
END_TEST

/* ---- Shared receive queues ---- */

static struct ibv_srq_init_attr_ex srq_attr(void)
{
    return (struct ibv_srq_init_attr_ex){.attr = {.max_wr = 4, .max_sge = 1},
                                         .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                      IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
                                         .srq_type = IBV_SRQT_XRC,
                                         .pd = a->pd,
                                         .xrcd = xrcd,
                                         .cq = a->recv_cq};
}

#define SRQ_REFUSED(error, ...)                                                                                \
    do {                                                                                                       \
        struct ibv_srq_init_attr_ex attr = srq_attr();                                                         \
        __VA_ARGS__;                                                                                           \
        REFUSED(soft_create_srq_ex(a->context, &attr), error);                                                 \
    } while (0)

START_TEST(shared_queues)
{
    begin();
    SRQ_REFUSED(EINVAL, attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_PD);
    SRQ_REFUSED(EINVAL, attr.pd = NULL);
    SRQ_REFUSED(EINVAL, attr.pd = b->pd);
    SRQ_REFUSED(EOPNOTSUPP, attr.srq_type = IBV_SRQT_TM);
    SRQ_REFUSED(EINVAL, attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_XRCD);
    SRQ_REFUSED(EINVAL, attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ);
    SRQ_REFUSED(EINVAL, attr.xrcd = NULL);
    SRQ_REFUSED(EINVAL, attr.xrcd = other_xrcd);
    SRQ_REFUSED(EINVAL, attr.cq = NULL);
    SRQ_REFUSED(EINVAL, attr.cq = b->recv_cq);
    SRQ_REFUSED(EINVAL, attr.attr.max_wr = 0);
    SRQ_REFUSED(EINVAL, attr.attr.max_wr = SOFT_MAX_WR + 1);
    SRQ_REFUSED(EINVAL, attr.attr.max_sge = SOFT_MAX_SGE + 1);
    end();
}
END_TEST

/* A shared receive queue without a type is an ordinary one, which has no number; and an invalid change has no
 * effect. */
START_TEST(an_ordinary_one)
{
    struct ibv_srq_init_attr_ex init;
    struct ibv_srq_attr attr = {.max_wr = SOFT_MAX_WR + 1}, was, is;
    struct ibv_recv_wr negative = {.num_sge = -1}, *bad = NULL;
    uint32_t number = 5;

    begin();
    init = srq_attr();
    init.comp_mask = IBV_SRQ_INIT_ATTR_PD;
    struct ibv_srq *srq = soft_create_srq_ex(a->context, &init);

    ck_assert_ptr_nonnull(srq);
    ck_assert_int_eq(soft_get_srq_num(srq, &number), EOPNOTSUPP);
    ck_assert_uint_eq(number, 5);
    ck_assert_int_eq(soft_query_srq(srq, &was), 0);
    ck_assert_int_eq(soft_modify_srq(srq, &attr, 1 << 7), EINVAL);
    ck_assert_int_eq(soft_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
    attr.max_wr = 0;
    ck_assert_int_eq(soft_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
    ck_assert_int_eq(ibv_post_srq_recv(srq, &negative, &bad), EINVAL);
    ck_assert_ptr_eq(bad, &negative);
    ck_assert_int_eq(soft_query_srq(srq, &is), 0);
    ck_assert_uint_eq(is.max_wr, was.max_wr);
    ck_assert_uint_eq(is.max_sge, was.max_sge);
    ck_assert_int_eq(soft_destroy_srq(srq), 0);
    end();
}
END_TEST

/* ---- Completion queues ---- */

#define CQ_REFUSED(error, ...)                                                                                 \
    do {                                                                                                       \
        struct ibv_cq_init_attr_ex attr = {.cqe = 4, __VA_ARGS__};                                             \
        REFUSED(soft_create_cq_ex(a->context, &attr), error);                                                  \
    } while (0)

START_TEST(completion_queues)
{
    begin();
    CQ_REFUSED(EOPNOTSUPP, .comp_mask = UNKNOWN);
    CQ_REFUSED(EOPNOTSUPP, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
               .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
    CQ_REFUSED(EOPNOTSUPP, .wc_flags = IBV_WC_EX_WITH_CVLAN);
    CQ_REFUSED(EINVAL, .comp_vector = UINT32_MAX);
    CQ_REFUSED(EINVAL, .comp_vector = (uint32_t)a->context->num_comp_vectors);
    CQ_REFUSED(EINVAL, .channel = b->channel);
    struct ibv_cq_init_attr_ex attr = {.cqe = SOFT_MAX_CQE + 1};

    REFUSED(soft_create_cq_ex(a->context, &attr), EINVAL);
    attr.cqe = 0;
    REFUSED(soft_create_cq_ex(a->context, &attr), EINVAL);
    REFUSED(soft_create_cq(a->context, 4, NULL, NULL, -1), EINVAL);
    attr = (struct ibv_cq_init_attr_ex){
        .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED};
    struct ibv_cq_ex *cq = soft_create_cq_ex(a->context, &attr);

    ck_assert_ptr_nonnull(cq);
    ck_assert_int_eq(soft_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    end();
}
END_TEST

/* ---- XRC domains ---- */

/* Opening the same file again returns the same domain, which exists until it was closed as often as it was opened. */
START_TEST(domains)
{
    struct ibv_xrcd_init_attr odd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1, .oflags = O_CREAT};
    FILE *one = tmpfile(), *two = tmpfile();

    begin();
    ck_assert(one != NULL && two != NULL);
    REFUSED(soft_open_xrcd(a->context, &odd), EINVAL);
    REFUSED(open_domain(a->context, -1, O_CREAT | O_TRUNC), EINVAL);
    REFUSED(open_domain(a->context, -1, 0), EINVAL); /* without a file no other process could open it */
    REFUSED(open_domain(a->context, 1 << 20, O_CREAT), EBADF);
    REFUSED(open_domain(a->context, fileno(one), 0), EAGAIN);
    struct ibv_xrcd *first = open_domain(a->context, fileno(one), O_CREAT | O_EXCL);
    struct ibv_xrcd *same = open_domain(a->context, fileno(one), 0);
    struct ibv_xrcd *another = open_domain(a->context, fileno(two), O_CREAT);

    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_eq(same, first);
    ck_assert_ptr_eq(open_domain(a->context, fileno(one), O_CREAT), first);
    ck_assert_ptr_nonnull(another);
    ck_assert_ptr_ne(another, first);
    REFUSED(open_domain(a->context, fileno(one), O_CREAT | O_EXCL), EINVAL);
    struct ibv_srq_init_attr_ex init = srq_attr();

    init.xrcd = first;
    struct ibv_srq *srq = soft_create_srq_ex(a->context, &init);

    ck_assert_ptr_nonnull(srq);
    ck_assert_int_eq(soft_close_xrcd(first), 0);
    ck_assert_int_eq(soft_close_xrcd(first), 0);
    ck_assert_int_eq(soft_close_xrcd(first), EBUSY);
    ck_assert_int_eq(soft_destroy_srq(srq), 0);
    ck_assert_int_eq(soft_close_xrcd(first), 0);
    REFUSED(open_domain(a->context, fileno(one), 0), EAGAIN);
    ck_assert_int_eq(soft_close_xrcd(another), 0);
    fclose(one);
    fclose(two);
    end();
}
END_TEST

/* ---- Building requests with ibv_wr_ calls ---- */

/* A call that belongs to a request, without a request: nothing of the list is posted. */
START_TEST(pieces_of_no_request)
{
    begin();
    struct ibv_qp_init_attr_ex attr = qp_attr();

    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
    struct ibv_qp *plain = soft_create_qp_ex(a->context, &attr);
    struct ibv_qp_ex *qp = soft_qp_to_qp_ex(plain);

    ck_assert_ptr_nonnull(qp);
    for (int piece = 0; piece < 5; piece++) {
        ibv_wr_start(qp);
        if (piece == 0)
            ibv_wr_set_ud_addr(qp, NULL, 1, 2);
        else if (piece == 1)
            ibv_wr_set_xrc_srqn(qp, 1);
        else if (piece == 2)
            ibv_wr_set_inline_data_list(qp, 0, NULL);
        else if (piece == 3)
            ibv_wr_set_sge_list(qp, 0, NULL);
        for (uint64_t i = 0; i < (piece == 4 ? 5 : 1); i++) { /* three more than the queue holds */
            qp->wr_id = i;
            ibv_wr_send(qp);
        }
        ck_assert_int_eq(ibv_wr_complete(qp), piece == 4 ? ENOMEM : EINVAL);
    }
    ck_assert_int_eq(soft_destroy_qp(plain), 0);
    run(pair);
    expect_quiet(pair);
    ck_assert_uint_eq(network_packets(pair->network), 0);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: what is refused");
    TCase *tcase = new_case(suite, "refused");

    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, queue_pairs);
    tcase_add_test(tcase, receiving_ends);
    tcase_add_test(tcase, shared_queues);
    tcase_add_test(tcase, an_ordinary_one);
    tcase_add_test(tcase, completion_queues);
    tcase_add_test(tcase, domains);
    tcase_add_test(tcase, pieces_of_no_request);
    return run_suite(suite);
}
