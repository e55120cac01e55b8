/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_demand.c - on-demand paging: which memory may be registered, access to pages that exist only later or
 * never, and ibv_advise_mr().
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/support/endpoints.h"

#define ON_DEMAND (ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ON_DEMAND)

static size_t page;

/* Returns two pages, the second of which is not mapped. */
static uint8_t *half(int protection)
{
    uint8_t *at;

    page = (size_t)sysconf(_SC_PAGESIZE);
    at = mmap(NULL, 2 * page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    ck_assert_int_eq(munmap(at + page, page), 0);
    return at;
}

static struct pair *pair_with_atomics(void)
{
    struct setup setup = setup_default();

    setup.mr_access = setup.qp_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC;
    return pair_new(&setup);
}

/* The first end requests an operation on these 8 bytes. */
static void ask(struct pair *pair, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, const void *at,
                enum ibv_wc_status status)
{
    struct end *a = &pair->end[0];
    struct ibv_sge sge = {.addr = (uintptr_t)a->memory, .length = 8, .lkey = a->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)at;
        wr.wr.atomic.compare_add = 1;
        wr.wr.atomic.rkey = mr->rkey;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)at;
        wr.wr.rdma.rkey = mr->rkey;
    }
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    run(pair);
    expect_wc(a->send_cq, 1, status);
}

/* ---- Registration ---- */

