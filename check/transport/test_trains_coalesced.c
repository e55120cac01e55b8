/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_trains_coalesced.c - trains of packets of any length: messages of all sizes share them, what can't be fetched is
 * left out of them, a lost one comes again; and what fills none waits for more, but for nothing that may not come.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/support/endpoints.h"
#include "core/soft/engine/engine.h"

enum { MTU = 4096, TRAIN = 15, AREA = 1 << 20, MOST = 24, FILE_LENGTH = 16384 };

static struct setup setup_coalesced(void)
{
    struct setup setup = setup_default();
    setup.mtu = IBV_MTU_4096;
    setup.memory = 2 * AREA; /* one half is sent from, or written to, the other is the other way's */
    setup.coalesced = true;
    setup.send_depth = setup.recv_depth = 128;
    setup.timeout = 16; /* 268 ms, and no timer may be needed */
    return setup;
}

static struct pair *begin(void)
{
    struct setup setup = setup_coalesced();
    return pair_new(&setup);
}

/* In one call, each behind the one before in memory, here and there. Returns how many bytes they are. */
static size_t write_all(struct pair *pair, const size_t *lengths, unsigned count, size_t at)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_send_wr wrs[MOST], *bad;
    struct ibv_sge sges[MOST];
    size_t total = 0;

    for (unsigned i = 0; i < count; i++) {
        uintptr_t from = (uintptr_t)a->memory + at + total;
        sges[i] = (struct ibv_sge){from, (uint32_t)lengths[i], a->mr->lkey};
        wrs[i] = (struct ibv_send_wr){
            .wr_id = i,
            .next = i + 1 < count ? &wrs[i + 1] : NULL,
            .sg_list = &sges[i],
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {.remote_addr = (uintptr_t)b->memory + at + total, .rkey = b->rkey}};
        total += lengths[i];
    }
    ck_assert_uint_le(at + total, AREA);
    ck_assert_int_eq(soft_post_send(a->qp, wrs, &bad), 0);
    return total;
}

static void expect_written(struct pair *pair, unsigned count, size_t total)
{
    for (unsigned i = 0; i < count; i++)
        expect_done(pair->end[0].send_cq, i, IBV_WC_RDMA_WRITE);
    ck_assert_int_eq(memcmp(pair->end[0].memory, pair->end[1].memory, total), 0);
    expect_byte(pair->end[1].memory + total, 64, 0);
}

/* Nothing had to be asked for again, or waited for. */
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

/* ---- What they are ---- */

static const size_t odd[] = {1, 5000, 0, 4095, 17, 4096, 4097, 3, 8191, 2, 64, 4100, 5};
enum { ODD = sizeof odd / sizeof odd[0] };

START_TEST(messages_share_a_train)
{
    struct pair *pair = begin();
    unsigned packets = 0;
    fill(pair->end[0].memory, AREA, 3);
    for (int i = 0; i < ODD; i++)
        packets += roce_packets(odd[i], MTU);
    size_t total = write_all(pair, odd, ODD, 0);
    ck_assert_uint_eq(network_packets(pair->network), packets);
    ck_assert_uint_le(network_packet(pair->network, packets - 1)->train, packets / TRAIN);
    run(pair);
    expect_written(pair, ODD, total);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* A message of 64 KiB, whose first packet is longer than the others, and the last one, with its immediate: 15 go at once. */
START_TEST(first_packet_too)
{
    struct pair *pair = begin();
    post_receive(&pair->end[1], 0, 0, 0);
    post(&pair->end[0], &pair->end[1],
         &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = (size_t)16 * MTU});
    ck_assert_uint_eq(network_packets(pair->network), 16);
    ck_assert_uint_eq(network_packet(pair->network, 14)->train, 0);
    ck_assert_uint_eq(network_packet(pair->network, 15)->train, 1);
    run(pair);
    expect_wc(pair->end[1].recv_cq, 0, IBV_WC_SUCCESS);
    expect_no_timer(pair);
    pair_free(pair);
}
END_TEST

/* ---- Some don't arrive ---- */

