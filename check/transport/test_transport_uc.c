/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_uc.c - unreliable connections: messages arrive whole or not at all, in order, and nothing is sent
 * back.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/support/endpoints.h"

#define MTU 1024

static struct setup uc_setup(void)
{
    struct setup setup = setup_default();
    setup.type = IBV_QPT_UC;
    return setup;
}

static const enum ibv_wr_opcode operations[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                                IBV_WR_RDMA_WRITE_WITH_IMM};
static const size_t lengths[] = {0, 1, 100, MTU, MTU + 1, 3 * MTU, 40000};
#define OPERATIONS (int)(sizeof operations / sizeof *operations)
#define LENGTHS (int)(sizeof lengths / sizeof *lengths)

/* A message of each kind and length; its packets; and no answer. */
START_TEST(delivers)
{
    struct setup setup = uc_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    enum ibv_wr_opcode opcode = operations[_i % OPERATIONS];
    size_t length = lengths[_i / OPERATIONS];
    bool write = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    bool imm = opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    fill(a->memory, length, 7);
    post_receive(b, 20, 0, b->size);
    post(a, b,
         &(struct work){
             .id = 1, .opcode = opcode, .length = length, .imm = 0xabcd1234, .flags = IBV_SEND_SIGNALED});
    /* The message was sent; more is not known. */
    expect_done(a->send_cq, 1, write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND);
    run(pair);
    if (opcode != IBV_WR_RDMA_WRITE) {
        struct ibv_wc wc = expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
        ck_assert_uint_eq(wc.byte_len, length);
        ck_assert_int_eq(wc.opcode, write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
        ck_assert_uint_eq(wc.src_qp, a->qpn);
        ck_assert_uint_eq(wc.wc_flags & IBV_WC_WITH_IMM, imm ? IBV_WC_WITH_IMM : 0);
        if (imm)
            ck_assert_uint_eq(wc.imm_data, 0xabcd1234);
    }
    ck_assert(filled(b->memory, length, 7));
    expect_quiet(pair);
    ck_assert_uint_eq(network_packets(pair->network), roce_packets(length, MTU));
    for (unsigned i = 0; i < network_packets(pair->network); i++) {
        const struct packet *packet = network_packet(pair->network, i);
        ck_assert_uint_eq(packet->from, 0);
        ck_assert_uint_eq(packet->roce.opcode & 0xe0, ROCE_UC);
        ck_assert(!packet->roce.ackreq);
        ck_assert_uint_eq(packet->roce.psn, roce_psn(a->psn + i));
    }
    pair_free(pair);
}
END_TEST

static enum fate drop_one(void *arg, const struct packet *packet)
{
    return packet->number == *(unsigned *)arg ? FATE_DROP : FATE_DELIVER;
}

/* Of three messages of three packets each, packet `_i` is lost, and with it its message; the others arrive. */
START_TEST(a_gap_loses_one_message)
{
    struct setup setup = uc_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    unsigned lost = (unsigned)_i;
    network_set_script(pair->network, drop_one, &lost);
    for (uint64_t i = 0; i < 3; i++) {
        post_receive(b, 20 + i, i * 4096, 4096);
        fill(a->memory + i * 4096, 3 * MTU, i);
    }
    for (uint64_t i = 0; i < 3; i++)
        post(a, b,
             &(struct work){
                 .id = i, .opcode = IBV_WR_SEND, .at = i * 4096, .length = 3 * MTU, .imm = (uint32_t)i});
    run(pair);
    uint64_t receive = 0;
    for (unsigned i = 0; i < 3; i++) {
        if (i == lost / 3)
            continue;
        expect_wc(b->recv_cq, 20 + receive, IBV_WC_SUCCESS);
        ck_assert(filled(b->memory + receive * 4096, 3 * MTU, i));
        receive++;
    }
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_RTS);
    ck_assert_uint_eq(count_packets(pair->network, 1, ROCE_NO_OPCODE), 0);
    pair_free(pair);
}
END_TEST

/* A message without a posted receive is lost, and the next one is not. */
START_TEST(no_receive_loses_the_message)
{
    struct setup setup = uc_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 3000});
    run(pair);
    post_receive(b, 20, 0, 3000);
    post(a, b, &(struct work){.id = 2, .opcode = IBV_WR_SEND, .length = 2000});
    run(pair);
    ck_assert_uint_eq(expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS).byte_len, 2000);
    expect_quiet(pair);
    ck_assert_uint_eq(counters_of(b).unready, 1); /* counted once, although three packets arrived */
    pair_free(pair);
}
END_TEST

/* The same if it has arrived but was not processed yet: the receive was posted later. */
START_TEST(a_receive_posted_later_is_too_late)
{
    struct setup setup = uc_setup();
    setup.pull = true;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 3000});
    network_arrive(pair->network);
    post_receive(b, 20, 0, 3000);
    run(pair);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* An invalid request is dropped; the connection continues. */
START_TEST(wrong_key_is_dropped)
{
    struct setup setup = uc_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], wrong = *b;
    wrong.rkey ^= 1;
    memset(b->memory, 0x33, b->size);
    post_receive(b, 20, 8192, 100);
    post(a, &wrong, &(struct work){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 3000});
    post(a, b, &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = 3000, .target = b->size - 2999});
    run(pair);
    expect_byte(b->memory, b->size, 0x33);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_RTS);
    ck_assert_uint_ge(counters_of(b).refused, 2);
    post(a, b, &(struct work){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 3000});
    run(pair);
    ck_assert_uint_eq(expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS).byte_len, 3000);
    pair_free(pair);
}
END_TEST

