/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_bursts.c - how many bursts (UDP GSO batches) a long message takes, which is most of its cost on the UDP link.
 * All packets of a burst but the last have the same length, and acknowledgements must not add bursts.
 */
#include "check/support/endpoints.h"
#include "soft/engine/engine.h"

#define MTU 4096
#define PACKETS 16
#define LENGTH ((size_t)PACKETS * MTU)
#define WINDOW 32 /* packets that may be sent before any is acknowledged */

static struct pair *begin(void)
{
    struct setup setup = setup_default();
    setup.mtu = IBV_MTU_4096;
    setup.memory = 1 << 20;
    setup.pull = true;
    struct pair *pair = pair_new(&setup);
    for (uint64_t i = 0; i < 8; i++) {
        post_receive(&pair->end[0], i, 0, 0);
        post_receive(&pair->end[1], i, 0, 0);
    }
    return pair;
}

static void write_with_news(struct pair *pair, int from)
{
    post(&pair->end[from], &pair->end[!from],
         &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = LENGTH});
}

/* Posts an RDMA WRITE of the payload, and in the same call an empty WRITE WITH IMMEDIATE behind it. */
static void write_and_tell(struct pair *pair, int from)
{
    struct end *end = &pair->end[from], *to = &pair->end[!from];
    struct ibv_sge sge = {(uintptr_t)end->memory, LENGTH, end->mr->lkey};
    struct ibv_send_wr *bad, news = {.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM},
                             bytes = {.wr_id = 1,
                                      .opcode = IBV_WR_RDMA_WRITE,
                                      .sg_list = &sge,
                                      .num_sge = 1,
                                      .next = &news,
                                      .wr.rdma = {.remote_addr = (uintptr_t)to->memory, .rkey = to->rkey}};
    ck_assert_int_eq(soft_post_send(end->qp, &bytes, &bad), 0);
}

/* Processes received packets like an application that polls: the acknowledgement is delayed, because the application
 * may send a message that can carry it. */
static void take_in(struct pair *pair, int side)
{
    struct ibv_context *context = pair->end[side].context;
    network_arrive(pair->network);
    soft_lock(context);
    soft_progress_delaying_acks(soft_context_of(context));
    soft_unlock(context);
}

/* Number of bursts from packet number `first` of the log on. */
static unsigned bursts_from(struct pair *pair, unsigned first)
{
    unsigned last = network_packets(pair->network);
    return last == first ? 0
                         : network_packet(pair->network, last - 1)->burst -
                               network_packet(pair->network, first)->burst + 1;
}

static unsigned packets_of(struct pair *pair, unsigned burst)
{
    unsigned count = 0;
    for (unsigned i = 0; i < network_packets(pair->network); i++)
        count += network_packet(pair->network, i)->burst == burst;
    return count;
}

/* The first packet has a RETH and the last one immediate data, so both are longer than the others, and each takes its
 * own burst. */
START_TEST(news_at_the_end)
{
    struct pair *pair = begin();
    write_with_news(pair, 0);
    ck_assert_uint_eq(network_packets(pair->network), PACKETS);
    ck_assert_uint_eq(bursts_from(pair, 0), 3);
    run(pair);
    pair_free(pair);
}
END_TEST

/* A separate WRITE WITH IMMEDIATE is a short packet, which ends the burst of the payload. */
START_TEST(news_apart)
{
    struct pair *pair = begin();
    write_and_tell(pair, 0);
    ck_assert_uint_eq(network_packets(pair->network), PACKETS + 1);
    ck_assert_uint_eq(bursts_from(pair, 0), 2);
    ck_assert_uint_eq(packets_of(pair, 0), 2);
    ck_assert_uint_eq(network_packet(pair->network, PACKETS)->roce.opcode, WRITE_ONLY_IMM);
    run(pair);
    ck_assert_uint_eq(expect_wc(pair->end[1].recv_cq, 0, IBV_WC_SUCCESS).byte_len, 0);
    pair_free(pair);
}
END_TEST

static unsigned taken_until_told(struct pair *pair)
{
    struct ibv_wc wc;
    unsigned times = 0;
    do {
        ck_assert_uint_lt(times++, WINDOW);
        take_in(pair, 1);
    } while (soft_cq_take((struct soft_cq *)pair->end[1].recv_cq, 1, &wc) == 0);
    return times;
}

/* The acknowledgement of a long message is delayed while the sender has most of its window left: the receiver will
 * probably answer, and its message then carries the acknowledgement. */
START_TEST(acknowledgement_of_a_long_message)
{
    struct pair *pair = begin();
    write_and_tell(pair, 0);
    ck_assert_uint_gt(taken_until_told(pair), 1);
    ck_assert_uint_eq(bursts_from(pair, PACKETS + 1), 0);
    post(&pair->end[1], &pair->end[0], &(struct work){.opcode = IBV_WR_SEND, .length = 64});
    ck_assert_uint_eq(network_packets(pair->network), PACKETS + 1 + 2);
    ck_assert_uint_eq(bursts_from(pair, PACKETS + 1), 1);
    ck_assert_uint_eq(network_packet(pair->network, PACKETS + 2)->roce.opcode, ACKNOWLEDGE);
    run(pair);
    pair_free(pair);
}
END_TEST

/* The acknowledgement of a whole window is not delayed, because the sender waits for it. */
START_TEST(acknowledgement_of_a_window)
{
    struct pair *pair = begin();
    for (int i = 0; i < 2; i++)
        write_and_tell(pair, 0);
    ck_assert_uint_eq(network_packets(pair->network), WINDOW);
    while (network_packets(pair->network) == WINDOW && counters_of(&pair->end[1]).packets_received < WINDOW)
        take_in(pair, 1);
    ck_assert_uint_gt(network_packets(pair->network), WINDOW);
    ck_assert_uint_eq(network_packet(pair->network, WINDOW)->roce.opcode, ACKNOWLEDGE);
    run(pair);
    pair_free(pair);
}
END_TEST

/* A receiver that delays acknowledgements, because it polls and may answer, does not stall a message that is longer
 * than the window. */
START_TEST(windows_to_the_patient)
{
    struct pair *pair = begin();
    post(&pair->end[0], &pair->end[1],
         &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = (size_t)3 * WINDOW * MTU});
    for (int looks = 0; looks < 40; looks++) {
        for (int i = 0; i < 20; i++)
            take_in(pair, 1);
        take_in(pair, 0);
    }
    ck_assert_uint_eq(counters_of(&pair->end[1]).packets_received, 3 * WINDOW);
    run(pair);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: bursts");
    TCase *tcase = new_case(suite, "bursts");
    tcase_add_test(tcase, news_at_the_end);
    tcase_add_test(tcase, news_apart);
    tcase_add_test(tcase, acknowledgement_of_a_long_message);
    tcase_add_test(tcase, acknowledgement_of_a_window);
    tcase_add_test(tcase, windows_to_the_patient);
    return run_suite(suite);
}