struct loss {
    unsigned train, last;
    uint64_t state;
    bool lost;
};

static enum fate lose_one(void *arg, const struct packet *packet)
{
    const struct loss *loss = arg;
    return packet->train == loss->train ? FATE_DROP : FATE_DELIVER;
}

/* All of a train, or nothing of it: it is a datagram. */
static enum fate lose_some(void *arg, const struct packet *packet)
{
    struct loss *loss = arg;
    if (packet->train != loss->last) {
        loss->last = packet->train;
        loss->lost = random_next(&loss->state) % 4 == 0;
    }
    return loss->lost && packet->number < 400 ? FATE_DROP : FATE_DELIVER;
}

static void write_with_losses(network_script *script, struct loss *loss)
{
    static const size_t long_ones[] = {1, 65536, 4095, 100000, 2, 3, 4, 65537, 7};
    enum { LONG = sizeof long_ones / sizeof long_ones[0] };
    struct pair *pair = begin();
    fill(pair->end[0].memory, AREA, 4);
    network_set_script(pair->network, script, loss);
    size_t total = write_all(pair, long_ones, LONG, 0);
    run(pair);
    expect_written(pair, LONG, total);
    if (script == lose_one)
        ck_assert_uint_gt(counters_of(&pair->end[0]).retransmitted, 0);
    pair_free(pair);
}

START_TEST(a_train_is_lost)
{
    struct loss loss = {.train = (unsigned)_i};
    write_with_losses(lose_one, &loss);
}
END_TEST

START_TEST(trains_are_lost)
{
    struct loss loss = {.last = UINT32_MAX, .state = (uint64_t)_i + 1};
    write_with_losses(lose_some, &loss);
}
END_TEST

/* ---- Memory that is gone ---- */

struct file {
    int fd;
    uint8_t *memory;
    struct ibv_mr *mr;
};

static struct file file_cut(struct end *end)
{
    struct file file = {.fd = memfd_create("source", MFD_CLOEXEC)};
    ck_assert_int_eq(ftruncate(file.fd, FILE_LENGTH), 0);
    file.memory = mmap(NULL, FILE_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    ck_assert_ptr_ne(file.memory, MAP_FAILED);
    file.mr = soft_reg_mr(end->pd, file.memory, FILE_LENGTH, ACCESS_ALL);
    ck_assert_ptr_nonnull(file.mr);
    ck_assert_int_eq(ftruncate(file.fd, 0), 0);
    return file;
}

static void file_close(struct file *file)
{
    ck_assert_int_eq(soft_dereg_mr(file->mr), 0);
    munmap(file->memory, FILE_LENGTH);
    close(file->fd);
}

/* One of several messages is sent from there: those before it arrive, and neither it nor those behind. */
START_TEST(source_is_gone)
{
    enum { COUNT_OF = 5 };
    static const uint32_t lengths[COUNT_OF] = {33, 1001, 4, 777, 20};
    struct pair *pair = begin();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct file file = file_cut(a);
    struct ibv_send_wr wrs[COUNT_OF], *bad;
    struct ibv_sge sges[COUNT_OF];
    fill(a->memory, AREA, 5);
    for (int i = 0; i < COUNT_OF; i++) {
        post_receive(b, (uint64_t)i, (size_t)i * MTU, MTU);
        sges[i] = i == _i ? (struct ibv_sge){(uintptr_t)file.memory, lengths[i], file.mr->lkey}
                          : (struct ibv_sge){(uintptr_t)a->memory + (size_t)i * MTU, lengths[i], a->mr->lkey};
        wrs[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
                                      .next = i + 1 < COUNT_OF ? &wrs[i + 1] : NULL,
                                      .sg_list = &sges[i],
                                      .num_sge = 1,
                                      .opcode = IBV_WR_SEND,
                                      .send_flags = IBV_SEND_SIGNALED};
    }
    ck_assert_int_eq(soft_post_send(a->qp, wrs, &bad), 0);
    run(pair);
    for (int i = 0; i < COUNT_OF; i++)
        expect_wc(a->send_cq, (uint64_t)i,
                  i < _i    ? IBV_WC_SUCCESS
                  : i == _i ? IBV_WC_LOC_PROT_ERR
                            : IBV_WC_WR_FLUSH_ERR);
    for (int i = 0; i < _i; i++) {
        ck_assert_uint_eq(expect_wc(b->recv_cq, (uint64_t)i, IBV_WC_SUCCESS).byte_len, lengths[i]);
        ck_assert_int_eq(memcmp(a->memory + (size_t)i * MTU, b->memory + (size_t)i * MTU, lengths[i]), 0);
    }
    expect_byte(b->memory + (size_t)_i * MTU, MTU, 0);
    file_close(&file);
    pair_free(pair);
}
END_TEST

enum { READERS = 4 };

static void read_from(struct end *end, struct ibv_qp *qp, int id, uint32_t length, uint64_t from, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)end->memory + (size_t)id * MTU, length, end->mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = (uint64_t)id,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_READ,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {.remote_addr = from, .rkey = rkey}};
    ck_assert_int_eq(soft_post_send(qp, &wr, &bad), 0);
}

