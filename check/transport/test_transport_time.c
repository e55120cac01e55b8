/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_time.c - timeouts and retries, and sequence errors: when, how often, and what follows. */
#include <string.h>
#include "check/support/endpoints.h"

#define MS 1000000ull

/* The local ACK timeout of verbs: a retry comes no earlier than T and no later than 4 T. */
static uint64_t ack_timeout(uint8_t code)
{
    return 4096ull << code;
}

/* Which packets the network loses. */
struct rule {
    int from;        /* packets of this node; -1: of both */
    unsigned spared; /* number of packets that are delivered before */
    unsigned most;   /* number of packets that are lost */
    unsigned seen, lost;
};

static enum fate lose(void *arg, const struct packet *packet)
{
    struct rule *rule = arg;
    if (rule->from >= 0 && packet->from != (unsigned)rule->from)
        return FATE_DELIVER;
    if (rule->seen++ < rule->spared || rule->lost == rule->most)
        return FATE_DELIVER;
    rule->lost++;
    return FATE_DROP;
}

/* ---- ACK timeout and retry count ---- */

/* Expects `count` transmissions of the packet with this PSN, T to 4 T apart, and the error T to 4 T after the last. */
static void check_transmissions(struct pair *pair, uint32_t psn, unsigned count)
{
    uint64_t timeout = ack_timeout(pair->setup.timeout);
    for (unsigned i = 0; i < count; i++) {
        const struct packet *packet = find_psn(pair->network, 0, psn, i),
                            *next = find_psn(pair->network, 0, psn, i + 1);
        expect(packet, "transmission %u of %u is missing", i, count);
        expect(!next == (i == count - 1), "there are not %u transmissions", count);
        expect_between((next ? next->time : network_now(pair->network)) - packet->time, timeout, 4 * timeout);
    }
}

static const uint8_t codes[] = {1, 8, 14, 18, 22};

START_TEST(retries_then_error)
{
    struct setup setup = setup_default();
    setup.retry_cnt = (uint8_t)(_i % 8);
    setup.timeout = codes[_i / 8];
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    network_set_script(pair->network, lose, &(struct rule){.from = 0, .most = 1000000});
    post_receive(a, 10, 0, 8);
    post_receive(b, 11, 0, 8);
    uint64_t start = network_now(pair->network), timeout = ack_timeout(setup.timeout);
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 8});
    post(a, b, &(struct work){.id = 2, .opcode = IBV_WR_RDMA_WRITE, .length = 8});
    post(a, b, &(struct work){.id = 3, .opcode = IBV_WR_RDMA_READ, .length = 8, .flags = IBV_SEND_SIGNALED});
    run(pair);
    unsigned transmissions = setup.retry_cnt + 1u;
    check_transmissions(pair, a->psn, transmissions);
    expect_between(network_now(pair->network) - start, transmissions * timeout, 4 * transmissions * timeout);
    expect_wc(a->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
    expect_wc(a->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->recv_cq, 10, IBV_WC_WR_FLUSH_ERR);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_RTS);
    ck_assert_uint_eq(counters_of(a).timeouts, transmissions);
    pair_free(pair);
}
END_TEST

