/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_loss.c - how many round trips of the virtual network the engine needs to recover from a loss.
 *
 * The ACK timeout of these connections is seconds, so it can't be the cause of a recovery. Before each loss a few
 * messages let the engine measure the round-trip time.
 */
#include <string.h>
#include "check/support/endpoints.h"

#define ROUND_TRIP (2ull * NETWORK_LATENCY)
#define TIMEOUT 20 /* 4.3 s */
#define LONG 40000 /* bytes: 40 packets */

/* Packets to lose: of those that node `from` sends and `concerns` selects, `most` packets after the first `spared`. */
struct loss {
    unsigned from, spared, most, seen, lost;
    bool (*concerns)(const struct packet *packet);
};

static bool is_request(const struct packet *packet)
{
    return packet->roce.opcode < READ_RESPONSE_FIRST || packet->roce.opcode > ATOMIC_ACKNOWLEDGE;
}

static bool is_nak(const struct packet *packet)
{
    return packet->roce.opcode == ACKNOWLEDGE && packet->roce.syndrome == SYNDROME_SEQUENCE;
}

static bool is_answer(const struct packet *packet)
{
    return !is_request(packet);
}

static enum fate lose(void *arg, const struct packet *packet)
{
    struct loss *loss = arg;
    if (packet->from != loss->from || !loss->concerns(packet))
        return FATE_DELIVER;
    if (loss->seen++ < loss->spared || loss->lost == loss->most)
        return FATE_DELIVER;
    loss->lost++;
    return FATE_DROP;
}

static void post_work(struct pair *pair, enum ibv_wr_opcode opcode, size_t length)
{
    size_t half = opcode == IBV_WR_RDMA_READ ? pair->setup.memory / 2 : 0;
    post(&pair->end[0], &pair->end[1],
         &(struct work){
             .opcode = opcode, .length = length, .at = half, .target = half, .flags = IBV_SEND_SIGNALED});
}

/* A pair that has measured the round-trip time. */
static struct pair *acquainted(uint8_t retry_cnt)
{
    struct setup setup = setup_default();
    setup.timeout = TIMEOUT;
    setup.retry_cnt = retry_cnt;
    setup.memory = 4 << 20;
    setup.qp_access = setup.mr_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC;
    struct pair *pair = pair_new(&setup);
    fill(pair->end[0].memory, setup.memory / 2, 3);
    fill(pair->end[1].memory + setup.memory / 2, setup.memory / 2 - 8, 3);
    for (int i = 0; i < 8; i++) {
        post_work(pair, IBV_WR_RDMA_WRITE, 64);
        run(pair);
        expect_wc(pair->end[0].send_cq, 0, IBV_WC_SUCCESS);
    }
    network_forget(pair->network);
    return pair;
}

/* Adds 1 to the last word. */
static void post_atomic(struct pair *pair)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_sge sge = {.addr = (uintptr_t)a->memory, .length = 8, .lkey = a->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge,
              .num_sge = 1,
              .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
              .send_flags = IBV_SEND_SIGNALED,
              .wr.atomic = {
                  .remote_addr = (uintptr_t)b->memory + b->size - 8, .compare_add = 1, .rkey = b->rkey}};
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
}

/* Expects the data that this operation leaves. */
static void expect_data(struct pair *pair, enum ibv_wr_opcode opcode, size_t length)
{
    uint8_t *a = pair->end[0].memory, *b = pair->end[1].memory;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        ck_assert_mem_eq(b + pair->end[1].size - 8, &(uint64_t){1}, 8);
    else if (opcode == IBV_WR_RDMA_READ)
        expect(filled(a + pair->setup.memory / 2, length, 3), "the data differ");
    else
        expect(filled(b, length, 3), "the data differ");
}

/* Posts the operation. Returns the number of round trips until it completes. */
static uint64_t round_trips(struct pair *pair, enum ibv_wr_opcode opcode, size_t length)
{
    struct end *a = &pair->end[0];
    uint64_t start = network_now(pair->network), end;
    struct ibv_wc wc;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        post_atomic(pair);
    else
        post_work(pair, opcode, length);
    while (ibv_poll_cq(a->send_cq, 1, &wc) == 0)
        ck_assert(network_step(pair->network));
    ck_assert_msg(wc.status == IBV_WC_SUCCESS, "%s", soft_wc_status_str(wc.status));
    end = network_now(pair->network);
    run(pair);
    expect_data(pair, opcode, length);
    ck_assert_uint_eq(counters_of(a).timeouts, 0);
    return (end - start + ROUND_TRIP - 1) / ROUND_TRIP;
}

/* ---- One loss, or a few ---- */

