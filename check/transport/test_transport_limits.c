/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_limits.c - packets just beyond a limit: longer than the longest message, the region or the MTU, to a
 * queue pair in the error state, from the middle of a message without a beginning, and responses of another kind than
 * the request.
 */
#include <string.h>
#include "check/support/endpoints.h"

#define MTU 1024
#define LONGEST (1u << 30) /* bytes of the longest message */
#define ATOMIC_ACCESS (ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC)

static uint8_t data[8192];

/* An engine at node 0; the test sends the packets of node 1. */
static struct pair *with_a_ghost(enum ibv_qp_type type, size_t memory)
{
    struct setup setup = setup_default();

    setup.ghost = true;
    setup.type = type;
    setup.memory = memory;
    setup.names = type == IBV_QPT_UD;
    setup.qp_access = setup.mr_access = ATOMIC_ACCESS;
    memset(data, 0xdd, sizeof data);
    return pair_new(&setup);
}

/* Sends the packet without its last `cut` bytes. It has the region's key, and starts at the region's address plus
 * `va`. */
static void say_cut(struct pair *pair, struct roce roce, size_t cut)
{
    static uint8_t packet[ROCE_MAX + sizeof data];
    struct end *a = &pair->end[0];

    roce.migreq = true;
    roce.pkey = 0xffff;
    roce.qpn = a->qpn;
    roce.qkey = pair->setup.qkey;
    roce.rkey = a->rkey;
    roce.va += (uintptr_t)a->memory;
    roce.payload = data;
    network_inject(pair->network, 1, 0, packet, roce_write(packet, &roce) - cut);
}

static void say(struct pair *pair, struct roce roce)
{
    say_cut(pair, roce, 0);
}

/* ---- Requests ---- */

/* Expects a NAK with this syndrome, and unchanged memory. */
static void expect_refusal(struct pair *pair, uint8_t syndrome)
{
    struct end *a = &pair->end[0];

    run(pair);
    ck_assert_uint_eq(network_packets(pair->network), 1);
    ck_assert_uint_eq(network_packet(pair->network, 0)->roce.opcode, ACKNOWLEDGE);
    ck_assert_uint_eq(network_packet(pair->network, 0)->roce.syndrome, syndrome);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    expect_byte(a->memory, a->size, 0);
    pair_free(pair);
}

static struct roce reach(bool write, struct pair *pair, uint32_t length)
{
    return (struct roce){.opcode = write ? WRITE_FIRST : READ_REQUEST,
                         .psn = pair->setup.psn[1],
                         .dma_length = length,
                         .payload_length = write ? MTU : 0};
}

/* A request that is one byte longer than the longest message is invalid; up to there it is the region that is too
 * small. */
START_TEST(longer_than_a_message)
{
    struct pair *pair = with_a_ghost(IBV_QPT_RC, 4096);
    bool longer = _i / 2;

    say(pair, reach(_i % 2, pair, LONGEST + longer));
    expect_refusal(pair, longer ? SYNDROME_INVALID_REQUEST : SYNDROME_ACCESS);
}
END_TEST

START_TEST(longer_than_the_region)
{
    struct pair *pair = with_a_ghost(IBV_QPT_RC, 2000);

    say(pair, reach(_i % 2, pair, _i < 2 ? 2001 : 3000));
    expect_refusal(pair, SYNDROME_ACCESS);
}
END_TEST

/* Only the first bytes of the 8-byte word are in the region. */
START_TEST(atomic_at_the_end)
{
    struct pair *pair = with_a_ghost(IBV_QPT_RC, 16 + (size_t)_i);

    say(pair, (struct roce){.opcode = FETCH_ADD, .psn = pair->setup.psn[1], .va = 16, .swap_add = 1});
    expect_refusal(pair, SYNDROME_ACCESS);
}
END_TEST

/* The request does not increment the MSN. */
START_TEST(read_without_permission)
{
    struct setup setup = setup_default();
    struct pair *pair;

    setup.ghost = true;
    setup.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    pair = pair_new(&setup);
    say(pair, reach(false, pair, 100));
    ck_assert_uint_eq(network_packet(pair->network, 0)->roce.msn, 0);
    expect_refusal(pair, SYNDROME_ACCESS);
}
END_TEST

