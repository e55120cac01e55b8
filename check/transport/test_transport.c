/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport.c - reliable connections without loss: data, completions, scatter and gather lists, queue pair states.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "check/support/endpoints.h"

#define IMM 0x12345678u
#define TEN(mtu) (10 * (mtu) + 1)

/* ---- Every operation at every size ---- */

static const enum ibv_wr_opcode operations[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                                IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};

static bool takes_receive(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static enum ibv_wc_opcode done_opcode(enum ibv_wr_opcode opcode)
{
    if (opcode == IBV_WR_RDMA_READ)
        return IBV_WC_RDMA_READ;
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
}

static void check_receive(struct end *b, enum ibv_wr_opcode opcode, uint64_t id, size_t length)
{
    struct ibv_wc wc = expect_wc(b->recv_cq, id, IBV_WC_SUCCESS);
    bool write = opcode == IBV_WR_RDMA_WRITE_WITH_IMM, imm = opcode != IBV_WR_SEND;
    ck_assert_int_eq(wc.opcode, write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
    ck_assert_uint_eq(wc.byte_len, length);
    ck_assert_uint_eq(wc.qp_num, b->qpn);
    ck_assert_int_eq(!!(wc.wc_flags & IBV_WC_WITH_IMM), imm);
    if (imm)
        ck_assert_uint_eq(wc.imm_data, htobe32(IMM));
}

/* Transfers one message from a to b (a READ: from b to a), and expects exactly its data and completions. */
static void one_message(struct pair *pair, enum ibv_wr_opcode opcode, size_t length, uint64_t id)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct end *from = opcode == IBV_WR_RDMA_READ ? b : a, *to = opcode == IBV_WR_RDMA_READ ? a : b;
    size_t half = pair->setup.memory / 2;
    /* The source is in the first half, the target at the very end of the second: one byte more would change the
     * guard. */
    size_t target = pair->setup.memory - length;
    expect(length <= half, "the region is too small for this message");
    fill(from->memory, length, id);
    memset(to->memory + half, 0, half);
    if (takes_receive(opcode)) {
        bool send = opcode != IBV_WR_RDMA_WRITE_WITH_IMM;
        post_receive(b, id + 1, send ? target : 0, send ? length : 0);
    }
    post(a, b,
         &(struct work){.id = id,
                        .opcode = opcode,
                        .at = opcode == IBV_WR_RDMA_READ ? target : 0,
                        .target = opcode == IBV_WR_RDMA_READ ? 0 : target,
                        .length = length,
                        .flags = IBV_SEND_SIGNALED,
                        .imm = htobe32(IMM)});
    run(pair);
    expect(filled(to->memory + target, length, id), "the data differ");
    expect_byte(to->memory + half, target - half, 0);
    if (takes_receive(opcode))
        check_receive(b, opcode, id + 1, length);
    struct ibv_wc wc = expect_wc(a->send_cq, id, IBV_WC_SUCCESS);
    ck_assert_int_eq(wc.opcode, done_opcode(opcode));
    ck_assert_uint_eq(wc.qp_num, a->qpn);
    if (opcode == IBV_WR_RDMA_READ)
        ck_assert_uint_eq(wc.byte_len, length);
    expect_quiet(pair);
}

static void all_messages(const struct setup *setup)
{
    size_t mtu = mtu_bytes(setup->mtu);
    const size_t sizes[] = {0, 1, 2, 3, 4, 5, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu - 1, TEN(mtu), 1 << 20};
    struct setup mine = *setup;
    mine.memory = 2 << 20;
    struct pair *pair = pair_new(&mine);
    network_keep_bytes(pair->network, false);
    uint64_t id = 1000;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t op = 0; op < sizeof operations / sizeof *operations; op++, id += 2)
            one_message(pair, operations[op], sizes[i], id);
    struct soft_counters counters = counters_of(&pair->end[0]);
    ck_assert_uint_eq(counters.retransmitted, 0);
    ck_assert_uint_eq(counters.timeouts, 0);
    ck_assert_uint_eq(counters.naks_received, 0);
    ck_assert_uint_eq(counters.malformed, 0);
    pair_free(pair);
}