static const struct {
    const char *name;
    struct loss loss;
    enum ibv_wr_opcode opcode;
    size_t length;
    uint64_t most; /* maximum number of round trips */
} losses[] = {
    {"nothing", {0, 0, 0, .concerns = is_request}, IBV_WR_RDMA_WRITE, LONG, 3},
    {"the first packet", {0, 0, 1, .concerns = is_request}, IBV_WR_RDMA_WRITE, LONG, 5},
    {"one in the middle", {0, 17, 1, .concerns = is_request}, IBV_WR_RDMA_WRITE, LONG, 5},
    {"the last one", {0, 39, 1, .concerns = is_request}, IBV_WR_RDMA_WRITE, LONG, 8},
    {"the last ten", {0, 30, 10, .concerns = is_request}, IBV_WR_RDMA_WRITE, LONG, 10},
    {"the only one", {0, 0, 1, .concerns = is_request}, IBV_WR_RDMA_WRITE, 64, 6},
    {"the only one, twice", {0, 0, 2, .concerns = is_request}, IBV_WR_RDMA_WRITE, 64, 12},
    {"a whole flight", {0, 0, 32, .concerns = is_request}, IBV_WR_RDMA_WRITE, LONG, 10},
    {"a flight's acknowledgement", {1, 0, 1, .concerns = is_answer}, IBV_WR_RDMA_WRITE, LONG, 8},
    {"it, and three more", {1, 0, 4, .concerns = is_answer}, IBV_WR_RDMA_WRITE, LONG, 40},
    {"the only acknowledgement", {1, 0, 1, .concerns = is_answer}, IBV_WR_RDMA_WRITE, 64, 6},
    {"an atomic", {0, 0, 1, .concerns = is_request}, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 6},
    {"an atomic's result", {1, 0, 1, .concerns = is_answer}, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 6},
    {"a READ", {0, 0, 1, .concerns = is_request}, IBV_WR_RDMA_READ, LONG, 8},
    {"a READ's first answer", {1, 0, 1, .concerns = is_answer}, IBV_WR_RDMA_READ, LONG, 8},
    {"a READ's last answers", {1, 36, 4, .concerns = is_answer}, IBV_WR_RDMA_READ, LONG, 10},
    {"all of a READ's answers", {1, 0, 40, .concerns = is_answer}, IBV_WR_RDMA_READ, LONG, 12},
};

START_TEST(a_loss_costs_round_trips)
{
    struct pair *pair = acquainted(7);
    struct loss loss = losses[_i].loss;
    network_set_script(pair->network, lose, &loss);
    uint64_t took = round_trips(pair, losses[_i].opcode, losses[_i].length);
    ck_assert_uint_eq(loss.lost, loss.most);
    ck_assert_msg(took <= losses[_i].most, "%s: %llu round trips, not %llu", losses[_i].name,
                  (unsigned long long)took, (unsigned long long)losses[_i].most);
    pair_free(pair);
}
END_TEST

/* Lost: the NAK for a gap, or the packet that it asks for, several times. */
struct again {
    uint32_t psn;
    unsigned most, lost, naks;
};

static enum fate lose_again(void *arg, const struct packet *packet)
{
    struct again *again = arg;
    if (packet->from == 1 && is_nak(packet) && again->naks > 0) {
        again->naks--;
        return FATE_DROP;
    }
    if (packet->from != 0 || packet->roce.psn != again->psn || again->lost == again->most)
        return FATE_DELIVER;
    again->lost++;
    return FATE_DROP;
}

static const struct {
    unsigned times, naks;
    uint64_t most;
} repeats[] = {{1, 1, 10}, {2, 0, 6}, {3, 0, 8}, {5, 0, 14}, {2, 1, 20}, {10, 0, 40}};

/* Also more often than the retry count permits, because the peer answers with NAKs. */
START_TEST(a_repetition_is_lost)
{
    struct pair *pair = acquainted(1);
    struct again again = {
        .psn = roce_psn(pair->end[0].psn + 8 + 11), .most = repeats[_i].times, .naks = repeats[_i].naks};
    network_set_script(pair->network, lose_again, &again);
    uint64_t took = round_trips(pair, IBV_WR_RDMA_WRITE, LONG);
    ck_assert_uint_eq(again.lost, again.most);
    ck_assert_msg(took <= repeats[_i].most, "%llu round trips, not %llu", (unsigned long long)took,
                  (unsigned long long)repeats[_i].most);
    pair_free(pair);
}
END_TEST

/* ---- Many losses ---- */

static enum fate lose_some(void *arg, const struct packet *packet)
{
    uint64_t *dice = arg;
    (void)packet;
    return random_next(dice) % 100 < 5 ? FATE_DROP : FATE_DELIVER;
}