/* ---- Malformed packets ---- */

/* The length must be a multiple of 4; a cut payload looks valid otherwise. Also directly behind a packet that was
 * accepted. */
START_TEST(broken_words)
{
    struct pair *pair = with_a_ghost(IBV_QPT_RC, 4096);
    struct end *a = &pair->end[0];
    struct roce roce = {.opcode = SEND_ONLY, .psn = pair->setup.psn[1], .payload_length = 100};

    post_receive(a, 1, 0, 1000);
    post_receive(a, 2, 1000, 1000);
    say(pair, roce);
    roce.psn++;
    for (size_t cut = 1; cut < 4; cut++)
        say_cut(pair, roce, cut);
    expect_wc(a->recv_cq, 1, IBV_WC_SUCCESS);
    expect_none(a->recv_cq);
    ck_assert_uint_eq(counters_of(a).malformed, 3);
    pair_free(pair);
}
END_TEST

/* Truncated headers are not completed with those of the packet before. */
START_TEST(behind_a_good_one)
{
    struct pair *pair = with_a_ghost(IBV_QPT_RC, 4096);
    struct end *a = &pair->end[0];
    struct roce roce = {.opcode = SEND_ONLY, .psn = pair->setup.psn[1], .payload_length = 100};

    post_receive(a, 1, 0, 1000);
    say(pair, roce);
    for (size_t left = 0; left < ROCE_BTH; left++)
        say_cut(pair, roce, ROCE_BTH + 100 - left);
    expect_wc(a->recv_cq, 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(counters_of(a).malformed, ROCE_BTH);
    ck_assert_uint_eq(counters_of(a).duplicates, 0);
    pair_free(pair);
}
END_TEST

/* UD has only two opcodes; those behind the last known one are malformed, too. */
START_TEST(datagrams_of_no_kind)
{
    struct pair *pair = with_a_ghost(IBV_QPT_UD, 4096);
    struct end *a = &pair->end[0];
    uint8_t packet[256] = {[2] = 0xff, [3] = 0xff};

    post_receive(a, 1, 0, a->size);
    packet[5] = (uint8_t)(a->qpn >> 16);
    packet[6] = (uint8_t)(a->qpn >> 8);
    packet[7] = (uint8_t)a->qpn;
    for (unsigned opcode = ROCE_UD; opcode < ROCE_UD + 0x20; opcode++) {
        packet[0] = (uint8_t)opcode;
        if (opcode != ROCE_UD + SEND_ONLY && opcode != ROCE_UD + SEND_ONLY_IMM)
            network_inject(pair->network, 1, 0, packet, sizeof packet);
    }
    expect_quiet(pair);
    ck_assert_uint_eq(counters_of(a).malformed, 0x20 - 2);
    ck_assert_uint_eq(counters_of(a).refused, 0);
    pair_free(pair);
}
END_TEST

/* ---- Errors without an answer ---- */

/* A queue pair in the error state accepts nothing, also where no NAK could be sent. */
START_TEST(written_when_failed)
{
    struct pair *pair = with_a_ghost(IBV_QPT_UC, 4096);
    struct end *a = &pair->end[0];

    qp_fail(a->qp);
    say(pair, (struct roce){.opcode = ROCE_UC + WRITE_ONLY,
                            .psn = pair->setup.psn[1],
                            .dma_length = 100,
                            .payload_length = 100});
    expect_byte(a->memory, a->size, 0);
    pair_free(pair);
}
END_TEST

/* The rest of a message whose first packet was lost is dropped, and not counted as refused. */
START_TEST(middle_of_nothing)
{
    static const uint8_t opcodes[] = {SEND_MIDDLE, WRITE_MIDDLE, SEND_LAST, WRITE_LAST};
    struct pair *pair = with_a_ghost(IBV_QPT_UC, 4096);
    struct end *a = &pair->end[0];

    post_receive(a, 1, 0, 4096);
    for (uint32_t i = 0; i < sizeof opcodes; i++)
        say(pair, (struct roce){.opcode = (uint8_t)(ROCE_UC + opcodes[i]),
                                .psn = pair->setup.psn[1] + i,
                                .payload_length = MTU});
    expect_byte(a->memory, a->size, 0);
    expect_quiet(pair);
    ck_assert_uint_eq(counters_of(a).refused, 0);
    say(pair, (struct roce){.opcode = ROCE_UC + SEND_ONLY, .psn = pair->setup.psn[1] + 4, .payload_length = 9});
    ck_assert_uint_eq(expect_wc(a->recv_cq, 1, IBV_WC_SUCCESS).byte_len, 9);
    pair_free(pair);
}
END_TEST

/* A datagram may be as long as the MTU, and not longer, even if the receive has room. */
START_TEST(datagram_over_the_mtu)
{
    struct pair *pair = with_a_ghost(IBV_QPT_UD, 1 << 14);
    struct end *a = &pair->end[0];
    struct roce roce = {.opcode = ROCE_UD + SEND_ONLY, .source = GHOST_QPN, .payload_length = 4097};

    post_receive(a, 1, 0, a->size);
    say(pair, roce);
    roce.payload_length = sizeof data;
    say(pair, roce);
    expect_none(a->recv_cq);
    expect_byte(a->memory, a->size, 0);
    ck_assert_uint_eq(counters_of(a).refused, 2);
    roce.payload_length = 4096;
    say(pair, roce);
    ck_assert_uint_eq(expect_wc(a->recv_cq, 1, IBV_WC_SUCCESS).byte_len, 40 + 4096);
    pair_free(pair);
}
END_TEST

/* ---- Responses of another kind than the request ---- */

static void ask(struct pair *pair, enum ibv_wr_opcode opcode)
{
    struct end *a = &pair->end[0];
    struct ibv_sge sge = {.addr = (uintptr_t)a->memory, .length = 8, .lkey = a->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        wr.wr.atomic.rkey = GHOST_RKEY;
    else
        wr.wr.rdma.rkey = GHOST_RKEY;
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
}

/* Eight bytes fit all of them, and would be written to the request's own buffer. */
START_TEST(answer_of_another_kind)
{
    static const struct {
        enum ibv_wr_opcode asked;
        uint8_t answer;
    } kinds[] = {
        {IBV_WR_SEND, ATOMIC_ACKNOWLEDGE},       {IBV_WR_RDMA_WRITE, ATOMIC_ACKNOWLEDGE},
        {IBV_WR_RDMA_READ, ATOMIC_ACKNOWLEDGE},  {IBV_WR_SEND, READ_RESPONSE_ONLY},
        {IBV_WR_RDMA_WRITE, READ_RESPONSE_ONLY}, {IBV_WR_ATOMIC_FETCH_AND_ADD, READ_RESPONSE_ONLY},
    };
    struct pair *pair = with_a_ghost(IBV_QPT_RC, 4096);
    struct end *a = &pair->end[0];
    bool atomic = kinds[_i].answer == ATOMIC_ACKNOWLEDGE;

    ask(pair, kinds[_i].asked);
    say(pair, (struct roce){.opcode = kinds[_i].answer,
                            .psn = a->psn,
                            .syndrome = SYNDROME_ACK,
                            .msn = 1,
                            .original = 0x1122334455667788,
                            .payload_length = atomic ? 0 : 8});
    expect_wc(a->send_cq, 1, IBV_WC_BAD_RESP_ERR);
    expect_byte(a->memory, a->size, 0);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: limits");
    TCase *tcase = new_case(suite, "limits");

    tcase_add_loop_test(tcase, longer_than_a_message, 0, 4);
    tcase_add_loop_test(tcase, longer_than_the_region, 0, 4);
    tcase_add_loop_test(tcase, atomic_at_the_end, 1, 8);
    tcase_add_test(tcase, read_without_permission);
    tcase_add_test(tcase, broken_words);
    tcase_add_test(tcase, datagrams_of_no_kind);
    tcase_add_test(tcase, behind_a_good_one);
    tcase_add_test(tcase, written_when_failed);
    tcase_add_test(tcase, middle_of_nothing);
    tcase_add_test(tcase, datagram_over_the_mtu);
    tcase_add_loop_test(tcase, answer_of_another_kind, 0, 6);
    return run_suite(suite);
}
