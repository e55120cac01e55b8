/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_memory.c - the local memory of requests and receives: keys, bounds, pages that are unmapped, and
 * receives that are too small.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/support/endpoints.h"

#define LENGTH 3000 /* three packets */

/* ---- The requester's memory ---- */

static struct ibv_wc post_raw(struct pair *pair, enum ibv_wr_opcode opcode, void *address, size_t length,
                              uint32_t lkey)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_sge sge = {.addr = (uintptr_t)address, .length = (uint32_t)length, .lkey = lkey};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
    wr.wr.rdma.rkey = b->rkey;
    post_receive(b, 20, 0, b->size);
    post_receive(a, 10, 0, 8);
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    post(a, b, &(struct work){.id = 2, .opcode = IBV_WR_RDMA_WRITE, .length = 8});
    run(pair);
    struct ibv_wc wc;
    ck_assert_int_eq(ibv_poll_cq(a->send_cq, 1, &wc), 1);
    ck_assert_uint_eq(wc.wr_id, 1);
    expect_wc(a->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->recv_cq, 10, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    expect_quiet(pair);
    return wc;
}

static const enum ibv_wr_opcode any[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

/* A wrong key, an address before the region, one byte too many, a region of another protection domain. */
START_TEST(local_keys_and_bounds)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    enum ibv_wr_opcode opcode = any[_i % 3];
    struct ibv_pd *pd = soft_alloc_pd(a->context);
    struct ibv_mr *mr = soft_reg_mr(pd, a->memory, a->size, ACCESS_ALL);
    const struct {
        uint8_t *address;
        size_t length;
        uint32_t lkey;
    } cases[] = {{a->memory, 100, a->mr->lkey ^ 1},
                 {a->memory, 100, a->mr->lkey ^ 0x100},
                 {a->memory, 100, 0},
                 {a->memory - 1, 100, a->mr->lkey},
                 {a->memory + 1, a->size, a->mr->lkey},
                 {a->memory + a->size, 1, a->mr->lkey},
                 {(uint8_t *)(uintptr_t)-50, 100, a->mr->lkey},
                 {a->memory, 100, mr->lkey}};
    struct ibv_wc wc = post_raw(pair, opcode, cases[_i / 3].address, cases[_i / 3].length, cases[_i / 3].lkey);
    ck_assert_int_eq(wc.status, IBV_WC_LOC_PROT_ERR);
    if (opcode != IBV_WR_RDMA_READ)
        ck_assert_uint_eq(count_packets(pair->network, 0, ROCE_NO_OPCODE), 0);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    ck_assert_int_eq(soft_dealloc_pd(pd), 0);
    pair_free(pair);
}
END_TEST

/* One invalid segment in the list is enough, wherever it is. */
START_TEST(one_bad_piece)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_sge sges[3];
    for (size_t i = 0; i < 3; i++)
        sges[i] =
            (struct ibv_sge){.addr = (uintptr_t)a->memory + 5000 * i, .length = 2000, .lkey = a->mr->lkey};
    sges[_i % 3].lkey ^= 0x100;
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = sges, .num_sge = 3, .opcode = any[_i / 3]}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
    wr.wr.rdma.rkey = b->rkey;
    post_receive(b, 2, 0, 6000);
    ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
    run(pair);
    expect_wc(a->send_cq, 1, IBV_WC_LOC_PROT_ERR);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    pair_free(pair);
}
END_TEST

/* The local memory of a READ needs LOCAL_WRITE; that of a SEND does not. */
START_TEST(local_write_permission)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_mr *mr = soft_reg_mr(a->pd, a->memory, 4096, 0);
    memset(b->memory, 0x33, b->size);
    struct end reader = *a;
    reader.mr = mr;
    post(&reader, b,
         &(struct work){.id = 5, .opcode = IBV_WR_RDMA_WRITE, .length = 4, .flags = IBV_SEND_SIGNALED});
    run(pair);
    expect_done(a->send_cq, 5, IBV_WC_RDMA_WRITE);
    struct ibv_wc wc = post_raw(pair, IBV_WR_RDMA_READ, a->memory, 100, mr->lkey);
    ck_assert_int_eq(wc.status, IBV_WC_LOC_PROT_ERR);
    expect_byte(a->memory, a->size, 0);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    pair_free(pair);
}
END_TEST

