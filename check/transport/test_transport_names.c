/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_names.c - queue pairs that are connected by LID or GID and queue pair number alone, over real sockets.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include "check/support/endpoints.h"

#define PATIENCE 200000000 /* polls; far more than a packet within this host takes */
#define TIMEOUT 18         /* 1.1 s for an acknowledgement: none is lost, and the peer may be slow */

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char bytes[32];
};

static void side_open(struct side *side)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };

    side->context = soft_open_device();
    expect(side->context, "soft_open_device: %s", strerror(errno));
    side->pd = soft_alloc_pd(side->context);
    side->channel = soft_create_comp_channel(side->context);
    expect(side->channel, "soft_create_comp_channel: %s", strerror(errno));
    side->cq = soft_create_cq(side->context, 8, NULL, side->channel, 0);
    init.send_cq = init.recv_cq = side->cq;
    side->qp = soft_create_qp(side->pd, &init);
    side->mr = soft_reg_mr(side->pd, side->bytes, sizeof side->bytes,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    expect(side->qp && side->mr, "no queue pair or memory region: %s", strerror(errno));
}

static void side_close(struct side *side)
{
    ck_assert_int_eq(soft_destroy_qp(side->qp), 0);
    ck_assert_int_eq(soft_dereg_mr(side->mr), 0);
    ck_assert_int_eq(soft_destroy_cq(side->cq), 0);
    ck_assert_int_eq(soft_destroy_comp_channel(side->channel), 0);
    ck_assert_int_eq(soft_dealloc_pd(side->pd), 0);
    ck_assert_int_eq(soft_close_device(side->context), 0);
}

static int connect_to(struct side *side, uint32_t qpn, const struct ibv_ah_attr *ah)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int error;

    ck_assert_int_eq(
        soft_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = qpn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = *ah,
    };
    error = soft_modify_qp(side->qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error != 0)
        return error;
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = TIMEOUT, .retry_cnt = 7, .rnr_retry = 7};
    return soft_modify_qp(side->qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct ibv_wc wait_for(struct side *side)
{
    struct ibv_wc wc = {0};
    int polls = 0;

    while (ibv_poll_cq(side->cq, 1, &wc) == 0)
        expect(++polls < PATIENCE, "nothing completes");
    return wc;
}

/* Sends a message and waits until it is received; the sender has not polled yet. */
static void send_a_message(struct side *from, struct side *to)
{
    struct ibv_sge out = {(uintptr_t)from->bytes, 6, from->mr->lkey};
    struct ibv_sge in = {(uintptr_t)to->bytes, sizeof to->bytes, to->mr->lkey};
    struct ibv_send_wr send = {.sg_list = &out,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    struct ibv_recv_wr recv = {.sg_list = &in, .num_sge = 1}, *bad_recv;
    struct ibv_wc wc;

    memcpy(from->bytes, "hello", 6);
    memset(to->bytes, 0, sizeof to->bytes);
    ck_assert_int_eq(ibv_post_recv(to->qp, &recv, &bad_recv), 0);
    ck_assert_int_eq(ibv_post_send(from->qp, &send, &bad_send), 0);
    wc = wait_for(to);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, 6);
    ck_assert_str_eq(to->bytes, "hello");
}

static void pass_a_message(struct side *from, struct side *to)
{
    send_a_message(from, to);
    ck_assert_int_eq(wait_for(from).status, IBV_WC_SUCCESS);
}

static uint16_t lid_of(const struct side *side)
{
    struct ibv_port_attr port;

    ck_assert_int_eq(ibv_query_port(side->context, 1, &port), 0);
    return port.lid;
}

static void connect_by_lid(struct side *a, struct side *b)
{
    ck_assert_int_eq(connect_to(a, b->qp->qp_num, &(struct ibv_ah_attr){.dlid = lid_of(b), .port_num = 1}), 0);
    ck_assert_int_eq(connect_to(b, a->qp->qp_num, &(struct ibv_ah_attr){.dlid = lid_of(a), .port_num = 1}), 0);
}

START_TEST(by_lid)
{
    struct side a, b;

    side_open(&a);
    side_open(&b);
    ck_assert_uint_ne(lid_of(&a), lid_of(&b));
    ck_assert_uint_eq(a.qp->qp_num >> SOFT_LID_QPNS_BITS, lid_of(&a));
    connect_by_lid(&a, &b);
    pass_a_message(&a, &b);
    pass_a_message(&b, &a);
    side_close(&a);
    side_close(&b);
}
END_TEST

/* Each GID of this host, connected to itself. */
START_TEST(by_gid)
{
    struct ibv_gid_entry entries[SOFT_GIDS];
    struct side probe;
    ssize_t count;

    side_open(&probe);
    count = soft_query_gid_table(probe.context, entries, SOFT_GIDS, 0, sizeof entries[0]);
    side_close(&probe);
    ck_assert_int_ge(count, 1); /* the loopback interface has one */
    for (int i = 0; i < count; i++) {
        struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1};
        struct side a, b;

        ah.grh.sgid_index = (uint8_t)i;
        ah.grh.dgid = entries[i].gid;
        side_open(&a);
        side_open(&b);
        ck_assert_int_eq(connect_to(&a, b.qp->qp_num, &ah), 0);
        ck_assert_int_eq(connect_to(&b, a.qp->qp_num, &ah), 0);
        pass_a_message(&a, &b);
        side_close(&a);
        side_close(&b);
    }
}
END_TEST