/* A message that is too long for its receive is dropped, and the receive is used for the next one; but a receive of a
 * shared queue can't be put back, and fails. */
START_TEST(short_receive)
{
    struct setup setup = uc_setup();
    setup.srq_depth = _i ? 16 : 0;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post_receive(b, 20, 0, 2999);
    post(a, b, &(struct work){.opcode = IBV_WR_SEND, .length = 3000});
    post(a, b, &(struct work){.opcode = IBV_WR_SEND, .length = 2999});
    run(pair);
    expect_wc(b->recv_cq, 20, _i ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(b->qp), _i ? IBV_QPS_ERR : IBV_QPS_RTS);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_RTS);
    ck_assert_uint_eq(count_packets(pair->network, 1, ROCE_NO_OPCODE), 0);
    pair_free(pair);
}
END_TEST

/* A wrong local key stops only the send queue (SQE); it continues after SQE -> RTS. */
START_TEST(send_queue_error)
{
    struct setup setup = uc_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], wrong = *a;
    struct ibv_mr mr = *a->mr;
    mr.lkey ^= 1;
    wrong.mr = &mr;
    post_receive(a, 10, 0, 100);
    post(&wrong, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 8});
    post(a, b, &(struct work){.id = 2, .opcode = IBV_WR_SEND, .length = 8});
    expect_wc(a->send_cq, 1, IBV_WC_LOC_PROT_ERR);
    expect_wc(a->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_SQE);
    post(b, a, &(struct work){.opcode = IBV_WR_SEND, .length = 100}); /* the queue pair still receives */
    run(pair);
    expect_wc(a->recv_cq, 10, IBV_WC_SUCCESS);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
    ck_assert_int_eq(soft_modify_qp(a->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
    post_receive(b, 20, 0, 100);
    post(a, b, &(struct work){.id = 3, .opcode = IBV_WR_SEND, .length = 50, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 3, IBV_WC_SEND);
    ck_assert_uint_eq(expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS).byte_len, 50);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* A file is truncated while a message from it is half sent: that message fails. */
START_TEST(pages_that_are_gone)
{
    struct setup setup = uc_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], file = *a;
    int fd = memfd_create("gone", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 16384), 0);
    file.memory = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(file.memory, MAP_FAILED);
    file.mr = soft_reg_mr(a->pd, file.memory, 16384, 0);
    ck_assert_ptr_nonnull(file.mr);
    post_receive(b, 20, 0, 16384);
    ck_assert_int_eq(ftruncate(fd, 8192), 0); /* the second half is gone */
    post(&file, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 4096, .flags = IBV_SEND_SIGNALED});
    post(&file, b, &(struct work){.id = 2, .opcode = IBV_WR_SEND, .length = 16384});
    expect_done(a->send_cq, 1, IBV_WC_SEND);
    expect_wc(a->send_cq, 2, IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_SQE);
    run(pair);
    ck_assert_uint_eq(expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS).byte_len, 4096);
    expect_quiet(pair);
    ck_assert_int_eq(soft_dereg_mr(file.mr), 0);
    munmap(file.memory, 16384);
    close(fd);
    pair_free(pair);
}
END_TEST

START_TEST(has_no_reads_and_no_reliable_attributes)
{
    struct setup setup = uc_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], spare = *a;
    static const enum ibv_wr_opcode answered[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
                                                  IBV_WR_ATOMIC_FETCH_AND_ADD};
    for (size_t i = 0; i < sizeof answered / sizeof *answered; i++)
        ck_assert_int_eq(post_try(a, b, &(struct work){.opcode = answered[i], .length = 8}), EINVAL);
    spare.qp = qp_new(&spare, &setup);
    ck_assert_int_eq(qp_init(spare.qp, ACCESS_ALL), 0);
    ck_assert_int_eq(qp_ready_to_receive(&spare, spare.qp, b->node, b->qpn, 0, &setup), 0);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .timeout = 14};
    ck_assert_int_eq(soft_modify_qp(spare.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT), EINVAL);
    ck_assert_int_eq(soft_modify_qp(spare.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    ck_assert_int_eq(soft_destroy_qp(spare.qp), 0);
    pair_free(pair);
}
END_TEST

/* A message that is far longer than any window, sent at once. */
START_TEST(long_messages)
{
    struct setup setup = uc_setup();
    setup.memory = 2 << 20;
    setup.mtu = IBV_MTU_256;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    fill(a->memory, a->size, 3);
    post(a, b,
         &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = a->size, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    ck_assert(filled(b->memory, b->size, 3));
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: unreliable connections");
    TCase *tcase = new_case(suite, "uc");
    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, delivers, 0, OPERATIONS * LENGTHS);
    tcase_add_loop_test(tcase, a_gap_loses_one_message, 0, 9);
    tcase_add_test(tcase, no_receive_loses_the_message);
    tcase_add_test(tcase, a_receive_posted_later_is_too_late);
    tcase_add_test(tcase, wrong_key_is_dropped);
    tcase_add_loop_test(tcase, short_receive, 0, 2);
    tcase_add_test(tcase, send_queue_error);
    tcase_add_test(tcase, pages_that_are_gone);
    tcase_add_test(tcase, has_no_reads_and_no_reliable_attributes);
    tcase_add_test(tcase, long_messages);
    return run_suite(suite);
}
