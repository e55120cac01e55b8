/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_atomic.c - compare-and-swap and fetch-and-add: executed exactly once, whatever the network does. */
#include <string.h>
#include "check/support/endpoints.h"

#define ATOMIC_ACCESS (ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC)

static struct setup atomic_setup(void)
{
    struct setup setup = setup_default();
    setup.qp_access = setup.mr_access = ATOMIC_ACCESS;
    return setup;
}

struct atomic {
    uint64_t id;
    bool swap;
    uint64_t compare, value; /* value: to swap in, or to add */
    size_t at, target;       /* at: where the original value is stored; target: the remote address */
};

static void post_atomic(struct pair *pair, const struct atomic *atomic)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_sge sge = {.addr = (uintptr_t)a->memory + atomic->at, .length = 8, .lkey = a->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = atomic->id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = atomic->swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.atomic.remote_addr = (uintptr_t)b->memory + atomic->target;
    wr.wr.atomic.rkey = b->rkey;
    wr.wr.atomic.compare_add = atomic->swap ? atomic->compare : atomic->value;
    wr.wr.atomic.swap = atomic->swap ? atomic->value : 0;
    int error = ibv_post_send(a->qp, &wr, &bad);
    expect(!error, "ibv_post_send: %s", strerror(error));
}

static uint64_t load(const struct end *end, size_t at)
{
    uint64_t value;
    memcpy(&value, end->memory + at, 8);
    return value;
}

static void store(struct end *end, size_t at, uint64_t value)
{
    memcpy(end->memory + at, &value, 8);
}

START_TEST(fetch_and_add)
{
    struct setup setup = atomic_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    store(b, 64, 0xfffffffffffffff0u);
    post_atomic(pair, &(struct atomic){.id = 1, .value = 0x23, .at = 40, .target = 64});
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_FETCH_ADD);
    ck_assert_uint_eq(load(a, 40), 0xfffffffffffffff0u);
    ck_assert_uint_eq(load(b, 64), 0x13);
    expect_byte(b->memory, 64, 0);
    expect_byte(b->memory + 72, 64, 0);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

START_TEST(compare_and_swap)
{
    struct setup setup = atomic_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    store(b, 8, 0x1122334455667788);
    post_atomic(pair, &(struct atomic){.id = 1, .swap = true, .compare = 5, .value = 6, .target = 8});
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_COMP_SWAP);
    ck_assert_uint_eq(load(a, 0), 0x1122334455667788);
    ck_assert_uint_eq(load(b, 8), 0x1122334455667788);
    post_atomic(
        pair, &(struct atomic){.id = 2, .swap = true, .compare = 0x1122334455667788, .value = 6, .target = 8});
    run(pair);
    expect_done(a->send_cq, 2, IBV_WC_COMP_SWAP);
    ck_assert_uint_eq(load(a, 0), 0x1122334455667788);
    ck_assert_uint_eq(load(b, 8), 6);
    pair_free(pair);
}
END_TEST

START_TEST(on_the_wire)
{
    struct setup setup = atomic_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    store(b, 16, 7);
    post_atomic(pair, &(struct atomic){.id = 1, .swap = true, .compare = 7, .value = 9, .target = 16});
    post_atomic(pair, &(struct atomic){.id = 2, .value = 100, .target = 16});
    run(pair);
    const struct packet *swap = find_packet(pair->network, 0, COMPARE_SWAP, 0);
    const struct packet *add = find_packet(pair->network, 0, FETCH_ADD, 0);
    ck_assert(swap && add);
    ck_assert_uint_eq(swap->length, ROCE_BTH + ROCE_ATOMIC);
    ck_assert_uint_eq(swap->roce.psn, a->psn);
    ck_assert_uint_eq(swap->roce.va, (uintptr_t)b->memory + 16);
    ck_assert_uint_eq(swap->roce.rkey, b->rkey);
    ck_assert_uint_eq(swap->roce.swap_add, 9);
    ck_assert_uint_eq(swap->roce.compare, 7);
    ck_assert_uint_eq(add->roce.psn, a->psn + 1);
    ck_assert_uint_eq(add->roce.swap_add, 100);
    for (unsigned i = 0; i < 2; i++) {
        const struct packet *answer = find_packet(pair->network, 1, ATOMIC_ACKNOWLEDGE, i);
        ck_assert_ptr_nonnull(answer);
        ck_assert_uint_eq(answer->length, ROCE_BTH + ROCE_AETH + ROCE_ORIGINAL);
        ck_assert_uint_eq(answer->roce.psn, a->psn + i);
        ck_assert_uint_eq(answer->roce.syndrome, SYNDROME_ACK);
        ck_assert_uint_eq(answer->roce.msn, i + 1);
        ck_assert_uint_eq(answer->roce.original, i ? 9 : 7);
    }
    pair_free(pair);
}
END_TEST

/* Each combination of one kind of fault among the first packets: the sum shows whether an operation was executed
 * twice. */
