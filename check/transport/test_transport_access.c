/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_access.c - keys, bounds and access flags of the memory that peers read and write. */
#include <string.h>
#include "check/support/endpoints.h"

#define LENGTH 3000 /* three packets: a request is refused at its first one */

/* Posts three requests that must be refused: the first one fails as expected, the others are flushed, the responder's
 * queue pair is in the error state, and its memory is unchanged. */
static void refused(struct pair *pair, const struct end *target, struct work work, uint8_t syndrome,
                    enum ibv_wc_status status)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    memset(a->memory, 0xdd, a->size);
    memset(b->memory, 0x33, b->size);
    post_receive(a, 10, 0, 8);
    post_receive(b, 20, 0, 8);
    for (work.id = 1; work.id <= 3; work.id++)
        post(a, target, &work);
    run(pair);
    expect_wc(a->send_cq, 1, status);
    expect_wc(a->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->recv_cq, 10, IBV_WC_WR_FLUSH_ERR);
    expect_wc(b->recv_cq, 20, IBV_WC_WR_FLUSH_ERR);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    expect_byte(b->memory, b->size, 0x33);
    if (work.opcode == IBV_WR_RDMA_READ)
        expect_byte(a->memory, a->size, 0xdd);
    unsigned naks = 0;
    for (unsigned i = 0; i < network_packets(pair->network); i++) {
        const struct packet *packet = network_packet(pair->network, i);
        if (packet->from == 0)
            continue;
        ck_assert_uint_eq(packet->roce.opcode, ACKNOWLEDGE);
        ck_assert_uint_eq(packet->roce.syndrome, syndrome);
        ck_assert_uint_eq(packet->roce.psn, a->psn);
        naks++;
    }
    ck_assert_uint_eq(naks, 1);
    ck_assert_uint_ge(counters_of(b).refused, 1);
    pair_free(pair);
}

static const enum ibv_wr_opcode rdma[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};
#define RDMA (int)(sizeof rdma / sizeof *rdma)

static struct work work_of(int i, size_t target)
{
    return (struct work){.opcode = rdma[i], .length = LENGTH, .target = target};
}

START_TEST(wrong_rkey)
{
    static const uint32_t flips[] = {1, 0x80, 0x100, 0x10000, 0x80000000, 0xffffffff};
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end target = pair->end[1];
    target.rkey ^= flips[_i / RDMA];
    refused(pair, &target, work_of(_i % RDMA, 0), SYNDROME_ACCESS, IBV_WC_REM_ACCESS_ERR);
}
END_TEST

START_TEST(out_of_range)
{
    struct setup setup = setup_default();
    const size_t targets[] = {setup.memory - LENGTH + 1, (size_t)-1,          setup.memory,
                              setup.memory + 100,        (size_t)-GUARD,      (size_t)1 << 62,
                              (size_t)1 << 32,           setup.memory - 1024, setup.memory - 2 * 1024};
    struct pair *pair = pair_new(&setup);
    refused(pair, &pair->end[1], work_of(_i % RDMA, targets[_i / RDMA]), SYNDROME_ACCESS,
            IBV_WC_REM_ACCESS_ERR);
}
END_TEST

/* The end wraps around the address space. */
START_TEST(address_wraps_around)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    size_t target = (size_t)-1000 - (uintptr_t)pair->end[1].memory;
    refused(pair, &pair->end[1], work_of(_i, target), SYNDROME_ACCESS, IBV_WC_REM_ACCESS_ERR);
}
END_TEST

START_TEST(region_without_permission)
{
    struct setup setup = setup_default();
    setup.mr_access = rdma[_i] == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
                                                   : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    struct pair *pair = pair_new(&setup);
    refused(pair, &pair->end[1], work_of(_i, 0), SYNDROME_ACCESS, IBV_WC_REM_ACCESS_ERR);
}
END_TEST

/* The access flags of the queue pair: an operation that they do not permit is an invalid request. */
START_TEST(queue_pair_without_permission)
{
    struct setup setup = setup_default();
    setup.qp_access = rdma[_i] == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
                                                   : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    struct pair *pair = pair_new(&setup);
    refused(pair, &pair->end[1], work_of(_i, 0), SYNDROME_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR);
}
END_TEST

