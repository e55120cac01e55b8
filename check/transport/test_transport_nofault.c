/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_nofault.c - memory that vanishes while the device writes to it: mapped files that are truncated. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/support/endpoints.h"

#define LENGTH 3000 /* three packets */
#define FILE_BYTES 16384
#define FILE_LEFT 4096 /* bytes that remain after truncation */

struct file {
    int fd;
    uint8_t *memory;
    struct ibv_mr *mr;
};

static struct file file_map(struct ibv_pd *pd)
{
    struct file file = {.fd = memfd_create("target", MFD_CLOEXEC)};
    ck_assert_int_eq(ftruncate(file.fd, FILE_BYTES), 0);
    file.memory = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    ck_assert_ptr_ne(file.memory, MAP_FAILED);
    file.mr = soft_reg_mr(pd, file.memory, FILE_BYTES, ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC);
    ck_assert_ptr_nonnull(file.mr);
    return file;
}

static void file_close(struct file *file)
{
    ck_assert_int_eq(soft_dereg_mr(file->mr), 0);
    munmap(file->memory, FILE_BYTES);
    close(file->fd);
}

/* Posts work request 1 of a. If the file belongs to a (`ours`), its data are at `at` of the file, otherwise its target
 * is. */
static void post_at_file(struct pair *pair, enum ibv_wr_opcode opcode, struct file *file, bool ours, size_t at)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    struct ibv_sge sge = {.addr = (uintptr_t)(ours ? file->memory + at : a->memory),
                          .length = atomic ? 8 : LENGTH,
                          .lkey = ours ? file->mr->lkey : a->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    uint64_t target = (uintptr_t)(ours ? b->memory : file->memory + at);
    uint32_t rkey = ours ? b->rkey : file->mr->rkey;
    if (atomic) {
        wr.wr.atomic.remote_addr = target;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = target;
        wr.wr.rdma.rkey = rkey;
    }
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
}

static void post_receive_at_file(struct end *end, struct file *file, size_t at)
{
    struct ibv_sge sge = {.addr = (uintptr_t)file->memory + at, .length = LENGTH, .lkey = file->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 20, .sg_list = &sge, .num_sge = 1}, *bad;
    ck_assert_int_eq(ibv_post_recv(end->qp, &wr, &bad), 0);
}

static struct pair *pair_with_atomics(void)
{
    struct setup setup = setup_default();
    setup.qp_access = setup.mr_access = ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC;
    return pair_new(&setup);
}

/* The peer's message is written to a file that was truncated: in its first packet, in the middle of the message, or
 * before all of it. */
START_TEST(truncated_file_as_target)
{
    static const enum ibv_wr_opcode written[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                                 IBV_WR_ATOMIC_FETCH_AND_ADD};
    static const size_t places[] = {FILE_LEFT - 1500, FILE_LEFT - 2500, FILE_LEFT};
    enum ibv_wr_opcode opcode = written[_i % 4];
    size_t at = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? FILE_LEFT : places[_i / 4];
    bool receives = opcode == IBV_WR_SEND;
    struct pair *pair = pair_with_atomics();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct file file = file_map(b->pd);
    fill(a->memory, LENGTH, 7);
    post_receive_at_file(b, &file, at);
    ck_assert_int_eq(ftruncate(file.fd, FILE_LEFT), 0);
    post_at_file(pair, opcode, &file, false, at);
    run(pair);
    expect_wc(a->send_cq, 1, IBV_WC_REM_OP_ERR);
    expect_wc(b->recv_cq, 20, receives ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR);
    if (!receives)
        expect_async(b, IBV_EVENT_QP_FATAL, b->qp);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    if (at + 1024 <= FILE_LEFT && opcode != IBV_WR_ATOMIC_FETCH_AND_ADD)
        ck_assert(filled(file.memory + at, 1024, 7));
    expect_quiet(pair);
    file_close(&file);
    pair_free(pair);
}
END_TEST

/* A response is written to such a file. */
START_TEST(truncated_file_for_answers)
{
    static const enum ibv_wr_opcode answered[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
    struct pair *pair = pair_with_atomics();
    struct end *a = &pair->end[0];
    struct file file = file_map(a->pd);
    ck_assert_int_eq(ftruncate(file.fd, FILE_LEFT), 0);
    post_at_file(pair, answered[_i % 2], &file, true, _i / 2 && !(_i % 2) ? FILE_LEFT - 1500 : FILE_LEFT);
    run(pair);
    expect_wc(a->send_cq, 1, IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    expect_quiet(pair);
    file_close(&file);
    pair_free(pair);
}
END_TEST

/* A file that was not truncated gets the data. */
START_TEST(whole_file_as_target)
{
    struct pair *pair = pair_with_atomics();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct file file = file_map(b->pd), ours = file_map(a->pd);
    fill(a->memory, LENGTH, 7);
    fill(b->memory, LENGTH, 8);
    post_receive_at_file(b, &file, 100);
    post_at_file(pair, IBV_WR_SEND, &file, false, 0);
    post_at_file(pair, IBV_WR_RDMA_WRITE, &file, false, 8000);
    post_at_file(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &file, false, FILE_BYTES - 8);
    post_at_file(pair, IBV_WR_RDMA_READ, &ours, true, 2001);
    run(pair);
    expect_done(a->send_cq, 1, IBV_WC_SEND);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    expect_done(a->send_cq, 1, IBV_WC_FETCH_ADD);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_READ);
    expect_wc(b->recv_cq, 20, IBV_WC_SUCCESS);
    ck_assert(filled(file.memory + 100, LENGTH, 7));
    ck_assert(filled(file.memory + 8000, LENGTH, 7));
    ck_assert_int_eq(file.memory[FILE_BYTES - 8], 1);
    ck_assert(filled(ours.memory + 2001, LENGTH, 8));
    file_close(&file);
    file_close(&ours);
    pair_free(pair);
}
END_TEST

/* The region has a hole between its first and its last page. */
START_TEST(registering_a_hole)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    uint8_t *memory = mmap(NULL, 3 * 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(memory + 65536, 65536);
    errno = 0;
    ck_assert_ptr_null(soft_reg_mr(pair->end[0].pd, memory + 5, 3 * 65536 - 5, 0));
    ck_assert_int_eq(errno, EFAULT);
    munmap(memory, 65536);
    munmap(memory + 2 * 65536, 65536);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: nofault memory");
    TCase *tcase = new_case(suite, "nofault");
    tcase_add_loop_test(tcase, truncated_file_as_target, 0, 12);
    tcase_add_loop_test(tcase, truncated_file_for_answers, 0, 4);
    tcase_add_test(tcase, whole_file_as_target);
    tcase_add_test(tcase, registering_a_hole);
    return run_suite(suite);
}