START_TEST(every_size_and_operation)
{
    struct setup setup = setup_default();
    setup.mtu = (enum ibv_mtu)_i;
    all_messages(&setup);
}
END_TEST

START_TEST(without_a_trailer)
{
    struct setup setup = setup_default();
    setup.trailer = 0;
    all_messages(&setup);
}
END_TEST

START_TEST(over_ipv6)
{
    struct setup setup = setup_default();
    setup.family = AF_INET6;
    all_messages(&setup);
}
END_TEST

START_TEST(fetched_by_the_engine)
{
    struct setup setup = setup_default();
    setup.pull = true;
    all_messages(&setup);
}
END_TEST

START_TEST(within_one_context)
{
    struct setup setup = setup_default();
    setup.loopback = true;
    all_messages(&setup);
}
END_TEST

START_TEST(psn_wraps_around)
{
    struct setup setup = setup_default();
    setup.psn[0] = 0xfffffe;
    setup.psn[1] = 0xffffff;
    for (uint32_t before = 0; before < 24; before++) {
        setup.psn[0] = 0xffffff - before;
        struct pair *pair = pair_new(&setup);
        for (size_t op = 0; op < sizeof operations / sizeof *operations; op++)
            one_message(pair, operations[op], 4 * 1024 + 1, 10 + 2 * op);
        ck_assert_uint_eq(counters_of(&pair->end[0]).retransmitted, 0);
        pair_free(pair);
    }
}
END_TEST

/* ---- Completions ---- */

START_TEST(completions_in_order_and_once)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (uint64_t i = 0; i < 20; i++)
        post_receive(b, 100 + i, 0, 4096);
    for (uint64_t i = 0; i < 20; i++)
        post(a, b,
             &(struct work){.id = i,
                            .opcode = operations[i % 5],
                            .length = 1 + 700 * i % 4096,
                            .at = 8192,
                            .target = 16384,
                            .flags = IBV_SEND_SIGNALED});
    run(pair);
    uint64_t receive = 100;
    for (uint64_t i = 0; i < 20; i++) {
        expect_done(a->send_cq, i, done_opcode(operations[i % 5]));
        if (takes_receive(operations[i % 5]))
            expect_wc(b->recv_cq, receive++, IBV_WC_SUCCESS);
    }
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

START_TEST(unsignaled_work_completes_silently)
{
    struct setup setup = setup_default();
    setup.send_depth = 8;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (uint64_t round = 0; round < 50; round++) {
        for (uint64_t i = 0; i < 7; i++)
            post(a, b, &(struct work){.id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 10});
        post(a, b,
             &(struct work){.id = round, .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_SIGNALED, .length = 9});
        run(pair);
        expect_done(a->send_cq, round, IBV_WC_RDMA_READ);
    }
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

START_TEST(all_signaled)
{
    struct setup setup = setup_default();
    setup.all_signaled = true;
    struct pair *pair = pair_new(&setup);
    post(&pair->end[0], &pair->end[1], &(struct work){.id = 7, .opcode = IBV_WR_RDMA_WRITE, .length = 10});
    run(pair);
    expect_done(pair->end[0].send_cq, 7, IBV_WC_RDMA_WRITE);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* A whole completion queue in one call of ibv_poll_cq(). */
START_TEST(poll_takes_many)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct ibv_wc wc[64];
    for (uint64_t i = 0; i < 40; i++)
        post(&pair->end[0], &pair->end[1],
             &(struct work){.id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 10, .flags = IBV_SEND_SIGNALED});
    run(pair);
    ck_assert_int_eq(ibv_poll_cq(pair->end[0].send_cq, 30, wc), 30);
    ck_assert_int_eq(ibv_poll_cq(pair->end[0].send_cq, 64, wc + 30), 10);
    for (uint64_t i = 0; i < 40; i++)
        ck_assert_uint_eq(wc[i].wr_id, i);
    pair_free(pair);
}
END_TEST

/* ---- Scatter, gather, inline ---- */

static void post_list(struct end *from, struct end *to, enum ibv_wr_opcode opcode, struct ibv_sge *sges,
                      int count)
{
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = sges,
                             .num_sge = count,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)to->memory;
    wr.wr.rdma.rkey = to->rkey;
    ck_assert_int_eq(ibv_post_send(from->qp, &wr, &bad), 0);
}

