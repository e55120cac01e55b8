/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_id_queues.c - the queues of an rdma_cm_id: completion queues that are created for it, and a shared receive
 * queue, ordinary or of an extended connection (XRC); and which attributes are refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "check/support/endpoints.h"
#include "soft/cm/cm.h"

#define REFUSED(call)                                                                                          \
    do {                                                                                                       \
        errno = 0;                                                                                             \
        expect((call) == -1 && errno == EINVAL, "%s: %s", #call, strerror(errno));                             \
    } while (0)

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct pair *pair; /* its contexts are not those of the identifiers */

static struct rdma_cm_id *new_id(enum ibv_qp_type type, bool bound)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_cm_id *made;

    ck_assert_int_eq(soft_create_id(channel, &made, NULL, RDMA_PS_TCP), 0);
    made->qp_type = type;
    if (bound)
        ck_assert_int_eq(soft_bind_addr(made, (struct sockaddr *)&here), 0);
    return made;
}

static void begin(enum ibv_qp_type type)
{
    struct setup setup = setup_default();

    pair = pair_new(&setup);
    soft_share_context();
    channel = soft_create_event_channel();
    ck_assert_ptr_nonnull(channel);
    id = new_id(type, true);
    ck_assert_ptr_nonnull(id->pd);
}

static void end(void)
{
    soft_destroy_id_qp(id);
    soft_destroy_id_srq(id);
    ck_assert_ptr_null(id->srq);
    ck_assert(id->send_cq == NULL && id->recv_cq == NULL);
    ck_assert(id->send_cq_channel == NULL && id->recv_cq_channel == NULL);
    ck_assert_int_eq(soft_destroy_id(id), 0);
    soft_destroy_event_channel(channel);
    pair_free(pair);
}

static struct ibv_srq_init_attr_ex srq_attr(enum ibv_srq_type type)
{
    return (struct ibv_srq_init_attr_ex){
        .attr = {.max_wr = 4, .max_sge = 1}, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = type};
}