START_TEST(names_that_lead_nowhere)
{
    union ibv_gid gid;
    struct side a;

    side_open(&a);
    ck_assert_int_eq(connect_to(&a, 0x123456, &(struct ibv_ah_attr){.port_num = 1}), EINVAL); /* no LID */
    ck_assert_int_eq(connect_to(&a, 0x123456, &(struct ibv_ah_attr){.dlid = SOFT_LID_MAX + 1}), EINVAL);
    ck_assert_int_eq(connect_to(&a, 0x123456, &(struct ibv_ah_attr){.is_global = 1}), EINVAL); /* GID :: */
    ck_assert_int_eq(soft_query_gid(a.context, 1, 0, &gid), 0);
    ck_assert_int_eq(
        connect_to(&a, 0x123456, &(struct ibv_ah_attr){.is_global = 1, .grh = {.dgid = gid, .sgid_index = 63}}),
        EINVAL);
    side_close(&a);
}
END_TEST

START_TEST(queries)
{
    struct ibv_gid_entry entry;
    struct ibv_port_attr port;
    union ibv_gid gid, zero = {0};
    struct side a;
    __be16 pkey;

    side_open(&a);
    ck_assert_int_eq(ibv_query_port(a.context, 1, &port), 0);
    ck_assert_int_eq(soft_query_gid(a.context, 1, 0, &gid), 0);
    ck_assert_mem_ne(&gid, &zero, sizeof gid);
    ck_assert_int_eq(soft_query_gid_ex(a.context, 1, 0, &entry, 0, sizeof entry), 0);
    ck_assert_mem_eq(&entry.gid, &gid, sizeof gid);
    ck_assert_uint_eq(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
    /* The last entry of the GID table is free, and there is none behind it. */
    ck_assert_int_eq(soft_query_gid(a.context, 1, port.gid_tbl_len - 1, &gid), 0);
    ck_assert_mem_eq(&gid, &zero, sizeof gid);
    ck_assert_int_eq(soft_query_gid_ex(a.context, 1, (uint32_t)port.gid_tbl_len - 1, &entry, 0, sizeof entry),
                     ENODATA);
    ck_assert_int_eq(soft_query_gid(a.context, 1, port.gid_tbl_len, &gid), -1);
    ck_assert_int_eq(soft_query_gid(a.context, 2, 0, &gid), -1);
    ck_assert_int_eq(soft_query_gid_ex(a.context, 2, 0, &entry, 0, sizeof entry), EINVAL);
    ck_assert_int_eq(soft_query_pkey(a.context, 1, 0, &pkey), 0);
    ck_assert_uint_eq(ntohs(pkey), 0xffff);
    ck_assert_int_eq(soft_query_pkey(a.context, 1, 1, &pkey), -1);
    ck_assert_int_eq(soft_get_pkey_index(a.context, 1, pkey), 0);
    ck_assert_int_eq(soft_get_pkey_index(a.context, 1, htons(0x8001)), -1);
    side_close(&a);
}
END_TEST

/* A receiver that closes after a message has arrived acknowledges it first, so that the sender does not take it for
 * lost. */
START_TEST(acknowledges_before_it_goes)
{
    struct ibv_qp_attr attr = {.qp_state = _i == 0 ? IBV_QPS_ERR : IBV_QPS_RESET};
    struct side a, b;

    side_open(&a);
    side_open(&b);
    connect_by_lid(&a, &b);
    send_a_message(&a, &b);
    if (_i < 2)
        ck_assert_int_eq(soft_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
    side_close(&b);
    ck_assert_int_eq(wait_for(&a).status, IBV_WC_SUCCESS);
    side_close(&a);
}
END_TEST

static bool is_readable(int fd, int milliseconds)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    return poll(&poller, 1, milliseconds) == 1;
}

static void write_into(struct side *from, struct side *to)
{
    struct ibv_sge out = {(uintptr_t)from->bytes, 6, from->mr->lkey};
    struct ibv_send_wr send = {
        .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    send.wr.rdma.remote_addr = (uintptr_t)to->bytes;
    send.wr.rdma.rkey = to->mr->rkey;
    ck_assert_int_eq(ibv_post_send(from->qp, &send, &bad), 0);
}

static void take_event(struct side *side)
{
    struct ibv_cq *cq;
    void *context;

    ck_assert_int_eq(soft_get_cq_event(side->channel, &cq, &context), 0);
    ck_assert_ptr_eq(cq, side->cq);
    soft_ack_cq_events(cq, 1);
}

/* A program that waits for the descriptor itself and then gets the event must find one: packets alone, like those of a
 * peer's WRITE, do not make the descriptor readable, and are processed nevertheless. */
START_TEST(readable_means_an_event)
{
    struct side a, b;

    side_open(&a);
    side_open(&b);
    connect_by_lid(&a, &b);
    ck_assert_int_eq(ibv_req_notify_cq(b.cq, 0), 0);
    for (int i = 0; i < 20; i++) {
        write_into(&a, &b);
        ck_assert(!is_readable(b.channel->fd, 3));
        ck_assert_int_eq(wait_for(&a).status, IBV_WC_SUCCESS);
    }
    for (int i = 0; i < 20; i++) {
        struct ibv_sge in = {(uintptr_t)b.bytes, sizeof b.bytes, b.mr->lkey};
        struct ibv_recv_wr recv = {.sg_list = &in, .num_sge = 1}, *bad_recv;
        struct ibv_sge out = {(uintptr_t)a.bytes, 6, a.mr->lkey};
        struct ibv_send_wr send = {
            .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
        struct ibv_send_wr *bad_send;

        ck_assert_int_eq(ibv_post_recv(b.qp, &recv, &bad_recv), 0);
        ck_assert_int_eq(ibv_post_send(a.qp, &send, &bad_send), 0);
        ck_assert(is_readable(b.channel->fd, 20000));
        take_event(&b);
        ck_assert(!is_readable(b.channel->fd, 0));
        ck_assert_int_eq(ibv_req_notify_cq(b.cq, 0), 0);
        ck_assert_int_eq(wait_for(&b).status, IBV_WC_SUCCESS);
        ck_assert_int_eq(wait_for(&a).status, IBV_WC_SUCCESS);
    }
    side_close(&a);
    side_close(&b);
}
END_TEST

/* As many queue pairs as there are numbers can be created; a number that is free again can be used again. */
START_TEST(numbers_run_out)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_device_attr device;
    static struct ibv_qp *qps[1 << SOFT_LID_QPNS_BITS];
    struct side a;
    unsigned count = 1; /* the side's own queue pair */

    side_open(&a);
    ck_assert_int_eq(soft_query_device(a.context, &device), 0);
    ck_assert_int_eq(device.max_qp, 1 << SOFT_LID_QPNS_BITS);
    init.send_cq = init.recv_cq = a.cq;
    for (; count < 1 << SOFT_LID_QPNS_BITS; count++) {
        qps[count] = soft_create_qp(a.pd, &init);
        expect(qps[count], "queue pair %u: %s", count, strerror(errno));
        ck_assert_uint_eq(qps[count]->qp_num >> SOFT_LID_QPNS_BITS, lid_of(&a));
    }
    ck_assert_ptr_null(soft_create_qp(a.pd, &init));
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_int_eq(soft_destroy_qp(qps[1]), 0);
    qps[1] = soft_create_qp(a.pd, &init);
    ck_assert_ptr_nonnull(qps[1]);
    while (--count > 0)
        ck_assert_int_eq(soft_destroy_qp(qps[count]), 0);
    side_close(&a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: names");
    TCase *names = new_case(suite, "names");

    tcase_set_timeout(names, 30);
    tcase_add_test(names, by_lid);
    tcase_add_test(names, by_gid);
    tcase_add_loop_test(names, acknowledges_before_it_goes, 0, 3);
    tcase_add_test(names, readable_means_an_event);
    tcase_add_test(names, names_that_lead_nowhere);
    tcase_add_test(names, queries);
    tcase_add_test(names, numbers_run_out);
    return run_suite(suite);
}