/* Several queue pairs of one way answer in one train; what one of them is asked for is gone (READERS: nothing is). */
START_TEST(answers_of_several)
{
    static const uint32_t lengths[READERS] = {1003, 2, 517, 4096};
    struct setup setup = setup_coalesced();
    setup.pull = true;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct file file = file_cut(b);
    struct ibv_qp *ours[READERS], *theirs[READERS];
    fill(b->memory, AREA, 6);
    for (int i = 0; i < READERS; i++) {
        ours[i] = qp_new(a, &setup);
        theirs[i] = qp_new(b, &setup);
        qp_connect(a, ours[i], b->node, theirs[i]->qp_num, 1, 2, &setup);
        qp_connect(b, theirs[i], a->node, ours[i]->qp_num, 2, 1, &setup);
    }
    for (int i = 0; i < READERS; i++)
        read_from(a, ours[i], i, lengths[i], (uintptr_t)(i == _i ? file.memory : b->memory + (size_t)i * MTU),
                  i == _i ? file.mr->rkey : b->rkey);
    network_arrive(pair->network);
    soft_lock(b->context);
    ck_assert_int_eq(soft_progress(b->context), READERS);
    soft_unlock(b->context);
    const struct packet *first = find_packet(pair->network, 1, READ_RESPONSE_ONLY, 0);
    unsigned answered = count_packets(pair->network, 1, READ_RESPONSE_ONLY);
    ck_assert_uint_eq(answered, _i < READERS ? READERS - 1 : READERS);
    for (unsigned i = 1; i < answered; i++)
        ck_assert_uint_eq(find_packet(pair->network, 1, READ_RESPONSE_ONLY, i)->train, first->train);
    run(pair);
    for (int left = READERS; left > 0; left--) {
        struct ibv_wc wc;
        ck_assert_int_eq(ibv_poll_cq(a->send_cq, 1, &wc), 1);
        ck_assert_int_eq(wc.status, (int)wc.wr_id == _i ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
        if ((int)wc.wr_id != _i)
            ck_assert_int_eq(memcmp(a->memory + wc.wr_id * MTU, b->memory + wc.wr_id * MTU, lengths[wc.wr_id]),
                             0);
    }
    for (int i = 0; i < READERS; i++) {
        ck_assert_int_eq(soft_destroy_qp(ours[i]), 0);
        ck_assert_int_eq(soft_destroy_qp(theirs[i]), 0);
    }
    file_close(&file);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: coalesced trains");
    TCase *tcase = tcase_create("trains");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, messages_share_a_train);
    tcase_add_test(tcase, first_packet_too);
    tcase_add_loop_test(tcase, a_train_is_lost, 0, 6);
    tcase_add_loop_test(tcase, trains_are_lost, 0, 20);
    tcase_add_loop_test(tcase, source_is_gone, 0, 5);
    tcase_add_loop_test(tcase, answers_of_several, 0, READERS + 1);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
