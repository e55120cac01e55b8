/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_many.c - many queue pairs and many nodes: each receives its own messages, and gets its share. */
#include <stdlib.h>
#include <string.h>
#include "check/support/endpoints.h"
#include "soft/engine/shuffle.h"

/* One more connection between the ends of a pair, on the same completion queues. */
struct line {
    struct end end[2];
};

static void line_new(struct line *line, struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        line->end[i] = pair->end[i];
        line->end[i].qp = qp_new(&line->end[i], &pair->setup);
        line->end[i].qpn = line->end[i].qp->qp_num;
    }
    for (int i = 0; i < 2; i++)
        qp_connect(&line->end[i], line->end[i].qp, line->end[!i].node, line->end[!i].qpn, 0x100, 0x100,
                   &pair->setup);
}

static void line_free(struct line *line)
{
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(soft_destroy_qp(line->end[i].qp), 0);
}

/* Counts successive queue pair numbers that are close to each other: known numbers must not reveal the next. */
static unsigned neighbours(const uint32_t *qpns, unsigned count)
{
    unsigned near = 0;
    for (unsigned i = 1; i < count; i++)
        near += qpns[i] - qpns[i - 1] + 0x8000 < 0x10000;
    return near;
}

static int compare_qpn(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

#define LINES 1000

START_TEST(a_thousand_queue_pairs)
{
    struct setup setup = setup_default();
    setup.memory = 1 << 20;
    setup.cqe = 4 * LINES;
    setup.send_depth = setup.recv_depth = 4;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct line *lines = calloc(LINES, sizeof *lines);
    uint32_t qpns[LINES];
    network_keep_bytes(pair->network, false);
    fill(a->memory, 1 << 20, 1);
    for (unsigned i = 0; i < LINES; i++) {
        line_new(&lines[i], pair);
        qpns[i] = lines[i].end[0].qpn;
        post_receive(&lines[i].end[1], i, 1000 * i, 500);
    }
    expect(neighbours(qpns, LINES) < 40, "%u of %u are close to the one before", neighbours(qpns, LINES),
           LINES);
    qsort(qpns, LINES, sizeof *qpns, compare_qpn);
    for (unsigned i = 0; i < LINES; i++) {
        ck_assert_uint_gt(qpns[i], 1); /* 0 and 1 are for management */
        ck_assert_uint_lt(qpns[i], 0xffffff);
        ck_assert(i == 0 || qpns[i] != qpns[i - 1]);
    }
    for (unsigned i = 0; i < LINES; i++) {
        struct work work = {.id = i, .opcode = IBV_WR_SEND, .at = 1000 * i, .length = 500};
        post(&lines[i].end[0], &lines[i].end[1], &work);
        work = (struct work){.id = i,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .at = 1000 * i + 500,
                             .target = 1000 * i + 500,
                             .length = 500,
                             .flags = IBV_SEND_SIGNALED};
        post(&lines[i].end[0], &lines[i].end[1], &work);
    }
    run(pair);
    for (unsigned i = 0; i < LINES; i++) {
        struct ibv_wc wc;
        ck_assert_int_eq(ibv_poll_cq(b->recv_cq, 1, &wc), 1);
        expect(wc.status == IBV_WC_SUCCESS && wc.qp_num == lines[wc.wr_id].end[1].qpn, "receive %u", i);
        ck_assert_int_eq(ibv_poll_cq(a->send_cq, 1, &wc), 1);
        expect(wc.status == IBV_WC_SUCCESS && wc.qp_num == lines[wc.wr_id].end[0].qpn, "WRITE %u", i);
    }
    expect_quiet(pair);
    ck_assert_mem_eq(a->memory, b->memory, 1000 * LINES);
    for (unsigned i = 0; i < LINES; i++)
        line_free(&lines[i]);
    free(lines);
    pair_free(pair);
}
END_TEST

/* ---- Fairness ---- */

/* Two long messages: while both are being sent, each has about half of the packets. */
START_TEST(two_queue_pairs_share)
{
    struct setup setup = setup_default();
    setup.memory = 4 << 20;
    struct pair *pair = pair_new(&setup);
    struct line lines[2];
    enum ibv_wr_opcode opcode = _i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    network_keep_bytes(pair->network, false);
    for (int i = 0; i < 2; i++)
        line_new(&lines[i], pair);
    for (int i = 0; i < 2; i++)
        post(
            &lines[i].end[0], &lines[i].end[1],
            &(struct work){.id = (uint64_t)i, .opcode = opcode, .length = 4 << 20, .flags = IBV_SEND_SIGNALED});
    run(pair);
    uint32_t first = _i ? lines[0].end[0].qpn : lines[0].end[1].qpn;
    unsigned share[2] = {0}, half = 4096; /* of 2 x 4096 packets with data */
    for (unsigned i = 0; share[0] + share[1] < half; i++) {
        const struct packet *packet = network_packet(pair->network, i);
        ck_assert_ptr_nonnull(packet);
        if (packet->roce.payload_length)
            share[packet->roce.qpn != first]++;
    }
    expect(share[0] > half / 3 && share[1] > half / 3, "of %u packets %u and %u", half, share[0], share[1]);
    for (int i = 0; i < 2; i++) {
        struct ibv_wc wc;
        ck_assert_int_eq(ibv_poll_cq(pair->end[0].send_cq, 1, &wc), 1);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        line_free(&lines[i]);
    }
    ck_assert_uint_eq(counters_of(&pair->end[0]).retransmitted, 0);
    pair_free(pair);
}
END_TEST

/* A short message does not wait for the long one of another queue pair. */
START_TEST(small_beside_long)
{
    struct setup setup = setup_default();
    setup.memory = 8 << 20;
    struct pair *pair = pair_new(&setup);
    struct line small;
    network_keep_bytes(pair->network, false);
    line_new(&small, pair);
    post(&pair->end[0], &pair->end[1], &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = 8 << 20});
    post(&small.end[0], &small.end[1],
         &(struct work){.id = 5, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(pair->end[0].send_cq, 5, IBV_WC_RDMA_WRITE);
    const struct packet *packet = find_packet(pair->network, 0, WRITE_ONLY, 0);
    ck_assert_uint_lt(packet->number, 1000); /* of 8192 */
    line_free(&small);
    pair_free(pair);
}
END_TEST

/* A connection that gets no answer, and its timeouts, do not delay another one. */
static enum fate lose_qpn(void *arg, const struct packet *packet)
{
    return packet->from == 0 && packet->roce.qpn == *(uint32_t *)arg ? FATE_DROP : FATE_DELIVER;
}

START_TEST(silent_beside_lively)
{
    struct setup setup = setup_default();
    setup.retry_cnt = 1;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct line dead;
    line_new(&dead, pair);
    network_set_script(pair->network, lose_qpn, &dead.end[1].qpn);
    post(&dead.end[0], &dead.end[1], &(struct work){.id = 99, .opcode = IBV_WR_RDMA_WRITE, .length = 30000});
    for (uint64_t i = 0; i < 10; i++) {
        uint64_t start = network_now(pair->network);
        post(a, b,
             &(struct work){.id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 30000, .flags = IBV_SEND_SIGNALED});
        network_run_until(pair->network, start + 20 * NETWORK_LATENCY);
        expect_done(a->send_cq, i, IBV_WC_RDMA_WRITE);
    }
    run(pair);
    expect_wc(a->send_cq, 99, IBV_WC_RETRY_EXC_ERR);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_RTS);
    line_free(&dead);
    pair_free(pair);
}
END_TEST

/* Many losses on many connections at once: every timer expires for its own queue pair. */
static enum fate lose_every_seventh(void *arg, const struct packet *packet)
{
    (void)arg;
    return packet->number % 7 == 3 ? FATE_DROP : FATE_DELIVER;
}

START_TEST(many_timers)
{
    struct setup setup = setup_default();
    setup.cqe = 1000;
    struct pair *pair = pair_new(&setup);
    struct line lines[100];
    network_keep_bytes(pair->network, false);
    network_set_script(pair->network, lose_every_seventh, NULL);
    fill(pair->end[0].memory, 60000, 1);
    for (unsigned i = 0; i < 100; i++) {
        pair->setup.timeout = (uint8_t)(3 + i % 9);
        line_new(&lines[i], pair);
    }
    for (unsigned i = 0; i < 100; i++)
        post(&lines[i].end[0], &lines[i].end[1],
             &(struct work){.id = i,
                            .opcode = i % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
                            .at = i % 3 ? 600 * i : 0,
                            .target = 600 * i,
                            .length = i % 3 ? 600 : 0,
                            .flags = IBV_SEND_SIGNALED});
    run(pair);
    for (unsigned i = 0; i < 100; i++) {
        struct ibv_wc wc;
        ck_assert_int_eq(ibv_poll_cq(pair->end[0].send_cq, 1, &wc), 1);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        if (i % 3)
            ck_assert_mem_eq(pair->end[0].memory + 600 * i, pair->end[1].memory + 600 * i, 600);
    }
    expect_quiet(pair);
    for (unsigned i = 0; i < 100; i++)
        line_free(&lines[i]);
    pair_free(pair);
}
END_TEST

/* ---- Several nodes ---- */

#define NODES 5

/* Each node writes to each other one: no context confuses its peers. */
START_TEST(every_node_with_every_other)
{
    struct setup setup = setup_default();
    struct network *network = network_new(AF_INET, 7, 4);
    static struct end ends[NODES][NODES]; /* [of][to] */
    struct ibv_pd *pds[NODES];
    struct ibv_cq *cqs[NODES];
    static uint8_t memory[NODES][NODES * 4096];
    struct ibv_mr *mrs[NODES];
    for (unsigned i = 0; i < NODES; i++) {
        struct ibv_context *context = network_context(network, network_add(network));
        pds[i] = soft_alloc_pd(context);
        cqs[i] = soft_create_cq(context, 100, NULL, NULL, 0);
        mrs[i] = soft_reg_mr(pds[i], memory[i], sizeof memory[i], ACCESS_ALL);
        for (unsigned j = 0; j < NODES; j++) {
            ends[i][j] = (struct end){.network = network,
                                      .node = i,
                                      .context = context,
                                      .pd = pds[i],
                                      .send_cq = cqs[i],
                                      .recv_cq = cqs[i],
                                      .memory = memory[i],
                                      .mr = mrs[i],
                                      .rkey = mrs[i]->rkey};
            ends[i][j].qp = qp_new(&ends[i][j], &setup);
            ends[i][j].qpn = ends[i][j].qp->qp_num;
        }
        fill(memory[i], 4096, i); /* the node sends its own first page */
    }
    for (unsigned i = 0; i < NODES; i++)
        for (unsigned j = 0; j < NODES; j++) /* i = j: a connection of a node to itself */
            qp_connect(&ends[i][j], ends[i][j].qp, j, ends[j][i].qpn, i * 16 + j, j * 16 + i, &setup);
    /* All messages to one node arrive at the same time, so that its answers to all the others leave at the same
     * time. */
    for (unsigned j = 0; j < NODES; j++)
        for (unsigned i = 0; i < NODES; i++)
            if (i != j) /* pages from 1 on of j: one for each other node */
                post(&ends[i][j], &ends[j][i],
                     &(struct work){.id = j,
                                    .opcode = IBV_WR_RDMA_WRITE,
                                    .length = 4096,
                                    .target = 4096 * (1 + (i < j ? i : i - 1)),
                                    .flags = IBV_SEND_SIGNALED});
    ck_assert(network_run(network, RUN_STEPS));
    for (unsigned i = 0; i < NODES; i++) {
        struct ibv_wc wc;
        for (unsigned j = 0; j < NODES; j++) {
            if (i == j)
                continue;
            ck_assert_int_eq(ibv_poll_cq(cqs[i], 1, &wc), 1);
            ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
            expect(filled(memory[i] + 4096 * (1 + (j < i ? j : j - 1)), 4096, j), "what %u wrote to %u", j, i);
        }
        for (unsigned j = 0; j < NODES; j++)
            ck_assert_int_eq(soft_destroy_qp(ends[i][j].qp), 0);
        ck_assert_int_eq(soft_destroy_cq(cqs[i]), 0);
        ck_assert_int_eq(soft_dereg_mr(mrs[i]), 0);
        ck_assert_int_eq(soft_dealloc_pd(pds[i]), 0);
    }
    ck_assert_ptr_null(network_fault(network));
    ck_assert(network_free(network));
}
END_TEST

/* ---- Determinism ---- */

static uint64_t transcript(void)
{
    struct setup setup = setup_default();
    setup.memory = 1 << 18;
    struct pair *pair = pair_new(&setup);
    network_set_script(pair->network, lose_every_seventh, NULL);
    uint64_t hash = 14695981039346656037u;
    for (uint64_t i = 0; i < 10; i++) {
        enum ibv_wr_opcode opcode = i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
        post(&pair->end[0], &pair->end[1],
             &(struct work){.opcode = opcode, .length = 20000, .flags = IBV_SEND_SIGNALED});
    }
    run(pair);
    for (unsigned i = 0; i < network_packets(pair->network); i++) {
        const struct packet *packet = network_packet(pair->network, i);
        hash = (hash ^ packet->time) * 1099511628211u;
        hash = (hash ^ packet->length) * 1099511628211u;
        for (size_t k = 0; k < ROCE_BTH; k++)
            hash = (hash ^ packet->bytes[k]) * 1099511628211u;
    }
    pair_free(pair);
    return hash;
}

START_TEST(the_same_every_time)
{
    uint64_t first = transcript();
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(transcript(), first);
}
END_TEST

/* ---- Queue pair numbers ---- */

/* Each number occurs once, and each key gives another order. */
START_TEST(shuffled)
{
    struct soft_shuffle one = {{1, 2}, (unsigned)_i}, other = {{1, 3}, (unsigned)_i};
    uint32_t count = UINT32_C(1) << _i, same = 0;
    bool *seen = calloc(count, sizeof *seen);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = soft_shuffle(&one, i);
        expect(number < count && !seen[number], "%u of %u comes twice", number, count);
        seen[number] = true;
        same += number == soft_shuffle(&other, i);
    }
    expect(_i < 8 || same < 20, "%u of %u are the same with another key", same, count);
    free(seen);
}
END_TEST

