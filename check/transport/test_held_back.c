/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_held_back.c - what fills no train, where packets are coalesced, waits for more, for what is posted next or for an
 * acknowledgement, as long as its user looks on. So it has to come whoever posts nothing more, whatever is lost, without
 * a timer where nothing is, and at once where he does not look on.
 */
#include <string.h>
#include "check/support/endpoints.h"
#include "core/soft/engine/engine.h"

enum { MTU = 4096, TRAIN = 15, WINDOW = 32, AREA = 1 << 20, LOOKS = 200 };

static atomic_bool looks_on; /* who posts */

static struct pair *begin_with(enum ibv_qp_type type, bool pull)
{
    struct setup setup = setup_default();
    setup.mtu = IBV_MTU_4096;
    setup.memory = AREA;
    setup.coalesced = true;
    setup.pull = pull;
    setup.type = type;
    setup.send_depth = setup.recv_depth = 128;
    setup.qp_access = setup.mr_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC;
    setup.timeout = 16; /* 268 ms */
    struct pair *pair = pair_new(&setup);
    fill(pair->end[0].memory, AREA, 7);
    for (int i = 0; i < 2; i++)
        soft_follow(pair->end[i].context, &looks_on);
    atomic_store(&looks_on, true);
    return pair;
}

/* He has other things to do. */
static void leave_off(struct pair *pair)
{
    atomic_store(&looks_on, false);
    for (int i = 0; i < 2; i++)
        soft_rest(pair->end[i].context);
    run(pair);
    atomic_store(&looks_on, true);
}

static struct pair *begin_as(bool pull)
{
    return begin_with(IBV_QPT_RC, pull);
}

static void write_packets(struct pair *pair, uint64_t id, size_t packets)
{
    post(&pair->end[0], &pair->end[1],
         &(struct work){
             .id = id, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .length = packets * MTU});
}

static void expect_no_timer(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        struct soft_counters counters = counters_of(&pair->end[i]);
        ck_assert_uint_eq(counters.timeouts, 0);
        ck_assert_uint_eq(counters.probes, 0);
        ck_assert_uint_eq(counters.retransmitted, 0);
        ck_assert_uint_eq(counters.naks_sent, 0);
    }
}

static void expect_written(struct pair *pair, uint64_t messages)
{
    for (uint64_t id = 0; id < messages; id++)
        expect_done(pair->end[0].send_cq, id, IBV_WC_RDMA_WRITE);
    expect_none(pair->end[0].send_cq);
}

/* One look of a program that polls: how many completions it has, which are good. Neither clock nor anybody else helps. */
static unsigned polled(struct pair *pair, struct ibv_cq *cq)
{
    struct ibv_wc wc;
    network_arrive(pair->network);
    int count = soft_poll_cq(cq, 1, &wc);
    ck_assert_int_ge(count, 0);
    ck_assert(count == 0 || wc.status == IBV_WC_SUCCESS);
    return (unsigned)count;
}

/* ---- When ---- */

/* The third message's last packet waits behind two trains, and so does the fourth's; what is posted next takes it along. */
START_TEST(until_more_is_posted)
{
    struct pair *pair = begin_as(true);
    write_packets(pair, 0, TRAIN);
    write_packets(pair, 1, TRAIN);
    ck_assert_uint_eq(network_packets(pair->network), 2 * TRAIN);
    write_packets(pair, 2, 1);
    ck_assert_uint_eq(network_packets(pair->network), 2 * TRAIN);
    write_packets(pair, 3, 1);
    ck_assert_uint_eq(network_packets(pair->network), 2 * TRAIN);
    leave_off(pair);
    expect_written(pair, 4);
    expect_no_timer(pair);
    const struct packet *third =
        network_packet(pair->network, find_packet(pair->network, 0, WRITE_ONLY, 0)->number);
    ck_assert_uint_eq(find_packet(pair->network, 0, WRITE_ONLY, 1)->train, third->train);
    pair_free(pair);
}
END_TEST

