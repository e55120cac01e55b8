/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_xrc.c - extended reliable connections (XRC): packet formats, loss, and requests with wrong shared
 * receive queue numbers.
 */
#include <errno.h>
#include <string.h>
#include "check/support/endpoints.h"

#define MTU 1024

static struct pair *xrc_pair(void)
{
    struct setup setup = setup_default();

    setup.type = IBV_QPT_XRC_SEND;
    setup.qp_access = setup.mr_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC;
    return pair_new(&setup);
}

#define ADDED 3

/* Posts one request of a. */
static void ask(struct pair *pair, enum ibv_wr_opcode opcode, size_t length)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_sge sge = {(uintptr_t)a->memory, 8, a->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;

    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.atomic.remote_addr = (uintptr_t)b->memory;
    wr.wr.atomic.rkey = b->rkey;
    wr.wr.atomic.compare_add = ADDED;
    wr.qp_type.xrc.remote_srqn = b->srqn;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    else
        post(a, b, &(struct work){.id = 1, .opcode = opcode, .length = length, .flags = IBV_SEND_SIGNALED});
}

/* ---- Packet formats ---- */

static const struct shape {
    enum ibv_wr_opcode opcode;
    enum roce_opcode first, only;
    size_t headers; /* bytes of the single packet's headers behind BTH and XRCETH */
} shapes[] = {
    {IBV_WR_SEND, SEND_FIRST, SEND_ONLY, 0},
    {IBV_WR_SEND_WITH_IMM, SEND_FIRST, SEND_ONLY_IMM, ROCE_IMM},
    {IBV_WR_RDMA_WRITE, WRITE_FIRST, WRITE_ONLY, ROCE_RETH},
    {IBV_WR_RDMA_WRITE_WITH_IMM, WRITE_FIRST, WRITE_ONLY_IMM, ROCE_RETH + ROCE_IMM},
    {IBV_WR_RDMA_READ, READ_REQUEST, READ_REQUEST, ROCE_RETH},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, FETCH_ADD, FETCH_ADD, ROCE_ATOMIC},
};
#define SHAPES (int)(sizeof shapes / sizeof *shapes)

/* Each request has an XRCETH behind the BTH: a zero byte, and 24 bits of the queue's number. No response has one. */
static void expect_headers(const struct pair *pair, const struct packet *packet)
{
    const struct end *b = &pair->end[1];
    uint8_t name[4] = {0, (uint8_t)(b->srqn >> 16), (uint8_t)(b->srqn >> 8), (uint8_t)b->srqn};

    ck_assert_uint_eq(packet->roce.opcode & 0xe0, ROCE_XRC);
    ck_assert_uint_eq(packet->roce.has_xrceth, packet->from == 0);
    ck_assert_uint_eq(packet->roce.qpn, pair->end[packet->from == 0].qpn);
    if (packet->from == 0)
        ck_assert_int_eq(memcmp(packet->bytes + ROCE_BTH, name, sizeof name), 0);
}

START_TEST(wire)
{
    static const size_t lengths[] = {1, 100, MTU, MTU + 1, 5000};
    const struct shape *shape = &shapes[_i % SHAPES];
    size_t length = shape->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : lengths[_i / SHAPES];
    bool reads = shape->opcode == IBV_WR_RDMA_READ || shape->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    struct pair *pair = xrc_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    uint64_t original, sum;

    fill(reads ? b->memory : a->memory, length, 7);
    memcpy(&original, b->memory, sizeof original);
    post_receive(b, 20, 0, b->size);
    ask(pair, shape->opcode, length);
    run(pair);
    expect_wc(a->send_cq, 1, IBV_WC_SUCCESS);
    for (unsigned i = 0; i < network_packets(pair->network); i++)
        expect_headers(pair, network_packet(pair->network, i));
    const struct packet *first = network_packet(pair->network, 0);
    bool one = reads || length <= MTU;
    ck_assert_uint_eq(first->roce.opcode, ROCE_XRC + (one ? shape->only : shape->first));
    if (one) {
        size_t payload = reads ? 0 : (length + 3) / 4 * 4;
        ck_assert_uint_eq(first->length, ROCE_BTH + ROCE_XRCETH + shape->headers + payload);
    }
    memcpy(&sum, b->memory, sizeof sum);
    if (shape->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        ck_assert_uint_eq(sum, original + ADDED);
    else
        ck_assert(filled(reads ? a->memory : b->memory, length, 7));
    if (!reads && shape->opcode != IBV_WR_RDMA_WRITE) {
        struct ibv_wc wc = expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
        ck_assert_uint_eq(wc.byte_len, length);
        ck_assert_uint_eq(wc.qp_num, b->qpn);
    }
    pair_free(pair);
}
END_TEST

/* ---- Loss ---- */

static enum fate lose_some(void *arg, const struct packet *packet)
{
    (void)packet;
    return random_next(arg) % 8 == 0 ? FATE_DROP : FATE_DELIVER;
}

START_TEST(survives_loss)
{
    struct pair *pair = xrc_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    uint64_t state = (uint64_t)_i + 1;

    network_set_script(pair->network, lose_some, &state);
    for (int i = 0; i < 6; i++) {
        fill(a->memory, 7000, (uint64_t)i);
        post_receive(b, 20, 0, b->size);
        post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 7000, .flags = IBV_SEND_SIGNALED});
        run(pair);
        expect_done(a->send_cq, 1, IBV_WC_SEND);
        expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
        ck_assert(filled(b->memory, 7000, (uint64_t)i));
        post(a, b,
             &(struct work){.id = 2, .opcode = IBV_WR_RDMA_READ, .length = 5000, .flags = IBV_SEND_SIGNALED});
        run(pair);
        expect_done(a->send_cq, 2, IBV_WC_RDMA_READ);
    }
    pair_free(pair);
}
END_TEST