/* C9-142 of the InfiniBand Test Specification: a READ that is not answered. */
START_TEST(outstanding_request_timeout_c9_142)
{
    struct setup setup = setup_default();
    setup.retry_cnt = 2;
    setup.timeout = 18;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    network_set_script(pair->network, lose, &(struct rule){.from = 0, .most = 1000000});
    post(a, &pair->end[1], &(struct work){.id = 5, .opcode = IBV_WR_RDMA_READ, .length = 1024});
    run(pair);
    ck_assert_uint_eq(count_packets(pair->network, 0, ROCE_NO_OPCODE), 3);
    ck_assert_uint_eq(count_packets(pair->network, 0, READ_REQUEST), 3);
    check_transmissions(pair, a->psn, 3);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(find_packet(pair->network, 0, READ_REQUEST, i)->roce.dma_length, 1024);
    ck_assert_int_eq(expect_wc(a->send_cq, 5, IBV_WC_RETRY_EXC_ERR).status, 12);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* Timeout 0: nothing is retransmitted without a NAK. A later request reveals the gap. */
START_TEST(timeout_zero_never_fires)
{
    struct setup setup = setup_default();
    setup.timeout = 0;
    setup.retry_cnt = 1;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    network_set_script(pair->network, lose, &(struct rule){.from = 0, .most = 1});
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED});
    run(pair);
    network_run_until(pair->network, network_now(pair->network) + 3600000 * MS);
    ck_assert_uint_eq(network_packets(pair->network), 1);
    expect_quiet(pair);
    post(a, b, &(struct work){.id = 2, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    expect_done(a->send_cq, 2, IBV_WC_RDMA_WRITE);
    pair_free(pair);
}
END_TEST

/* Each packet of a message is lost as often as the retry count permits: progress resets the counter. */
static enum fate lose_each_twice(void *arg, const struct packet *packet)
{
    uint8_t *lost = arg;
    if (packet->from != 0 || lost[packet->roce.psn & 63] == 2)
        return FATE_DELIVER;
    lost[packet->roce.psn & 63]++;
    return FATE_DROP;
}

START_TEST(progress_refills_the_retry_count)
{
    struct setup setup = setup_default();
    setup.retry_cnt = 2;
    setup.max_rd_atomic = 1;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    uint8_t lost[64] = {0};
    fill(a->memory, 20000, 4);
    network_set_script(pair->network, lose_each_twice, lost);
    post(a, b,
         &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 20000, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    for (uint64_t i = 0; i < 10; i++) {
        post(a, b,
             &(struct work){.id = i, .opcode = IBV_WR_RDMA_READ, .length = 10, .flags = IBV_SEND_SIGNALED});
        run(pair);
        expect_done(a->send_cq, i, IBV_WC_RDMA_READ);
    }
    expect(filled(b->memory, 20000, 4), "the data differ");
    pair_free(pair);
}
END_TEST

/* Without outstanding requests no timer runs. With one, a single timer runs, and an acknowledgement stops it. */
START_TEST(no_timer_when_idle)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    ck_assert_uint_eq(network_next(pair->network), NEVER_NS);
    uint64_t start = network_now(pair->network);
    post(a, b, &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = 8});
    soft_lock(a->context);
    uint64_t deadline = soft_deadline(a->context);
    soft_unlock(a->context);
    expect_between(deadline - start, ack_timeout(setup.timeout), 4 * ack_timeout(setup.timeout));
    run(pair);
    ck_assert_uint_le(network_now(pair->network) - start, 2 * NETWORK_LATENCY);
    ck_assert_uint_eq(network_next(pair->network), NEVER_NS);
    pair_free(pair);
}
END_TEST

/* Acknowledgements are lost: the responder acknowledges the duplicates again, and executes nothing twice. */
START_TEST(lost_acknowledgement)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    network_set_script(pair->network, lose, &(struct rule){.from = 1, .most = 5});
    for (uint64_t i = 0; i < 3; i++)
        post_receive(b, i, 0, 8);
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 8, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_SEND);
    expect_wc(b->recv_cq, 0, IBV_WC_SUCCESS);
    expect_quiet(pair);
    ck_assert_uint_eq(count_packets(pair->network, 0, SEND_ONLY), 6);
    ck_assert_uint_eq(counters_of(b).duplicates, 5);
    ck_assert_uint_eq(counters_of(a).retransmitted, 5);
    ck_assert_uint_eq(soft_query_retransmitted(a->qp), 5);
    pair_free(pair);
}
END_TEST

/* ---- Sequence errors ---- */

START_TEST(sequence_error_retransmits_at_once)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    network_set_script(pair->network, lose, &(struct rule){.from = 0, .spared = (unsigned)_i, .most = 1});
    fill(a->memory, 10 * 1024, 2);
    uint64_t start = network_now(pair->network);
    post(a, b,
         &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 10 * 1024, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    expect(filled(b->memory, 10 * 1024, 2), "the data differ");
    ck_assert_uint_lt(network_now(pair->network) - start, ack_timeout(setup.timeout));
    ck_assert_uint_eq(counters_of(b).naks_sent, 1); /* one for the gap, not one for each packet behind it */
    ck_assert_uint_eq(counters_of(a).naks_received, 1);
    ck_assert_uint_eq(counters_of(a).timeouts, 0);
    for (unsigned i = 0; i < network_packets(pair->network); i++) {
        const struct roce *roce = &network_packet(pair->network, i)->roce;
        if (roce->opcode == ACKNOWLEDGE && roce->syndrome == SYNDROME_SEQUENCE)
            ck_assert_uint_eq(roce->psn, a->psn + (unsigned)_i);
    }
    ck_assert_ptr_nonnull(find_psn(pair->network, 0, a->psn + (unsigned)_i, 1));
    if (_i)
        ck_assert_ptr_null(find_psn(pair->network, 0, a->psn + (unsigned)_i - 1, 1));
    pair_free(pair);
}
END_TEST