/* A message longer than the device's maximum is refused by the call, or by a completion, and nothing is sent. */
START_TEST(message_too_long)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_port_attr port;
    ck_assert_int_eq(soft_query_port(a->context, 1, &port), 0);
    size_t piece = port.max_msg_sz / 2 + 1;
    uint8_t *memory =
        mmap(NULL, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct ibv_mr *mr = soft_reg_mr(a->pd, memory, piece, ACCESS_ALL);
    ck_assert_ptr_nonnull(mr);
    struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = (uint32_t)piece, .lkey = mr->lkey};
    struct ibv_sge sges[] = {sge, sge};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = sges, .num_sge = 2, .opcode = any[_i]}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
    wr.wr.rdma.rkey = b->rkey;
    if (!ibv_post_send(a->qp, &wr, &bad)) {
        run(pair);
        expect_wc(a->send_cq, 1, IBV_WC_LOC_LEN_ERR);
        ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    }
    ck_assert_uint_eq(network_packets(pair->network), 0);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    munmap(memory, piece);
    pair_free(pair);
}
END_TEST

/* The pages of a region were unmapped, shared pages that another process could take away: an error, and no signal. */
START_TEST(unmapped_source)
{
    struct setup setup = setup_default();
    setup.memory = 1 << 20;
    setup.far = _i >= 4;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    size_t kind = _i % 4, length = kind == 3 ? 100 : kind ? 1 << 20 : 1 << 16;
    uint8_t *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, 1 << 20);
    struct ibv_mr *mr = soft_reg_mr(a->pd, memory, 1 << 20, ACCESS_ALL);
    ck_assert_ptr_nonnull(mr);
    size_t left = kind == 2 ? 1 << 19 : 0; /* only the second half is unmapped */
    munmap(memory + left, (1 << 20) - left);
    struct ibv_wc wc = post_raw(pair, IBV_WR_RDMA_WRITE, memory, length, mr->lkey);
    ck_assert_int_eq(wc.status, IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    pair_free(pair);
    if (left)
        munmap(memory, left); /* the rest of the range may belong to another mapping by now */
}
END_TEST