/* One packet in twenty is lost, in both directions, for a megabyte: most windows of 32 packets lose one. */
START_TEST(a_lossy_way)
{
    struct pair *pair = acquainted(1);
    uint64_t dice = (uint64_t)_i + 1;
    network_set_script(pair->network, lose_some, &dice);
    network_keep_bytes(pair->network, false);
    uint64_t took = round_trips(pair, _i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1 << 19);
    ck_assert_msg(took <= 400, "%llu round trips", (unsigned long long)took);
    pair_free(pair);
}
END_TEST

/* ---- A peer that is not there ---- */

/* The connection is given up at the same time with and without an estimate of the round trip, and no probe is sent
 * after the first ACK timeout. */
START_TEST(silence_ends_as_ever)
{
    struct pair *pair = acquainted(2);
    struct end *a = &pair->end[0];
    struct loss all = {.from = 0, .most = UINT32_MAX, .concerns = is_request};
    uint64_t start = network_now(pair->network), timeout = 4096ull << TIMEOUT, last = 0;
    unsigned packets = 0;
    network_set_script(pair->network, lose, &all);
    post_work(pair, IBV_WR_RDMA_WRITE, 64);
    run(pair);
    expect_wc(a->send_cq, 0, IBV_WC_RETRY_EXC_ERR);
    expect_between(network_now(pair->network) - start, 3 * timeout, 3 * timeout + ROUND_TRIP);
    for (unsigned i = 0; i < network_packets(pair->network); i++) {
        const struct packet *packet = network_packet(pair->network, i);
        packets += packet->time >= start + timeout;
        last = packet->time > start && packet->time < start + timeout ? packet->time : last;
    }
    ck_assert_uint_eq(packets, 2);                /* one for each retry */
    ck_assert_uint_gt(last, 0);                   /* there were probes before, */
    ck_assert_uint_le(counters_of(a).probes, 12); /* at growing intervals */
    ck_assert_uint_eq(counters_of(a).timeouts, 3);
    pair_free(pair);
}
END_TEST

/* The path delivers short packets and drops long ones, like a tunnel whose MTU is not reported: the requests, or the
 * READ responses. The short packet behind them causes a NAK, and each repetition is lost again. */
static enum fate lose_long(void *arg, const struct packet *packet)
{
    const unsigned *from = arg;
    return packet->from == *from && packet->length > 500 ? FATE_DROP : FATE_DELIVER;
}

START_TEST(a_way_for_short_packets_alone_is_not_flooded)
{
    struct pair *pair = acquainted(2);
    struct end *a = &pair->end[0];
    unsigned from = (unsigned)_i, packets;
    uint64_t timeout = 4096ull << TIMEOUT, start = network_now(pair->network);
    network_set_script(pair->network, lose_long, &from);
    network_keep_bytes(pair->network, false);
    post_work(pair, _i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 4 * 1024 + 64);
    network_run_until(pair->network, start + timeout / 100);
    packets = network_packets(pair->network);
    ck_assert_msg(packets <= 300, "%u packets", packets);
    network_run_until(pair->network, start + 5 * timeout);
    expect_wc(a->send_cq, 0, IBV_WC_RETRY_EXC_ERR);
    ck_assert_msg(network_packets(pair->network) - packets <= 200, "%u packets later",
                  network_packets(pair->network) - packets);
    pair_free(pair);
}
END_TEST

/* ---- An attacker ---- */

/* Forged packets ahead of the expected PSN make the receiver send NAKs for packets that were not lost. That costs the
 * sender no more than some repeated packets. */
START_TEST(a_forged_packet_does_not_slow_down)
{
    struct pair *pair = acquainted(1);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    uint8_t packet[ROCE_MAX];
    unsigned forged = 0;
    struct ibv_wc wc;
    uint64_t quiet = round_trips(pair, IBV_WR_RDMA_WRITE, 2 << 20), start = network_now(pair->network);
    post_work(pair, IBV_WR_RDMA_WRITE, 2 << 20);
    while (ibv_poll_cq(a->send_cq, 1, &wc) == 0) {
        struct roce roce = {.opcode = WRITE_ONLY,
                            .migreq = true,
                            .pkey = 0xffff,
                            .qpn = b->qpn,
                            .psn = roce_psn(a->psn + 10000 - forged++)};
        network_inject(pair->network, 0, 1, packet, roce_write(packet, &roce));
        for (int i = 0; i < 4 && network_step(pair->network); i++)
            ;
    }
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_uint_gt(counters_of(a).naks_received, 4);
    uint64_t took = (network_now(pair->network) - start) / ROUND_TRIP;
    ck_assert_msg(took <= quiet + quiet / 4 + 2, "%llu round trips, and %llu without", (unsigned long long)took,
                  (unsigned long long)quiet);
    pair_free(pair);
}
END_TEST