/* ---- The link reports lost packets ---- */

static void overflow_at(struct end *end, in_port_t port)
{
    soft_lock(end->context);
    soft_overflow(end->context, port);
    soft_flush(end->context);
    soft_unlock(end->context);
}

static void overflow(struct end *end)
{
    overflow_at(end, 0);
}

/* The end of a message is lost, so no later packet reveals the gap; the repetition does not wait for a timeout. */
START_TEST(overflow_asks_again_at_once)
{
    struct setup setup = setup_default();
    setup.retry_cnt = 1;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    fill(a->memory, 10240, 8);
    uint64_t start = network_now(pair->network);
    network_set_script(pair->network, lose, &(struct rule){.from = 0, .spared = _i < 2 ? 5 : 2, .most = 5});
    if (_i < 2)
        post(a, b,
             &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 10240, .flags = IBV_SEND_SIGNALED});
    else
        post(b, a,
             &(struct work){.id = 1, .opcode = IBV_WR_RDMA_READ, .length = 5000, .flags = IBV_SEND_SIGNALED});
    network_run_until(pair->network, start + 10 * NETWORK_LATENCY);
    struct end *requester = _i < 2 ? a : b;
    expect_none(requester->send_cq);
    network_set_script(pair->network, NULL, NULL);
    overflow(_i == 0 ? b : _i == 1 ? a : requester); /* the responder, or the requester, has lost packets */
    run(pair);
    expect_wc(requester->send_cq, 1, IBV_WC_SUCCESS);
    ck_assert_uint_lt(network_now(pair->network) - start, ack_timeout(setup.timeout));
    ck_assert_uint_eq(counters_of(requester).timeouts, 0);
    ck_assert_uint_eq(counters_of(_i == 0 ? b : requester).overflows, 1);
    if (_i < 2)
        expect(filled(b->memory, 10240, 8), "the data differ");
    pair_free(pair);
}
END_TEST

START_TEST(overflow_with_nothing_missing)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (uint64_t i = 0; i < 20; i++) {
        overflow(a);
        overflow(b);
        post(a, b,
             &(struct work){.id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED});
        overflow(a);
        overflow(b);
        run(pair);
        overflow(b);
        overflow(a);
        run(pair);
        expect_done(a->send_cq, i, IBV_WC_RDMA_WRITE);
        expect_quiet(pair);
    }
    pair_free(pair);
}
END_TEST

/* Packets lost at one port of the receiver are not those of a peer that sends to another port. */
START_TEST(overflow_at_a_port)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct soft_path path;
    network_path(pair->network, b->node, a->node, &path);
    path.local.in.sin_port = htons(1000); /* at the same offset in sockaddr_in6 */
    soft_set_path(b->qp, &path);
    network_set_script(pair->network, lose, &(struct rule){.from = 0, .spared = 5, .most = 5});
    post(a, b,
         &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 10240, .flags = IBV_SEND_SIGNALED});
    network_run_until(pair->network, network_now(pair->network) + 10 * NETWORK_LATENCY);
    network_set_script(pair->network, NULL, NULL);
    overflow_at(b, htons(1001));
    ck_assert_uint_eq(counters_of(b).naks_sent, 0);
    overflow_at(b, htons(1000));
    ck_assert_uint_eq(counters_of(b).naks_sent, 1);
    run(pair);
    expect_wc(a->send_cq, 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(counters_of(a).timeouts, 0);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: time");
    TCase *retries = new_case(suite, "retries");
    tcase_set_timeout(retries, 20);
    tcase_add_loop_test(retries, retries_then_error, 0, 8 * sizeof codes);
    tcase_add_test(retries, outstanding_request_timeout_c9_142);
    tcase_add_test(retries, timeout_zero_never_fires);
    tcase_add_test(retries, progress_refills_the_retry_count);
    tcase_add_test(retries, no_timer_when_idle);
    tcase_add_test(retries, lost_acknowledgement);
    tcase_add_loop_test(retries, sequence_error_retransmits_at_once, 0, 9);
    tcase_add_loop_test(retries, overflow_asks_again_at_once, 0, 3);
    tcase_add_test(retries, overflow_with_nothing_missing);
    tcase_add_test(retries, overflow_at_a_port);
    return run_suite(suite);
}