/* Four segments of these lengths, with gaps, in descending order of address. */
static size_t scattered(struct end *end, struct ibv_sge *sges, const size_t *lengths)
{
    size_t total = 0;
    for (int i = 0; i < 4; i++) {
        sges[i] = (struct ibv_sge){.addr = (uintptr_t)end->memory + 60000 - 12000 * (size_t)i,
                                   .length = (uint32_t)lengths[i],
                                   .lkey = end->mr->lkey};
        total += lengths[i];
    }
    return total;
}

static void gather_copy(uint8_t *to, const struct ibv_sge *sges)
{
    for (int i = 0; i < 4; to += sges[i].length, i++)
        memcpy(to, (void *)(uintptr_t)sges[i].addr, sges[i].length);
}

static const size_t pieces[][4] = {{1, 1, 1, 1},          {3, 0, 5, 1024},       {0, 0, 0, 7},
                                   {1023, 1, 1024, 1025}, {2000, 3000, 1, 4000}, {0, 0, 0, 0},
                                   {10000, 1, 0, 2}};

START_TEST(gather_and_scatter)
{
    struct setup setup = setup_default();
    setup.memory = 80000;
    const size_t *from_pieces = pieces[_i % 7], *to_pieces = pieces[_i / 7];
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_sge from[4], to[4];
    uint8_t sent[20000], got[20000];
    fill(a->memory, a->size, 5);
    size_t length = scattered(a, from, from_pieces), room = scattered(b, to, to_pieces);
    if (length <= room) {
        struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = to, .num_sge = 4}, *bad;
        ck_assert_int_eq(ibv_post_recv(b->qp, &wr, &bad), 0);
        post_list(a, b, IBV_WR_SEND, from, 4);
        run(pair);
        gather_copy(sent, from);
        gather_copy(got, to);
        ck_assert_mem_eq(sent, got, length);
        ck_assert_uint_eq(expect_wc(b->recv_cq, 2, IBV_WC_SUCCESS).byte_len, length);
        expect_done(a->send_cq, 1, IBV_WC_SEND);
    }
    fill(b->memory, b->size, 6);
    post_list(a, b, IBV_WR_RDMA_READ, from, 4);
    run(pair);
    gather_copy(got, from);
    ck_assert_mem_eq(b->memory, got, length);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_READ);
    post_list(a, b, IBV_WR_RDMA_WRITE, from, 4);
    run(pair);
    ck_assert_mem_eq(b->memory, got, length);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

START_TEST(inline_data_are_taken_at_once)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (uint32_t length = 0; length <= setup.inline_data; length++) {
        uint8_t *stack = malloc(setup.inline_data); /* no region; freed before the message is sent again */
        fill(stack, length, length);
        struct ibv_sge sge[2] = {
            {.addr = (uintptr_t)stack, .length = length / 3, .lkey = 0xdead},
            {.addr = (uintptr_t)stack + length / 3, .length = length - length / 3, .lkey = 1}};
        struct ibv_send_wr wr = {.wr_id = length,
                                 .sg_list = sge,
                                 .num_sge = 2,
                                 .opcode = length & 1 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
                                 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
                           *bad;
        wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
        wr.wr.rdma.rkey = b->rkey;
        if (length & 1)
            post_receive(b, length, 0, 200);
        ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
        memset(stack, 0xff, setup.inline_data);
        free(stack);
        network_drain(
            pair->network); /* the first transmission is lost, so the second must still have the data */
        run(pair);
        expect(filled(b->memory, length, length), "inline data of %u bytes differ", length);
        expect_wc(a->send_cq, length, IBV_WC_SUCCESS);
        if (length & 1)
            ck_assert_uint_eq(expect_wc(b->recv_cq, length, IBV_WC_SUCCESS).byte_len, length);
    }
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

START_TEST(too_much_inline_is_refused)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    ck_assert_uint_ge(a->cap.max_inline_data, setup.inline_data);
    ck_assert_int_ne(post_try(a, &pair->end[1],
                              &(struct work){.opcode = IBV_WR_RDMA_WRITE,
                                             .length = a->cap.max_inline_data + 1,
                                             .flags = IBV_SEND_INLINE}),
                     0);
    run(pair);
    expect_quiet(pair);
    ck_assert_uint_eq(network_packets(pair->network), 0);
    pair_free(pair);
}
END_TEST