/* ---- Many into one ---- */

#define LINES 64
#define EACH (1 << 18)
#define ROOM 96   /* packets that the receiver's socket can hold */
#define SERVED 25 /* ns to process one of them */

/* The receiver's socket: packets beyond its size are lost. */
struct bucket {
    unsigned to;
    uint64_t time;
    uint64_t fill; /* ns of waiting work */
    unsigned lost;
};

static enum fate pour(void *arg, const struct packet *packet)
{
    struct bucket *bucket = arg;
    uint64_t passed = packet->time - bucket->time;
    if (packet->to != bucket->to)
        return FATE_DELIVER;
    bucket->fill = bucket->fill > passed ? bucket->fill - passed : 0;
    bucket->time = packet->time;
    if (bucket->fill + SERVED > ROOM * SERVED) {
        bucket->lost++;
        return FATE_DROP;
    }
    bucket->fill += SERVED;
    return FATE_DELIVER;
}

/* One connection of many. */
struct line {
    struct end end[2];
};

static void line_post(struct line *line, size_t length)
{
    post(&line->end[0], &line->end[1],
         &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = length, .flags = IBV_SEND_SIGNALED});
}

static void line_open(struct line *line, struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        line->end[i] = pair->end[i];
        line->end[i].qp = qp_new(&line->end[i], &pair->setup);
        line->end[i].qpn = line->end[i].qp->qp_num;
    }
    for (int i = 0; i < 2; i++)
        qp_connect(&line->end[i], line->end[i].qp, line->end[!i].node, line->end[!i].qpn, 0x100, 0x100,
                   &pair->setup);
    for (int i = 0; i < 8; i++) {
        line_post(line, 64);
        run(pair);
        expect_wc(pair->end[0].send_cq, 0, IBV_WC_SUCCESS);
    }
}

/* The link reports lost packets each time its socket is empty. */
static void run_link(struct pair *pair, struct bucket *bucket)
{
    unsigned known = 0;
    while (network_step(pair->network)) {
        if (bucket->lost == known || network_now(pair->network) < bucket->time + bucket->fill)
            continue;
        known = bucket->lost;
        soft_lock(pair->end[1].context);
        soft_overflow(pair->end[1].context, 0);
        soft_unlock(pair->end[1].context);
    }
}

/* Many senders at the same time, to a receiver whose socket holds a part of their windows. The receiver is busy most of
 * the time, and no connection uses up its retries, although there is only one. */
START_TEST(incast)
{
    struct setup setup = setup_default();
    struct line lines[LINES];
    setup.timeout = TIMEOUT;
    setup.retry_cnt = 1;
    setup.memory = EACH;
    struct pair *pair = pair_new(&setup);
    struct bucket bucket = {.to = pair->end[1].node};
    network_keep_bytes(pair->network, false);
    for (int i = 0; i < LINES; i++)
        line_open(&lines[i], pair);
    network_set_script(pair->network, pour, &bucket);
    uint64_t start = network_now(pair->network);
    for (int i = 0; i < LINES; i++)
        line_post(&lines[i], EACH);
    run_link(pair, &bucket);
    for (int i = 0; i < LINES; i++)
        expect_wc(pair->end[0].send_cq, 0, IBV_WC_SUCCESS);
    uint64_t took = network_now(pair->network) - start, least = (uint64_t)LINES * EACH / 1024 * SERVED;
    ck_assert_msg(took <= 2 * least, "%llu ns, of which %llu were work", (unsigned long long)took,
                  (unsigned long long)least);
    ck_assert_uint_gt(bucket.lost, 0);
    for (int i = 0; i < LINES; i++)
        for (int side = 0; side < 2; side++)
            ck_assert_int_eq(soft_destroy_qp(lines[i].end[side].qp), 0);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: loss");
    TCase *tcase = new_case(suite, "loss");
    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, a_loss_costs_round_trips, 0, sizeof losses / sizeof *losses);
    tcase_add_loop_test(tcase, a_repetition_is_lost, 0, sizeof repeats / sizeof *repeats);
    tcase_add_loop_test(tcase, a_lossy_way, 0, 10);
    tcase_add_test(tcase, silence_ends_as_ever);
    tcase_add_loop_test(tcase, a_way_for_short_packets_alone_is_not_flooded, 0, 2);
    tcase_add_test(tcase, a_forged_packet_does_not_slow_down);
    tcase_add_test(tcase, incast);
    return run_suite(suite);
}