/* A file was truncated under its mapping, so that an access would raise SIGBUS. */
START_TEST(truncated_file_as_source)
{
    struct setup setup = setup_default();
    setup.memory = 1 << 20;
    setup.far = _i == 1;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    int fd = memfd_create("source", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
    uint8_t *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct ibv_mr *mr = soft_reg_mr(a->pd, memory, 1 << 20, ACCESS_ALL);
    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(ftruncate(fd, 100000), 0);
    struct ibv_wc wc = post_raw(pair, IBV_WR_SEND, memory, 1 << 20, mr->lkey);
    ck_assert_int_eq(wc.status, IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    pair_free(pair);
    munmap(memory, 1 << 20);
    close(fd);
}
END_TEST

/* Bytes that are written past the cache arrive as others do: from shared and from private memory, at every offset
 * within a cache line, with many packet lengths. */
START_TEST(source_for_another_processor)
{
    struct setup setup = setup_default();
    setup.memory = 1 << 20;
    setup.mtu = IBV_MTU_4096;
    setup.far = true;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    int sharing = _i == 0 ? MAP_PRIVATE : MAP_SHARED;
    uint8_t *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < 1 << 20; i++)
        memory[i] = (uint8_t)(i % 251);
    struct ibv_mr *mr = soft_reg_mr(a->pd, memory, 1 << 20, ACCESS_ALL);
    ck_assert_ptr_nonnull(mr);
    for (size_t i = 0; i < 140; i++) {
        size_t length = i * 997 % 200000 + 1;
        memset(b->memory, 0xff, length + 1);
        struct ibv_sge sge = {.addr = (uintptr_t)memory + i, .length = (uint32_t)length, .lkey = mr->lkey};
        struct ibv_send_wr wr = {.wr_id = i,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE,
                                 .send_flags = IBV_SEND_SIGNALED},
                           *bad;
        wr.wr.rdma.remote_addr = (uintptr_t)b->memory;
        wr.wr.rdma.rkey = b->rkey;
        ck_assert_int_eq(ibv_post_send(a->qp, &wr, &bad), 0);
        run(pair);
        expect_wc(a->send_cq, i, IBV_WC_SUCCESS);
        ck_assert_mem_eq(b->memory, memory + i, length);
        ck_assert_uint_eq(b->memory[length], 0xff);
    }
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    pair_free(pair);
    munmap(memory, 1 << 20);
}
END_TEST

/* Registering memory that is not mapped, or may not be written. */
START_TEST(registering_bad_memory)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct ibv_pd *pd = pair->end[0].pd;
    uint8_t *memory = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = 0;
    ck_assert_ptr_null(soft_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
    ck_assert_int_eq(errno, EFAULT);
    struct ibv_mr *mr = soft_reg_mr(pd, memory, 4096, IBV_ACCESS_REMOTE_READ);
    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    munmap(memory, 8192);
    errno = 0;
    ck_assert_ptr_null(soft_reg_mr(pd, memory, 4096, IBV_ACCESS_REMOTE_READ));
    ck_assert(errno == EFAULT || errno == ENOMEM);
    errno = 0;
    ck_assert_ptr_null(soft_reg_mr(pd, (void *)(uintptr_t)-4096, 8192, 0)); /* wraps around */
    ck_assert_int_ne(errno, 0);
    pair_free(pair);
}
END_TEST

/* ---- Receives ---- */

/* The SEND is longer than the receive: a length error at the receiver, an invalid request at the sender. */
START_TEST(receive_too_small)
{
    static const size_t rooms[] = {0, 1, 99, 1023, 1024, 1025, 2048, 2999};
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    memset(a->memory, 0xdd, LENGTH);
    memset(b->memory, 0x33, b->size);
    post_receive(b, 20, 100, rooms[_i]);
    post_receive(b, 21, 0, 8);
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = LENGTH});
    post(a, b, &(struct work){.id = 2, .opcode = IBV_WR_SEND, .length = 4});
    run(pair);
    expect_wc(b->recv_cq, 20, IBV_WC_LOC_LEN_ERR);
    expect_wc(b->recv_cq, 21, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
    expect_wc(a->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    expect_byte(b->memory, 100, 0x33);
    expect_byte(b->memory + 100 + rooms[_i], 10000, 0x33);
    pair_free(pair);
}
END_TEST

/* The memory of a receive is not in a region that may be written: a protection error at the receiver, an operational
 * error at the sender. */
START_TEST(receive_into_no_region)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    memset(a->memory, 0xdd, 1000);
    struct ibv_mr *readable = soft_reg_mr(b->pd, b->memory, 4096, IBV_ACCESS_REMOTE_READ);
    struct ibv_sge sge[] = {{.addr = (uintptr_t)b->memory, .length = 2000, .lkey = b->mr->lkey ^ 0x100},
                            {.addr = (uintptr_t)b->memory + b->size - 999, .length = 2000, .lkey = b->mr->lkey},
                            {.addr = (uintptr_t)b->memory, .length = 2000, .lkey = readable->lkey}};
    struct ibv_recv_wr wr = {.wr_id = 20, .sg_list = &sge[_i], .num_sge = 1}, *bad;
    ck_assert_int_eq(ibv_post_recv(b->qp, &wr, &bad), 0);
    post(a, b, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 1000});
    run(pair);
    expect_wc(b->recv_cq, 20, IBV_WC_LOC_PROT_ERR);
    expect_wc(a->send_cq, 1, IBV_WC_REM_OP_ERR);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    expect_byte(b->memory, b->size, 0);
    ck_assert_int_eq(soft_dereg_mr(readable), 0);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: memory");
    TCase *local = new_case(suite, "local"), *receives = new_case(suite, "receives");
    tcase_add_loop_test(local, local_keys_and_bounds, 0, 3 * 8);
    tcase_add_loop_test(local, one_bad_piece, 0, 9);
    tcase_add_test(local, local_write_permission);
    tcase_add_loop_test(local, message_too_long, 0, 3);
    tcase_add_loop_test(local, unmapped_source, 0, 2 * 4);
    tcase_add_loop_test(local, truncated_file_as_source, 0, 2);
    tcase_add_loop_test(local, source_for_another_processor, 0, 2);
    tcase_add_test(local, registering_bad_memory);
    tcase_add_loop_test(receives, receive_too_small, 0, 8);
    tcase_add_loop_test(receives, receive_into_no_region, 0, 3);
    return run_suite(suite);
}