/* Work requests are chained, and one in the middle is invalid: those before it are posted, and bad_wr points to it. */
START_TEST(chain_stops_at_the_bad_one)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_sge sge[33];
    struct ibv_send_wr wr[5], *bad = NULL;
    for (int i = 0; i < 33; i++)
        sge[i] = (struct ibv_sge){.addr = (uintptr_t)a->memory, .length = 4, .lkey = a->mr->lkey};
    for (uint64_t i = 0; i < 5; i++) {
        wr[i] = (struct ibv_send_wr){.wr_id = i,
                                     .next = i < 4 ? &wr[i + 1] : NULL,
                                     .sg_list = sge,
                                     .num_sge = 1,
                                     .opcode = IBV_WR_RDMA_WRITE,
                                     .send_flags = IBV_SEND_SIGNALED};
        wr[i].wr.rdma.remote_addr = (uintptr_t)b->memory;
        wr[i].wr.rdma.rkey = b->rkey;
    }
    ck_assert_uint_lt(a->cap.max_send_sge, 33);
    wr[3].num_sge = 33;
    ck_assert_int_ne(ibv_post_send(a->qp, wr, &bad), 0);
    ck_assert_ptr_eq(bad, &wr[3]);
    run(pair);
    for (uint64_t i = 0; i < 3; i++)
        expect_done(a->send_cq, i, IBV_WC_RDMA_WRITE);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* A fenced request may use the data of the READ before it. */
START_TEST(fence_waits_for_reads)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    fill(b->memory, 5000, 3);
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_RDMA_READ, .length = 5000});
    post(a, b,
         &(struct work){.id = 2,
                        .opcode = IBV_WR_RDMA_WRITE,
                        .length = 5000,
                        .target = 10000,
                        .flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 2, IBV_WC_RDMA_WRITE);
    expect(filled(b->memory + 10000, 5000, 3), "the fenced WRITE overtook the READ");
    const struct packet *write = find_packet(pair->network, 0, WRITE_FIRST, 0);
    const struct packet *last = find_packet(pair->network, 1, READ_RESPONSE_LAST, 0);
    ck_assert_uint_gt(write->number, last->number);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport");
    TCase *data = new_case(suite, "data"), *work = new_case(suite, "work");
    tcase_set_timeout(data, 60);
    tcase_add_loop_test(data, every_size_and_operation, IBV_MTU_256, IBV_MTU_4096 + 1);
    tcase_add_test(data, without_a_trailer);
    tcase_add_test(data, over_ipv6);
    tcase_add_test(data, fetched_by_the_engine);
    tcase_add_test(data, within_one_context);
    tcase_add_test(data, psn_wraps_around);
    tcase_set_timeout(work, 20);
    tcase_add_test(work, completions_in_order_and_once);
    tcase_add_test(work, unsignaled_work_completes_silently);
    tcase_add_test(work, all_signaled);
    tcase_add_test(work, poll_takes_many);
    tcase_add_loop_test(work, gather_and_scatter, 0, 49);
    tcase_add_test(work, inline_data_are_taken_at_once);
    tcase_add_test(work, too_much_inline_is_refused);
    tcase_add_test(work, chain_stops_at_the_bad_one);
    tcase_add_test(work, fence_waits_for_reads);
    return run_suite(suite);
}