START_TEST(region_of_another_domain)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end target = pair->end[1];
    struct ibv_pd *pd = soft_alloc_pd(target.context);
    struct ibv_mr *mr = soft_reg_mr(pd, target.memory, target.size, ACCESS_ALL);
    ck_assert_uint_ne(mr->rkey, target.rkey);
    target.rkey = mr->rkey;
    struct work work = work_of(_i, 0);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    memset(b->memory, 0x33, b->size);
    post_receive(b, 2, 0, 8);
    post(a, &target, &work);
    run(pair);
    expect_wc(a->send_cq, 0, IBV_WC_REM_ACCESS_ERR);
    expect_byte(b->memory, b->size, 0x33);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    ck_assert_int_eq(soft_dealloc_pd(pd), 0);
    pair_free(pair);
}
END_TEST

START_TEST(deregistered_region)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *b = &pair->end[1], old = *b;
    for (int i = 0; i < 20; i++) { /* a region that is registered in its place has another key */
        ck_assert_int_eq(soft_dereg_mr(b->mr), 0);
        b->mr = soft_reg_mr(b->pd, b->memory, b->size, ACCESS_ALL);
        ck_assert_uint_ne(b->mr->rkey, old.rkey);
    }
    refused(pair, &old, work_of(_i, 0), SYNDROME_ACCESS, IBV_WC_REM_ACCESS_ERR);
}
END_TEST

/* The region is deregistered in the middle of a message to it. */
START_TEST(deregistered_while_written)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    uint8_t packet[ROCE_MAX];
    memset(a->memory, 0xdd, a->size);
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 5 * 1024});
    /* only its first two packets arrive before */
    for (unsigned i = 0; i < 2; i++) {
        const struct packet *first = network_packet(pair->network, i);
        memcpy(packet, first->bytes, first->length);
        network_inject(pair->network, 0, 1, packet, first->length);
    }
    ck_assert_int_eq(soft_dereg_mr(b->mr), 0);
    b->mr = NULL;
    memset(b->memory, 0x33, b->size);
    run(pair);
    expect_byte(b->memory, b->size, 0x33);
    expect_wc(a->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
    pair_free(pair);
}
END_TEST

/* Without bytes no memory is accessed, so no key is needed. */
START_TEST(zero_length_needs_no_key)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], target = *b;
    target.rkey = 0xdeadbeef;
    post_receive(b, 9, 0, 0);
    for (int i = 0; i < RDMA; i++)
        post(a, &target,
             &(struct work){
                 .id = (uint64_t)i, .opcode = rdma[i], .target = (size_t)1 << 40, .flags = IBV_SEND_SIGNALED});
    run(pair);
    for (int i = 0; i < RDMA; i++)
        expect_wc(a->send_cq, (uint64_t)i, IBV_WC_SUCCESS);
    expect_wc(b->recv_cq, 9, IBV_WC_SUCCESS);
    pair_free(pair);
}
END_TEST

/* After soft_check_every_key() a WRITE WITH IMMEDIATE needs a valid key, even if it has no bytes. */
START_TEST(zero_length_needs_a_key)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], target = *b;
    struct work work = {.id = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .target = setup.memory};
    soft_check_every_key(b->qp);
    post_receive(b, 8, 0, 0);
    post_receive(b, 9, 0, 0);
    work.flags = IBV_SEND_SIGNALED;
    post(a, b, &work);
    run(pair);
    expect_wc(a->send_cq, 1, IBV_WC_SUCCESS);
    expect_wc(b->recv_cq, 8, IBV_WC_SUCCESS);
    if (_i == 0)
        target.rkey ^= 1;
    else
        work.target = setup.memory + 1;
    work.id = 2;
    post(a, &target, &work);
    run(pair);
    expect_wc(a->send_cq, 2, IBV_WC_REM_ACCESS_ERR);
    expect_wc(b->recv_cq, 9, IBV_WC_LOC_ACCESS_ERR);
    pair_free(pair);
}
END_TEST