/* ---- Wrong requests ---- */

/* The next packet of a, as roce_write() takes it. */
static struct roce next_packet(const struct pair *pair, enum roce_opcode opcode, uint32_t psn)
{
    static const uint8_t payload[MTU];

    return (struct roce){.opcode = (uint8_t)(ROCE_XRC + opcode),
                         .migreq = true,
                         .ackreq = true,
                         .pkey = 0xffff,
                         .qpn = pair->end[1].qpn,
                         .psn = roce_psn(pair->end[0].psn + psn),
                         .srqn = pair->end[1].srqn,
                         .payload = payload,
                         .payload_length = MTU};
}

static void inject(struct pair *pair, unsigned to, const struct roce *roce)
{
    uint8_t packet[ROCE_MAX + MTU];

    network_inject(pair->network, pair->end[!to].node, pair->end[to].node, packet, roce_write(packet, roce));
    run(pair);
}

/* The number is of no queue: nothing is received, and the connection is in the error state. */
START_TEST(names_no_queue)
{
    struct pair *pair = xrc_pair();
    struct end *b = &pair->end[1];
    struct roce roce = next_packet(pair, SEND_ONLY, 0);

    post_receive(b, 20, 0, b->size);
    roce.srqn ^= 1u << _i;
    inject(pair, 1, &roce);
    const struct packet *nak = find_packet(pair->network, 1, ROCE_XRC + ACKNOWLEDGE, 0);
    ck_assert_ptr_nonnull(nak);
    ck_assert_uint_eq(nak->roce.syndrome, SYNDROME_INVALID_REQUEST);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    expect_none(b->recv_cq);
    expect_async(b, IBV_EVENT_QP_REQ_ERR, b->qp);
    pair_free(pair);
}
END_TEST

/* The queue must not change in the middle of a message. */
START_TEST(changes_the_queue)
{
    struct pair *pair = xrc_pair();
    struct end *b = &pair->end[1], other = *b;
    struct roce roce = next_packet(pair, SEND_FIRST, 0);
    struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 4, .max_sge = 1},
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
                                        .srq_type = IBV_SRQT_XRC,
                                        .pd = b->pd,
                                        .xrcd = b->xrcd,
                                        .cq = b->recv_cq};

    other.srq = soft_create_srq_ex(b->context, &attr);
    ck_assert_ptr_nonnull(other.srq);
    post_receive(b, 20, 0, b->size);
    post_receive(&other, 21, 0, b->size);
    inject(pair, 1, &roce);
    roce = next_packet(pair, SEND_LAST, 1);
    ck_assert_int_eq(soft_get_srq_num(other.srq, &roce.srqn), 0);
    inject(pair, 1, &roce);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    expect_wc(b->recv_cq, 20, IBV_WC_REM_INV_REQ_ERR);
    expect_none(b->recv_cq);
    ck_assert_int_eq(soft_destroy_srq(other.srq), 0);
    pair_free(pair);
}
END_TEST

/* The queue is destroyed in the middle of a message: the connection fails, and the freed queue is not accessed. */
START_TEST(loses_the_queue)
{
    struct pair *pair = xrc_pair();
    struct end *b = &pair->end[1];
    struct roce roce = next_packet(pair, SEND_FIRST, 0);

    post_receive(b, 20, 0, b->size);
    inject(pair, 1, &roce);
    ck_assert_int_eq(soft_destroy_srq(b->srq), 0);
    b->srq = NULL;
    run(pair);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    expect_none(b->recv_cq);
    roce = next_packet(pair, SEND_LAST, 1);
    inject(pair, 1, &roce);
    pair_free(pair);
}
END_TEST

/* A duplicate is acknowledged again, whatever queue number it has. */
START_TEST(repeats)
{
    struct pair *pair = xrc_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct roce roce = next_packet(pair, SEND_ONLY, 0);

    post_receive(b, 20, 0, b->size);
    post(a, b, &(struct work){.opcode = IBV_WR_SEND, .length = 10});
    run(pair);
    expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
    network_forget(pair->network);
    roce.srqn ^= 1;
    inject(pair, 1, &roce);
    ck_assert_uint_eq(counters_of(b).duplicates, 1);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_RTS);
    pair_free(pair);
}
END_TEST

/* The sending end accepts no requests. */
START_TEST(asks_the_sender)
{
    struct pair *pair = xrc_pair();
    struct end *a = &pair->end[0];
    struct roce roce = next_packet(pair, (enum roce_opcode)_i, 0);
    uint64_t refused = counters_of(a).refused;

    roce.qpn = a->qpn;
    roce.psn = roce_psn(pair->end[1].psn);
    roce.rkey = a->rkey;
    roce.va = (uintptr_t)a->memory;
    roce.dma_length = 8;
    roce.payload_length = _i >= READ_REQUEST ? 0 : 8;
    inject(pair, 0, &roce);
    ck_assert_uint_eq(counters_of(a).refused, refused + 1);
    ck_assert_uint_eq(count_packets(pair->network, 0, ROCE_NO_OPCODE), 0);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_RTS);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport, extended connections");
    TCase *tests = new_case(suite, "all");
    tcase_add_loop_test(tests, wire, 0, SHAPES * 5);
    tcase_add_loop_test(tests, survives_loss, 0, 7);
    tcase_add_loop_test(tests, names_no_queue, 0, 24);
    tcase_add_test(tests, changes_the_queue);
    tcase_add_test(tests, loses_the_queue);
    tcase_add_test(tests, repeats);
    tcase_add_loop_test(tests, asks_the_sender, SEND_FIRST, READ_REQUEST + 1);
    return run_suite(suite);
}