/* A message alone does not, however long, nor the first of many that fills nothing. */
START_TEST(nothing_alone)
{
    static const size_t packets[] = {
        1, 2, TRAIN - 1, TRAIN, TRAIN + 1, 2 * TRAIN - 1, 2 * TRAIN, 2 * TRAIN + 1};
    struct pair *pair = begin_as(true);
    write_packets(pair, 0, packets[_i]);
    ck_assert_uint_eq(network_packets(pair->network), packets[_i]);
    leave_off(pair);
    expect_written(pair, 1);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* As long as less than two trains are under way there is nothing to wait for. */
START_TEST(little_under_way)
{
    struct pair *pair = begin_as(true);
    for (unsigned sent = 1; sent < 2 * TRAIN; sent++) {
        write_packets(pair, sent - 1, 1);
        ck_assert_uint_eq(network_packets(pair->network), sent);
    }
    leave_off(pair);
    expect_written(pair, 2 * TRAIN - 1);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* What fills a train does not wait, however much is under way, and of what fills one and a bit only the bit. */
START_TEST(whole_trains)
{
    enum { TRAINS = 6, MORE = 3 };
    struct pair *pair = begin_as(true);
    soft_qp_of(pair->end[0].qp)->req.recovery.window = SOFT_WINDOW_MAX;
    for (unsigned i = 0; i < TRAINS; i++) {
        write_packets(pair, i, TRAIN);
        ck_assert_uint_eq(network_packets(pair->network), (i + 1) * TRAIN);
    }
    write_packets(pair, TRAINS, TRAIN + MORE);
    ck_assert_uint_eq(network_packets(pair->network), (TRAINS + 1) * TRAIN);
    leave_off(pair);
    expect_written(pair, TRAINS + 1);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* The peer has nothing to take in when a READ alone is under way, whose answer may take long. */
START_TEST(behind_a_read)
{
    struct pair *pair = begin_as(true);
    post(&pair->end[0], &pair->end[1],
         &(struct work){.id = 0,
                        .opcode = IBV_WR_RDMA_READ,
                        .flags = IBV_SEND_SIGNALED,
                        .length = (size_t)2 * TRAIN * MTU});
    write_packets(pair, 1, 1);
    ck_assert_uint_eq(network_packets(pair->network), 2);
    leave_off(pair);
    expect_done(pair->end[0].send_cq, 0, IBV_WC_RDMA_READ);
    expect_done(pair->end[0].send_cq, 1, IBV_WC_RDMA_WRITE);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* ---- Nobody looks on ---- */

enum { IS_AWAY, LEAVES, RESTS, IS_SERVED, ONE_OF_TWO, WAYS };

/* It goes at once where nobody does, and else when he does not any more, or somebody else sees to the device. */
START_TEST(nobody_looks_on)
{
    struct pair *pair = begin_as(true);
    struct ibv_context *context = pair->end[0].context;
    atomic_bool other = true;
    if (_i == ONE_OF_TWO)
        soft_follow(context, &other);
    atomic_store(&looks_on, _i != IS_AWAY);
    write_packets(pair, 0, TRAIN);
    write_packets(pair, 1, TRAIN);
    soft_rest(context); /* he knows when timers are due */
    write_packets(pair, 2, 1);
    if (_i == LEAVES) {
        soft_follow(context, NULL);
    } else if (_i == RESTS) {
        ck_assert_uint_eq(network_packets(pair->network), 2 * TRAIN);
        ck_assert(atomic_load(soft_rest_wanted(context)));
        atomic_store(&looks_on, false);
        soft_rest(context);
        ck_assert(!atomic_load(soft_rest_wanted(context)));
    } else if (_i == IS_SERVED) {
        soft_lock(context);
        ck_assert_uint_eq(soft_deadline(context), 0);
        soft_progress(context);
        soft_unlock(context);
    }
    ck_assert_uint_eq(network_packets(pair->network), 2 * TRAIN + 1);
    leave_off(pair);
    expect_written(pair, 3);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* Whose queue pair is gone, or begins anew, has nothing left. */
START_TEST(gone_meanwhile)
{
    struct pair *pair = begin_as(true);
    struct end *end = &pair->end[0];
    write_packets(pair, 0, TRAIN);
    write_packets(pair, 1, TRAIN);
    write_packets(pair, 2, 1);
    ck_assert_int_eq(soft_modify_qp(end->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE),
                     0);
    soft_lock(end->context);
    ck_assert_uint_eq(soft_deadline(end->context), NEVER_NS);
    soft_unlock(end->context);
    leave_off(pair);
    expect_none(end->send_cq);
    pair_free(pair);
}
END_TEST

/* ---- A burst, and silence ---- */

/* Messages of so many packets, and a bit. */
START_TEST(burst_then_silence)
{
    struct pair *pair = begin_as(_i % 2);
    size_t length = (size_t)(_i / 2) * MTU + 5;
    unsigned messages = 40;
    for (uint64_t id = 0; id < messages; id++)
        post(&pair->end[0], &pair->end[1],
             &(struct work){
                 .id = id, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .length = length});
    uint64_t start = network_now(pair->network);
    leave_off(pair);
    expect_written(pair, messages);
    expect_no_timer(pair);
    ck_assert_uint_lt(network_packet(pair->network, network_packets(pair->network) - 1)->time - start, 1000000);
    ck_assert_int_eq(memcmp(pair->end[0].memory, pair->end[1].memory, length), 0);
    pair_free(pair);
}
END_TEST

/* Both look again and again, as programs that poll; no clock goes on. Whoever is given a message acknowledges it late. */
START_TEST(burst_to_who_polls)
{
    struct pair *pair = begin_as(true);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    size_t length = (size_t)(_i / 2) * MTU + 5;
    unsigned messages = 20, done = 0;
    for (uint64_t id = 0; id < messages; id++)
        post_receive(b, id, 0, 0);
    for (uint64_t id = 0; id < messages; id++)
        post(a, b,
             &(struct work){.id = id,
                            .opcode = _i % 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                            .flags = IBV_SEND_SIGNALED,
                            .length = length});
    for (int looks = 0; looks < LOOKS && done < messages; looks++) {
        for (int i = 0; i < 10; i++)
            polled(pair, b->recv_cq);
        done += polled(pair, a->send_cq);
    }
    ck_assert_uint_eq(done, messages);
    ck_assert_uint_eq(counters_of(b).packets_received, messages * roce_packets(length, MTU));
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* The peer looks no more once it has a message, until it is told that there is something; that is the last one. */
START_TEST(last_of_a_burst)
{
    struct pair *pair = begin_as(true);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    unsigned taken = 0;
    for (uint64_t id = 0; id < 3; id++) {
        post_receive(b, id, 0, 0);
        post(a, b,
             &(struct work){.id = id,
                            .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                            .flags = IBV_SEND_SIGNALED,
                            .length = (size_t)(id < 2 ? TRAIN : _i) * MTU});
    }
    for (int looks = 0; looks < LOOKS && taken < 3; looks++) {
        taken += polled(pair, b->recv_cq);
        polled(pair, a->send_cq);
    }
    ck_assert_uint_eq(taken, 3);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* Of transports that acknowledge nothing, and of one that does. */
START_TEST(burst_of_others)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_XRC_SEND};
    struct pair *pair = begin_with(types[_i % 2], _i / 2 % 2);
    size_t length = (size_t)(_i / 4) * MTU + 5;
    unsigned messages = 20;
    for (uint64_t id = 0; id < messages; id++)
        post(&pair->end[0], &pair->end[1],
             &(struct work){
                 .id = id, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .length = length});
    if (types[_i % 2] == IBV_QPT_UC)
        ck_assert_uint_eq(network_packets(pair->network), messages * roce_packets(length, MTU));
    leave_off(pair);
    expect_written(pair, messages);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* ---- Other work behind ---- */

static void ask(struct pair *pair, uint64_t id, enum ibv_wr_opcode opcode)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_sge sge = {(uintptr_t)a->memory + AREA / 2, 8, a->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    if (opcode == IBV_WR_RDMA_READ) {
        wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
        wr.wr.rdma.rkey = b->rkey;
    } else {
        wr.wr.atomic.remote_addr = (uintptr_t)b->memory;
        wr.wr.atomic.rkey = b->rkey;
    }
    ck_assert_int_eq(soft_post_send(a->qp, &wr, &bad), 0);
}

/* What is to be answered does not wait, but behind what does. */
START_TEST(read_behind)
{
    static const enum ibv_wr_opcode behind[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
    static const enum ibv_wc_opcode done[] = {IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD};
    struct pair *pair = begin_as(_i / 4);
    int rest = _i / 2 % 2;
    write_packets(pair, 0, TRAIN);
    write_packets(pair, 1, TRAIN);
    if (rest)
        write_packets(pair, 2, 1);
    unsigned before = network_packets(pair->network);
    ask(pair, 3, behind[_i % 2]);
    if (!rest) /* it is not one that waits */
        ck_assert_uint_eq(network_packets(pair->network), before + 1);
    write_packets(pair, 4, 1);
    leave_off(pair);
    expect_done(pair->end[0].send_cq, 0, IBV_WC_RDMA_WRITE);
    expect_done(pair->end[0].send_cq, 1, IBV_WC_RDMA_WRITE);
    if (rest)
        expect_done(pair->end[0].send_cq, 2, IBV_WC_RDMA_WRITE);
    expect_done(pair->end[0].send_cq, 3, done[_i % 2]);
    expect_done(pair->end[0].send_cq, 4, IBV_WC_RDMA_WRITE);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* ---- What is waited for is lost ---- */

struct loss {
    unsigned answers, train; /* the first so many from node 1, or all of one train from node 0 */
};

static enum fate lose(void *arg, const struct packet *packet)
{
    const struct loss *loss = arg;
    if (packet->from == 1)
        return packet->way < loss->answers ? FATE_DROP : FATE_DELIVER;
    return packet->train == loss->train ? FATE_DROP : FATE_DELIVER;
}

static void write_bursts(struct pair *pair)
{
    uint64_t id = 0;
    for (; id < 3; id++)
        write_packets(pair, id, TRAIN);
    write_packets(pair, id++, 1);
    leave_off(pair);
    expect_written(pair, id);
    ck_assert_int_eq(memcmp(pair->end[0].memory, pair->end[1].memory, (size_t)TRAIN * MTU), 0);
}

START_TEST(acknowledgements_are_lost)
{
    struct pair *pair = begin_as(false);
    struct loss loss = {.answers = (unsigned)_i + 1, .train = UINT32_MAX};
    network_set_script(pair->network, lose, &loss);
    write_bursts(pair);
    pair_free(pair);
}
END_TEST

/* And then the window is smaller than it was, and nothing is waited for that does not come, either. */
START_TEST(trains_are_lost)
{
    struct pair *pair = begin_as(false);
    struct loss loss = {.train = (unsigned)_i};
    network_set_script(pair->network, lose, &loss);
    write_bursts(pair);
    network_set_script(pair->network, NULL, NULL);
    for (int again = 0; again < 3; again++) {
        struct soft_counters before = counters_of(&pair->end[0]);
        write_bursts(pair);
        ck_assert_uint_eq(counters_of(&pair->end[0]).timeouts, before.timeouts);
        ck_assert_uint_eq(counters_of(&pair->end[0]).probes, before.probes);
    }
    pair_free(pair);
}
END_TEST

/* No more goes at once than a small window lets. */
START_TEST(small_window)
{
    struct pair *pair = begin_as(_i % 2);
    struct soft_qp *qp = soft_qp_of(pair->end[0].qp);
    qp->req.recovery.window = (unsigned)_i / 2 + 1;
    write_bursts(pair);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: what is held back");
    TCase *tcase = tcase_create("rests");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, until_more_is_posted);
    tcase_add_loop_test(tcase, nothing_alone, 0, 8);
    tcase_add_test(tcase, little_under_way);
    tcase_add_test(tcase, whole_trains);
    tcase_add_loop_test(tcase, nobody_looks_on, 0, WAYS);
    tcase_add_test(tcase, gone_meanwhile);
    tcase_add_test(tcase, behind_a_read);
    tcase_add_loop_test(tcase, burst_then_silence, 0, 2 * (2 * WINDOW + 3));
    tcase_add_loop_test(tcase, burst_to_who_polls, 0, 2 * (2 * TRAIN + 3));
    tcase_add_loop_test(tcase, burst_of_others, 0, 4 * (TRAIN + 2));
    tcase_add_loop_test(tcase, last_of_a_burst, 0, TRAIN + 2);
    tcase_add_loop_test(tcase, read_behind, 0, 8);
    tcase_add_loop_test(tcase, acknowledgements_are_lost, 0, 4);
    tcase_add_loop_test(tcase, trains_are_lost, 0, 4);
    tcase_add_loop_test(tcase, small_window, 0, 2 * WINDOW);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