START_TEST(what_may_be_registered)
{
    struct pair *pair = pair_with_atomics();
    struct ibv_pd *pd = pair->end[1].pd;
    uint8_t *at = half(PROT_READ | PROT_WRITE);
    const struct {
        void *at;
        size_t length;
        int access, error;
    } rows[] = {
        {at, 2 * page, ON_DEMAND, 0},         {at, 2 * page, ACCESS_ALL, EFAULT},
        {NULL, SIZE_MAX, ON_DEMAND, 0}, /* the whole address space (implicit ODP) */
        {NULL, SIZE_MAX, ACCESS_ALL, EFAULT}, {at, SIZE_MAX, ON_DEMAND, EINVAL},
        {at, 0, ON_DEMAND, EINVAL},           {NULL, 0, ON_DEMAND, EINVAL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ibv_mr *mr = soft_reg_mr(pd, rows[i].at, rows[i].length, rows[i].access);

        ck_assert_msg((mr != NULL) == (rows[i].error == 0), "row %zu", i);
        if (mr != NULL)
            ck_assert_int_eq(soft_dereg_mr(mr), 0);
        else
            ck_assert_msg(errno == rows[i].error, "row %zu: errno %d", i, errno);
    }
    munmap(at, page);
    pair_free(pair);
}
END_TEST

/* ---- Access ---- */

START_TEST(pages_come_later)
{
    struct pair *pair = pair_with_atomics();
    uint8_t *at = half(PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = soft_reg_mr(pair->end[1].pd, at, 2 * page, ON_DEMAND);

    ck_assert_ptr_nonnull(mr);
    ck_assert_ptr_eq(
        mmap(at + page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        at + page);
    memset(pair->end[0].memory, 'x', 8);
    ask(pair, IBV_WR_RDMA_WRITE, mr, at + page, IBV_WC_SUCCESS);
    expect_byte(at + page, 8, 'x');
    ask(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, mr, at + page, IBV_WC_SUCCESS);
    ck_assert_uint_eq(at[page], 'x' + 1);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    munmap(at, 2 * page);
    pair_free(pair);
}
END_TEST

/* The page is not mapped, or may not be written: the peer gets a NAK, and no signal is raised. */
START_TEST(pages_that_never_come)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                                 IBV_WR_RDMA_READ};
    struct pair *pair = pair_with_atomics();
    uint8_t *at = half(PROT_READ);
    struct ibv_mr *mr = soft_reg_mr(pair->end[1].pd, at, 2 * page, ON_DEMAND);

    ck_assert_ptr_nonnull(mr);
    ask(pair, opcodes[_i / 2], mr, _i % 2 ? at : at + page,
        opcodes[_i / 2] == IBV_WR_RDMA_READ && _i % 2 ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    munmap(at, page);
    pair_free(pair);
}
END_TEST

START_TEST(all_of_the_process)
{
    struct pair *pair = pair_with_atomics();
    struct end *b = &pair->end[1];
    struct ibv_mr *mr = soft_reg_mr(b->pd, NULL, SIZE_MAX, ON_DEMAND);

    ck_assert_ptr_nonnull(mr);
    memset(pair->end[0].memory, 'y', 8);
    ask(pair, IBV_WR_RDMA_WRITE, mr, b->memory + 512, IBV_WC_SUCCESS);
    expect_byte(b->memory + 512, 8, 'y');
    ask(pair, IBV_WR_RDMA_WRITE, mr, NULL, IBV_WC_REM_OP_ERR);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    pair_free(pair);
}
END_TEST

/* ---- Advice ---- */

#define READS IBV_ADVISE_MR_ADVICE_PREFETCH
#define WRITES IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define WAIT IBV_ADVISE_MR_FLAG_FLUSH

/* About `length` bytes at offset `from` of a region of two pages, the second of which is not mapped. */
static const struct advice {
    enum ibv_advise_mr_advice advice;
    uint32_t flags;
    size_t from, length; /* bytes; a page has 4096 */
    int protection, access;
    bool other_key;
    unsigned count;
    int error;
} advices[] = {
    {READS, WAIT, 0, 4096, PROT_READ | PROT_WRITE, 0, false, 1, 0},
    {READS, WAIT, 100, 1000, PROT_READ | PROT_WRITE, 0, false, 1, 0},
    {READS, WAIT, 4000, 1000, PROT_READ | PROT_WRITE, 0, false, 1, EFAULT},
    {READS, 0, 4000, 1000, PROT_READ | PROT_WRITE, 0, false, 1, 0},
    {READS, WAIT, 0, 3 * 4096, PROT_READ | PROT_WRITE, 0, false, 1, EFAULT},
    {READS, 0, 0, 3 * 4096, PROT_READ | PROT_WRITE, 0, false, 1, EFAULT},
    {READS, 0, 0, 4096, PROT_READ | PROT_WRITE, 0, true, 1, EFAULT},
    {READS, 0, 0, 4096, PROT_READ | PROT_WRITE, 0, false, 0, EINVAL},
    {READS, 2, 0, 4096, PROT_READ | PROT_WRITE, 0, false, 1, EINVAL},
    {NO_FAULT + 1, 0, 0, 4096, PROT_READ | PROT_WRITE, 0, false, 1, ENOTSUP},
    {NO_FAULT, WAIT, 4000, 1000, PROT_READ | PROT_WRITE, 0, false, 1, 0},
    {NO_FAULT, WAIT, 0, 4096, PROT_READ | PROT_WRITE, 0, true, 1, EFAULT},
    {WRITES, WAIT, 0, 4096, PROT_READ | PROT_WRITE, IBV_ACCESS_LOCAL_WRITE, false, 1, 0},
    {WRITES, 0, 0, 4096, PROT_READ | PROT_WRITE, 0, false, 1, EFAULT},
    {WRITES, WAIT, 0, 4096, PROT_READ, IBV_ACCESS_LOCAL_WRITE, false, 1, EFAULT},
    {READS, WAIT, 0, 4096, PROT_READ, IBV_ACCESS_LOCAL_WRITE, false, 1, 0},
};

START_TEST(advice_is_taken)
{
    const struct advice *row = &advices[_i];
    struct pair *pair = pair_with_atomics();
    struct ibv_pd *pd = pair->end[1].pd;
    uint8_t *at = half(row->protection);
    struct ibv_mr *mr = soft_reg_mr(pd, at, 2 * page, row->access | IBV_ACCESS_ON_DEMAND);
    struct ibv_sge sge = {.addr = (uintptr_t)at + row->from * page / 4096,
                          .length = (uint32_t)(row->length * page / 4096)};

    ck_assert_ptr_nonnull(mr);
    sge.lkey = mr->lkey ^ (row->other_key ? 0x100 : 0);
    ck_assert_int_eq(soft_advise_mr(pd, row->advice, row->flags, &sge, row->count), row->error);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    munmap(at, page);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport_demand");
    TCase *demand = new_case(suite, "paged on demand");

    tcase_add_test(demand, what_may_be_registered);
    tcase_add_test(demand, pages_come_later);
    tcase_add_loop_test(demand, pages_that_never_come, 0, 6);
    tcase_add_test(demand, all_of_the_process);
    tcase_add_loop_test(demand, advice_is_taken, 0, (int)(sizeof advices / sizeof *advices));
    return run_suite(suite);
}
