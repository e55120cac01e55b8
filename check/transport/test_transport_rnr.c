/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_rnr.c - receiver not ready: how long the requester waits, how often it retries, and what follows. */
#include <string.h>
#include "check/support/endpoints.h"

#define US 1000ull

static const uint64_t rnr_us[32] = {655360, 10,    20,    30,     40,     60,     80,     120,
                                    160,    240,   320,   480,    640,    960,    1280,   1920,
                                    2560,   3840,  5120,  7680,   10240,  15360,  20480,  30720,
                                    40960,  61440, 81920, 122880, 163840, 245760, 327680, 491520};

static const struct packet *find_rnr(struct pair *pair, unsigned n)
{
    for (unsigned i = 0; i < network_packets(pair->network); i++) {
        const struct packet *packet = network_packet(pair->network, i);
        if (packet->roce.opcode == ACKNOWLEDGE && (packet->roce.syndrome & 0xe0) == SYNDROME_RNR && !n--)
            return packet;
    }
    return NULL;
}

static unsigned count_rnr(struct pair *pair)
{
    unsigned count = 0;
    while (find_rnr(pair, count))
        count++;
    return count;
}

START_TEST(rnr_timer)
{
    struct setup setup = setup_default();
    setup.min_rnr_timer = (uint8_t)_i;
    setup.retry_cnt = 0; /* waiting does not use up ACK retries */
    setup.timeout = 1;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 3000, .flags = IBV_SEND_SIGNALED});
    while (!count_rnr(pair))
        ck_assert(network_step(pair->network));
    const struct packet *nak = find_rnr(pair, 0);
    ck_assert_uint_eq(nak->roce.syndrome, SYNDROME_RNR | (unsigned)_i);
    ck_assert_uint_eq(nak->roce.psn, a->psn);
    ck_assert_uint_eq(nak->roce.msn, 0);
    uint64_t refused = nak->time + NETWORK_LATENCY;
    post_receive(b, 2, 0, 3000);
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_SEND);
    expect_wc(b->recv_cq, 2, IBV_WC_SUCCESS);
    ck_assert_uint_eq(count_rnr(pair), 1);
    expect_between(find_psn(pair->network, 0, a->psn, 1)->time - refused, rnr_us[_i] * US, 2 * rnr_us[_i] * US);
    ck_assert_ptr_null(find_psn(pair->network, 0, a->psn, 2));
    ck_assert_uint_eq(counters_of(b).rnr_naks_sent, 1);
    ck_assert_uint_eq(counters_of(a).rnr_naks_received, 1);
    pair_free(pair);
}
END_TEST

START_TEST(rnr_retry_count)
{
    struct setup setup = setup_default();
    setup.rnr_retry = (uint8_t)_i;
    setup.min_rnr_timer = 12;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post_receive(a, 9, 0, 8);
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 8});
    post(a, b, &(struct work){.id = 2, .opcode = IBV_WR_RDMA_WRITE, .length = 8});
    run(pair);
    ck_assert_uint_eq(count_rnr(pair), (unsigned)_i + 1);
    expect_wc(a->send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
    expect_wc(a->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->recv_cq, 9, IBV_WC_WR_FLUSH_ERR);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_RTS);
    ck_assert_uint_eq(counters_of(a).timeouts, 0);
    pair_free(pair);
}
END_TEST

START_TEST(rnr_retry_seven_is_for_ever)
{
    struct setup setup = setup_default();
    setup.min_rnr_timer = 20;
    setup.retry_cnt = 0;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 8, .flags = IBV_SEND_SIGNALED});
    while (count_rnr(pair) < 200)
        ck_assert(network_step(pair->network));
    expect_quiet(pair);
    post_receive(b, 2, 0, 8);
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_SEND);
    expect_wc(b->recv_cq, 2, IBV_WC_SUCCESS);
    pair_free(pair);
}
END_TEST

struct losing {
    uint32_t psn;
    unsigned tries;
};

/* Loses the first packet of every second attempt. */
static enum fate lose_a_first(void *arg, const struct packet *packet)
{
    struct losing *losing = arg;
    if (packet->from == 1 || packet->roce.psn != losing->psn)
        return FATE_DELIVER;
    return losing->tries++ % 2 ? FATE_DROP : FATE_DELIVER;
}

/* A peer that sends RNR NAKs is there. If a packet is lost later and requested again by a NAK, that does not count as a
 * missing answer, however long it goes on. */
START_TEST(losses_meanwhile)
{
    struct setup setup = setup_default();
    setup.min_rnr_timer = 20;
    setup.retry_cnt = 1;
    setup.timeout = 8; /* 1 ms; less than the 10 ms of the RNR timer */
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct losing losing = {.psn = a->psn};
    network_set_script(pair->network, lose_a_first, &losing);
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 3000, .flags = IBV_SEND_SIGNALED});
    while (losing.tries < 20)
        ck_assert(network_step(pair->network));
    post_receive(b, 2, 0, 3000);
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_SEND);
    expect_wc(b->recv_cq, 2, IBV_WC_SUCCESS);
    ck_assert_uint_ge(counters_of(a).naks_received, 9);
    pair_free(pair);
}
END_TEST

/* Each SEND is refused once and then accepted: that is progress, and resets the RNR retry count. */
START_TEST(progress_refills_the_rnr_count)
{
    struct setup setup = setup_default();
    setup.rnr_retry = 1;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (uint64_t i = 0; i < 8; i++)
        post(a, b, &(struct work){.id = i, .opcode = IBV_WR_SEND, .length = 8, .flags = IBV_SEND_SIGNALED});
    unsigned refused = 0;
    do
        if (count_rnr(pair) > refused)
            post_receive(b, 100 + refused++, 0, 8);
    while (network_step(pair->network));
    for (uint64_t i = 0; i < 8; i++) {
        expect_done(a->send_cq, i, IBV_WC_SEND);
        expect_wc(b->recv_cq, 100 + i, IBV_WC_SUCCESS);
    }
    expect_quiet(pair);
    ck_assert_uint_eq(refused, 8);
    pair_free(pair);
}
END_TEST

/* A WRITE WITH IMMEDIATE consumes its receive at its last packet: only that packet is refused and sent again. */
START_TEST(rnr_at_the_last_of_a_write)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    fill(a->memory, 5000, 8);
    post(a, b,
         &(struct work){
             .id = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 5000, .flags = IBV_SEND_SIGNALED});
    while (!count_rnr(pair))
        ck_assert(network_step(pair->network));
    ck_assert_uint_eq(find_rnr(pair, 0)->roce.psn, a->psn + 4);
    expect(filled(b->memory, 4096, 8), "the packets before the last were not executed");
    post_receive(b, 2, 0, 0);
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    struct ibv_wc wc = expect_wc(b->recv_cq, 2, IBV_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, 5000);
    expect(filled(b->memory, 5000, 8), "the data differ");
    ck_assert_uint_eq(count_packets(pair->network, 0, WRITE_FIRST), 1);
    ck_assert_uint_eq(count_packets(pair->network, 0, WRITE_LAST_IMM), 2);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: receiver not ready");
    TCase *tcase = new_case(suite, "receiver not ready");
    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, rnr_timer, 0, 32);
    tcase_add_loop_test(tcase, rnr_retry_count, 0, 7);
    tcase_add_test(tcase, rnr_retry_seven_is_for_ever);
    tcase_add_test(tcase, losses_meanwhile);
    tcase_add_test(tcase, progress_refills_the_rnr_count);
    tcase_add_test(tcase, rnr_at_the_last_of_a_write);
    return run_suite(suite);
}