static struct ibv_qp_init_attr_ex qp_attr(void)
{
    return (struct ibv_qp_init_attr_ex){
        .qp_type = id->qp_type,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
}

/* ---- Shared receive queues ---- */

START_TEST(ordinary)
{
    struct ibv_srq_init_attr plain = {.attr = {.max_wr = 0, .max_sge = 1}};
    struct ibv_srq_init_attr_ex attr = srq_attr(IBV_SRQT_BASIC);
    struct ibv_qp_init_attr_ex with = {0};

    begin(IBV_QPT_RC);
    attr.comp_mask = 0;
    REFUSED(soft_create_id_srq_ex(id, &attr));
    attr = srq_attr(IBV_SRQT_BASIC);
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    attr.pd = pair->end[0].pd;
    REFUSED(soft_create_id_srq_ex(id, &attr));
    REFUSED(soft_create_id_srq(id, NULL, &plain));
    ck_assert_ptr_null(id->srq);
    plain.attr.max_wr = 4;
    ck_assert_int_eq(soft_create_id_srq(id, NULL, &plain), 0);
    ck_assert_ptr_nonnull(id->srq);
    ck_assert_ptr_eq(id->srq->pd, id->pd);
    ck_assert_ptr_null(id->recv_cq);
    REFUSED(soft_create_id_srq(id, NULL, &plain)); /* the identifier has one already */
    with = qp_attr();
    ck_assert_int_eq(soft_create_id_qp_ex(id, &with), 0);
    ck_assert_ptr_eq(id->qp->srq, id->srq);
    soft_destroy_id_srq(id);
    ck_assert_ptr_nonnull(id->srq); /* the queue pair uses it */
    end();
}
END_TEST

/* An XRC shared receive queue; a domain and a completion queue are created if the application passes none. */
START_TEST(extended)
{
    struct ibv_srq_init_attr_ex attr = srq_attr(IBV_SRQT_XRC);
    struct ibv_xrcd_init_attr how = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    uint32_t number = 0;

    begin(IBV_QPT_XRC_RECV);
    struct ibv_xrcd *foreign = soft_open_xrcd(pair->end[0].context, &how);

    ck_assert_ptr_nonnull(foreign);
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
    attr.xrcd = foreign;
    REFUSED(soft_create_id_srq_ex(id, &attr));
    ck_assert_ptr_null(id->recv_cq);
    ck_assert_int_eq(soft_close_xrcd(foreign), 0);
    attr = srq_attr(IBV_SRQT_XRC);
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ; /* flags without the objects */
    ck_assert_int_eq(soft_create_id_srq_ex(id, &attr), 0);
    ck_assert_ptr_nonnull(id->recv_cq);
    ck_assert_ptr_nonnull(id->recv_cq_channel);
    ck_assert_ptr_eq(attr.cq, id->recv_cq);
    ck_assert_int_eq(soft_get_srq_num(id->srq, &number), 0);
    ck_assert_uint_ne(number, 0);
    end();
}
END_TEST

/* Objects that the application passes are used, and still belong to the application. */
START_TEST(brought)
{
    struct ibv_srq_init_attr_ex attr = srq_attr(IBV_SRQT_XRC);

    begin(IBV_QPT_XRC_RECV);
    struct ibv_cq *cq = soft_create_cq(id->verbs, 4, NULL, NULL, 0);

    ck_assert_ptr_nonnull(cq);
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
    attr.cq = cq;
    ck_assert_int_eq(soft_create_id_srq_ex(id, &attr), 0);
    ck_assert_ptr_null(id->recv_cq);
    ck_assert_int_eq(soft_destroy_cq(cq), EBUSY);
    end();
    ck_assert_int_eq(soft_destroy_cq(cq), 0);
}
END_TEST

/* ---- Queue pairs ---- */

static const struct {
    enum ibv_qp_type type;
    bool sends, receives; /* completion queues that must be created */
} kinds[] = {{IBV_QPT_RC, true, true}, {IBV_QPT_XRC_SEND, true, false}, {IBV_QPT_XRC_RECV, false, false}};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

START_TEST(queue_pairs)
{
    begin(kinds[_i].type);
    struct ibv_qp_init_attr_ex attr = qp_attr();
    struct rdma_cm_id *unbound = new_id(kinds[_i].type, false);

    REFUSED(soft_create_id_qp_ex(unbound, &attr)); /* the identifier has no device yet */
    ck_assert_int_eq(soft_destroy_id(unbound), 0);
    attr.qp_type = IBV_QPT_UC;
    REFUSED(soft_create_id_qp_ex(id, &attr));
    attr = qp_attr();
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = pair->end[0].pd;
    REFUSED(soft_create_id_qp_ex(id, &attr));
    attr = qp_attr();
    attr.cap.max_send_sge = 1000;
    REFUSED(soft_create_id_qp_ex(id, &attr));
    ck_assert(id->qp == NULL && id->send_cq == NULL && id->recv_cq == NULL);
    attr = qp_attr();
    ck_assert_int_eq(soft_create_id_qp_ex(id, &attr), 0);
    ck_assert_int_eq(id->send_cq != NULL, kinds[_i].sends);
    ck_assert_int_eq(id->recv_cq != NULL, kinds[_i].receives);
    ck_assert_int_eq(id->send_cq_channel != NULL, kinds[_i].sends);
    ck_assert_int_eq(id->recv_cq_channel != NULL, kinds[_i].receives);
    attr = qp_attr();
    REFUSED(soft_create_id_qp_ex(id, &attr)); /* the identifier has one already */
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: the queues of identifiers");
    TCase *tcase = new_case(suite, "queues");

    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, ordinary);
    tcase_add_test(tcase, extended);
    tcase_add_test(tcase, brought);
    tcase_add_loop_test(tcase, queue_pairs, 0, KINDS);
    return run_suite(suite);
}