/* In a context with a name, the upper bits of all queue pair numbers are that name, so there are few: all of them can
 * be used, and a free one is used again only after the others. */
START_TEST(all_numbers_of_a_name)
{
    enum { NUMBERS = 1 << SOFT_LID_QPNS_BITS };
    struct setup setup = setup_default();
    setup.names = true;
    setup.send_depth = setup.recv_depth = 1;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    struct ibv_qp **qps = calloc(NUMBERS, sizeof(struct ibv_qp *));
    bool *seen = calloc(NUMBERS, sizeof *seen);
    seen[a->qpn % NUMBERS] = true;
    for (unsigned i = 0; i < NUMBERS - 1; i++) {
        qps[i] = qp_new(a, &setup);
        uint32_t number = qps[i]->qp_num;
        bool *place = &seen[number % NUMBERS];
        expect(number / NUMBERS == a->qpn / NUMBERS && !*place, "number %x", number);
        *place = true;
        if (_i) /* one at a time */
            ck_assert_int_eq(soft_destroy_qp(qps[i]), 0);
    }
    if (!_i) {
        struct ibv_qp_init_attr attr = {
            .send_cq = a->send_cq, .recv_cq = a->recv_cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
        ck_assert_ptr_null(soft_create_qp(a->pd, &attr));
        for (unsigned i = 0; i < NUMBERS - 1; i++)
            ck_assert_int_eq(soft_destroy_qp(qps[i]), 0);
    }
    free(qps);
    free(seen);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: many");
    TCase *tcase = new_case(suite, "many");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_thousand_queue_pairs);
    tcase_add_loop_test(tcase, two_queue_pairs_share, 0, 2);
    tcase_add_test(tcase, small_beside_long);
    tcase_add_test(tcase, silent_beside_lively);
    tcase_add_test(tcase, many_timers);
    tcase_add_test(tcase, every_node_with_every_other);
    tcase_add_test(tcase, the_same_every_time);
    tcase_add_loop_test(tcase, shuffled, 2, 17);
    tcase_add_loop_test(tcase, all_numbers_of_a_name, 0, 2);
    return run_suite(suite);
}