/* The whole region and no byte more: pair_free() checks the guards. */
START_TEST(exactly_the_region)
{
    struct setup setup = setup_default();
    setup.memory = 5001;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    fill(a->memory, 5001, 1);
    post_receive(b, 5, 0, 5001);
    post(a, b,
         &(struct work){.id = 1, .opcode = IBV_WR_RDMA_WRITE, .length = 5001, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    expect(filled(b->memory, 5001, 1), "the data differ");
    post(a, b, &(struct work){.id = 2, .opcode = IBV_WR_SEND, .length = 5001, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 2, IBV_WC_SEND);
    fill(b->memory, 5001, 2);
    post(a, b, &(struct work){.id = 3, .opcode = IBV_WR_RDMA_READ, .length = 5001, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 3, IBV_WC_RDMA_READ);
    expect(filled(a->memory, 5001, 2), "the data differ");
    pair_free(pair);
}
END_TEST

/* Keys are not a sequence: no difference between two successive keys occurs twice, and no key is used again. The test's
 * random numbers are the same each time. */
START_TEST(keys_tell_nothing)
{
    enum { KEYS = 1500 };
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *b = &pair->end[1];
    uint32_t keys[KEYS] = {b->rkey};
    for (int i = 1; i < KEYS; i++) {
        struct ibv_mr *mr = soft_reg_mr(b->pd, b->memory, b->size, IBV_ACCESS_LOCAL_WRITE);
        ck_assert_ptr_nonnull(mr);
        ck_assert_uint_eq(mr->lkey, mr->rkey);
        keys[i] = mr->rkey;
        ck_assert_int_eq(soft_dereg_mr(mr), 0);
    }
    for (int i = 0; i < KEYS; i++) {
        ck_assert_uint_ne(keys[i], 0);
        for (int j = 0; j < i; j++) { /* a million pairs: no ck_assert, because Check records each call */
            if (keys[i] == keys[j])
                ck_abort_msg("the key %x again", keys[i]);
            if (i < KEYS - 1 && keys[i + 1] - keys[i] == keys[j + 1] - keys[j])
                ck_abort_msg("a step of %x again", keys[i + 1] - keys[i]);
        }
    }
    pair_free(pair);
}
END_TEST

/* Each key gives access to its own region, however many there are and whichever were deregistered; keys of deregistered
 * regions give none. */
START_TEST(many_keys)
{
    enum { REGIONS = 600 };
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1], target = *b;
    struct ibv_mr *mrs[REGIONS];
    uint32_t gone = 0;
    memset(b->memory, 0, b->size);
    for (unsigned i = 0; i < REGIONS; i++) {
        mrs[i] = soft_reg_mr(b->pd, b->memory + i, 1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        ck_assert_ptr_nonnull(mrs[i]);
    }
    for (unsigned i = 0; i < REGIONS; i++) {
        if (i * 7 % 13 < 6)
            continue;
        gone = mrs[i]->rkey;
        ck_assert_int_eq(soft_dereg_mr(mrs[i]), 0);
        mrs[i] = NULL;
    }
    memset(a->memory, 0xdd, a->size);
    for (unsigned i = 0; i < REGIONS; i++) {
        if (mrs[i] == NULL)
            continue;
        target.rkey = mrs[i]->rkey;
        post(a, &target,
             &(struct work){
                 .id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 1, .target = i, .flags = IBV_SEND_SIGNALED});
        run(pair);
        expect_done(a->send_cq, i, IBV_WC_RDMA_WRITE);
    }
    for (unsigned i = 0; i < REGIONS; i++) {
        ck_assert_uint_eq(b->memory[i], mrs[i] != NULL ? 0xdd : 0);
        if (mrs[i] != NULL)
            ck_assert_int_eq(soft_dereg_mr(mrs[i]), 0);
    }
    target.rkey = gone;
    post(a, &target, &(struct work){.id = REGIONS, .opcode = IBV_WR_RDMA_WRITE, .length = 1});
    run(pair);
    expect_wc(a->send_cq, REGIONS, IBV_WC_REM_ACCESS_ERR);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: access");
    TCase *remote = new_case(suite, "remote");
    tcase_add_loop_test(remote, wrong_rkey, 0, 6 * RDMA);
    tcase_add_loop_test(remote, out_of_range, 0, 9 * RDMA);
    tcase_add_loop_test(remote, address_wraps_around, 0, RDMA);
    tcase_add_loop_test(remote, region_without_permission, 0, RDMA);
    tcase_add_loop_test(remote, queue_pair_without_permission, 0, RDMA);
    tcase_add_loop_test(remote, region_of_another_domain, 0, RDMA);
    tcase_add_loop_test(remote, deregistered_region, 0, RDMA);
    tcase_add_test(remote, deregistered_while_written);
    tcase_add_test(remote, zero_length_needs_no_key);
    tcase_add_loop_test(remote, zero_length_needs_a_key, 0, 2);
    tcase_add_test(remote, exactly_the_region);
    tcase_add_test(remote, keys_tell_nothing);
    tcase_add_test(remote, many_keys);
    return run_suite(suite);
}