#define FIRST 12

struct mask {
    uint32_t bits;
    enum fate fate;
};

static enum fate by_mask(void *arg, const struct packet *packet)
{
    const struct mask *mask = arg;
    return packet->number < FIRST && mask->bits >> packet->number & 1 ? mask->fate : FATE_DELIVER;
}

START_TEST(executed_once)
{
    static const enum fate fates[] = {FATE_DROP, FATE_DUPLICATE, FATE_DELAY, FATE_ECHO};
    struct setup setup = atomic_setup();
    setup.psn[0] = 0xfffffe;
    setup.max_rd_atomic = 2;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct mask mask = {.fate = fates[_i]};
    network_keep_bytes(pair->network, false);
    network_set_script(pair->network, by_mask, &mask);
    for (mask.bits = 0; mask.bits < 1 << FIRST; mask.bits++) {
        pair_renew(pair);
        store(b, 0, 0);
        for (uint64_t i = 0; i < 4; i++) {
            post_atomic(pair,
                        &(struct atomic){.id = i, .value = (uint64_t)1 << 8 * i, .at = 8 * i, .target = 0});
            if (i == 1)
                post(a, b,
                     &(struct work){.id = 9, .opcode = IBV_WR_RDMA_READ, .at = 64, .length = 8, .target = 0});
        }
        run(pair);
        uint64_t sum = 0;
        for (uint64_t i = 0; i < 4; i++) {
            expect_done(a->send_cq, i, IBV_WC_FETCH_ADD);
            expect(load(a, 8 * i) == sum, "mask %03x: number %llu found %llx", mask.bits, (unsigned long long)i,
                   (unsigned long long)load(a, 8 * i));
            sum += (uint64_t)1 << 8 * i;
        }
        expect(load(b, 0) == sum, "mask %03x: the sum is %llx", mask.bits, (unsigned long long)load(b, 0));
        expect_quiet(pair);
    }
    pair_free(pair);
}
END_TEST

/* ---- Refused requests ---- */

static void refused(struct pair *pair, size_t target, enum ibv_wc_status status)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    memset(b->memory, 0x33, b->size);
    post_atomic(pair, &(struct atomic){.id = 1, .value = 1, .target = target});
    post_atomic(pair, &(struct atomic){.id = 2, .value = 1, .target = 0});
    run(pair);
    expect_wc(a->send_cq, 1, status);
    expect_wc(a->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    expect_byte(b->memory, b->size, 0x33);
    pair_free(pair);
}

START_TEST(misaligned)
{
    struct setup setup = atomic_setup();
    struct pair *pair = pair_new(&setup);
    refused(pair, (size_t)_i, IBV_WC_REM_INV_REQ_ERR);
}
END_TEST

/* The local buffer must have eight bytes, no more and no less. */
START_TEST(local_length)
{
    struct setup setup = atomic_setup();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_sge sge = {.addr = (uintptr_t)a->memory, .length = (uint32_t)_i, .lkey = a->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD},
                       *bad;
    wr.wr.atomic.remote_addr = (uintptr_t)b->memory;
    wr.wr.atomic.rkey = b->rkey;
    wr.wr.atomic.compare_add = 1;
    if (!ibv_post_send(a->qp, &wr, &bad)) {
        run(pair);
        expect_wc(a->send_cq, 1, IBV_WC_LOC_LEN_ERR);
    }
    expect_byte(b->memory, 8, 0);
    pair_free(pair);
}
END_TEST

START_TEST(region_without_permission)
{
    struct setup setup = atomic_setup();
    setup.mr_access = ACCESS_ALL;
    struct pair *pair = pair_new(&setup);
    refused(pair, 0, IBV_WC_REM_ACCESS_ERR);
}
END_TEST

START_TEST(queue_pair_without_permission)
{
    struct setup setup = atomic_setup();
    setup.qp_access = ACCESS_ALL;
    struct pair *pair = pair_new(&setup);
    refused(pair, 0, IBV_WC_REM_INV_REQ_ERR);
}
END_TEST

START_TEST(wrong_key_or_range)
{
    struct setup setup = atomic_setup();
    struct pair *pair = pair_new(&setup);
    if (_i)
        pair->end[1].rkey ^= 0x100;
    refused(pair, _i ? 0 : setup.memory, IBV_WC_REM_ACCESS_ERR);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: atomic");
    TCase *tcase = new_case(suite, "atomic");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, fetch_and_add);
    tcase_add_test(tcase, compare_and_swap);
    tcase_add_test(tcase, on_the_wire);
    tcase_add_loop_test(tcase, executed_once, 0, 4);
    tcase_add_loop_test(tcase, misaligned, 1, 8);
    tcase_add_loop_test(tcase, local_length, 0, 8);
    tcase_add_test(tcase, region_without_permission);
    tcase_add_test(tcase, queue_pair_without_permission);
    tcase_add_loop_test(tcase, wrong_key_or_range, 0, 2);
    return run_suite(suite);
}
