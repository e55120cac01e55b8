/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_file.c - file regions: what is sent from them, also when the file is truncated, and that nothing else
 * is possible with them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/support/endpoints.h"

#define FILE_BYTES (1 << 19)
#define BEFORE 4099 /* bytes of the file before the region */
#define BEHIND 1003 /* bytes behind it */
#define LOW 0x20000 /* an offset in the region, and also an address */
#define REGION (FILE_BYTES - BEFORE - BEHIND)

static struct source {
    struct pair *pair;
    struct end *a, *b;
    int fd;
    uint8_t *bytes; /* the file, mapped */
    struct ibv_mr *mr;
} source;

static void source_open(enum ibv_qp_type type, bool far)
{
    struct setup setup = setup_default();
    setup.type = type;
    setup.memory = FILE_BYTES;
    setup.mtu = IBV_MTU_4096;
    setup.sges = 2;
    setup.far = far;
    source.pair = pair_new(&setup);
    source.a = &source.pair->end[0];
    source.b = &source.pair->end[1];
    source.fd = memfd_create("source", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(source.fd, FILE_BYTES), 0);
    source.bytes = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, source.fd, 0);
    ck_assert_ptr_ne(source.bytes, MAP_FAILED);
    fill(source.bytes, FILE_BYTES, 5);
    source.mr = soft_reg_file(source.a->pd, source.fd, BEFORE, REGION);
    ck_assert_ptr_nonnull(source.mr);
}

static void source_close(void)
{
    expect_quiet(source.pair);
    ck_assert_int_eq(soft_dereg_mr(source.mr), 0);
    pair_free(source.pair);
    munmap(source.bytes, FILE_BYTES);
    close(source.fd);
}

/* The remote address is the same offset in the peer's memory, or 0 if that is too large. */
static void post_list(uint64_t id, enum ibv_wr_opcode opcode, struct ibv_sge *list, int count)
{
    struct ibv_send_wr wr = {
        .wr_id = id, .sg_list = list, .num_sge = count, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)source.b->memory + (list[0].addr < FILE_BYTES ? list[0].addr : 0);
    wr.wr.rdma.rkey = source.b->rkey;
    ck_assert_int_eq(ibv_post_send(source.a->qp, &wr, &bad), 0);
}

static void post_part(uint64_t id, enum ibv_wr_opcode opcode, uint64_t at, size_t length)
{
    post_list(id, opcode, &(struct ibv_sge){at, (uint32_t)length, source.mr->lkey}, 1);
}

static void expect_part(uint64_t at, size_t length)
{
    ck_assert_mem_eq(source.b->memory + at, source.bytes + BEFORE + at, length);
}

/* Requests whose data follow each other in the file or do not, with a request from mapped file memory between them. */
START_TEST(what_is_there)
{
    source_open(IBV_QPT_RC, _i == 1);
    struct ibv_mr *mapped = soft_reg_mr(source.a->pd, source.bytes, FILE_BYTES, 0);
    ck_assert_ptr_nonnull(mapped);
    fill(source.a->memory, 5000, 6);
    for (uint64_t i = 0; i < 100; i++) {
        size_t length = i * 997 % 60000 + 1, at = i * 1201, second = i % 2 ? at + length : 0;
        memset(source.b->memory, 0, FILE_BYTES);
        post_part(1, IBV_WR_RDMA_WRITE, at, length);
        post_part(2, IBV_WR_RDMA_WRITE, second, 100);
        post_list(3, IBV_WR_RDMA_WRITE, &(struct ibv_sge){(uintptr_t)source.bytes + 77, 5000, mapped->lkey}, 1);
        run(source.pair);
        for (uint64_t id = 1; id <= 3; id++)
            expect_done(source.a->send_cq, id, IBV_WC_RDMA_WRITE);
        ck_assert_mem_eq(source.b->memory, source.bytes + 77, 5000);
        if (at >= 5000)
            expect_part(at, length);
        if (second >= 5000)
            expect_part(second, 100);
        size_t end = at + length + (second > 0 ? 100 : 0);
        if (end >= 5000)
            ck_assert_int_eq(source.b->memory[end], 0);
    }
    post_receive(source.b, 20, 0, FILE_BYTES);
    post_receive(source.b, 21, 0, FILE_BYTES);
    post_part(1, IBV_WR_SEND, 0, REGION); /* the whole region and no byte more */
    run(source.pair);
    expect_done(source.a->send_cq, 1, IBV_WC_SEND);
    ck_assert_uint_eq(expect_wc(source.b->recv_cq, 20, IBV_WC_SUCCESS).byte_len, REGION);
    expect_part(0, REGION);
    post(source.a, source.b,
         &(struct work){.id = 2, .opcode = IBV_WR_SEND, .length = 5000, .flags = IBV_SEND_SIGNALED});
    run(source.pair);
    expect_done(source.a->send_cq, 2, IBV_WC_SEND);
    expect_wc(source.b->recv_cq, 21, IBV_WC_SUCCESS);
    ck_assert(filled(source.b->memory, 5000, 6));
    ck_assert_int_eq(soft_dereg_mr(mapped), 0);
    source_close();
}
END_TEST

/* Maps memory whose address is also an offset in the region, so that a confusion of the two is found; the kernel may
 * refuse. */
static void *map_low(void)
{
    return mmap((void *)LOW, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                -1, 0);
}

static void unmap_low(void *low)
{
    if (low != MAP_FAILED)
        munmap(low, 4096);
}

/* Packets of the same length leave in one burst, and each gets its own bytes: adjacent and other parts of the file, and
 * memory. */
START_TEST(in_one_burst)
{
    enum { COUNT = 7, MEMORY = 4, BYTES = 4096 };
    static const size_t places[COUNT] = {8192, 12288, 40960, 20480, 0, LOW, LOW + 4096};
    struct ibv_sge sge[COUNT];
    struct ibv_send_wr wr[COUNT], *bad;
    source_open(IBV_QPT_RC, _i == 1);
    void *low = map_low();
    struct ibv_mr *mapped = soft_reg_mr(source.a->pd, source.bytes, FILE_BYTES, 0);
    ck_assert_ptr_nonnull(mapped);
    memset(source.b->memory, 0, FILE_BYTES);
    for (uint64_t i = 0; i < COUNT; i++) {
        sge[i] = (struct ibv_sge){places[i], BYTES, source.mr->lkey};
        if (i == MEMORY)
            sge[i] = (struct ibv_sge){(uintptr_t)source.bytes + 77, BYTES, mapped->lkey};
        wr[i] = (struct ibv_send_wr){.wr_id = i,
                                     .next = i + 1 < COUNT ? &wr[i + 1] : NULL,
                                     .sg_list = &sge[i],
                                     .num_sge = 1,
                                     .opcode = IBV_WR_RDMA_WRITE,
                                     .send_flags = IBV_SEND_SIGNALED};
        wr[i].wr.rdma.remote_addr = (uintptr_t)source.b->memory + places[i];
        wr[i].wr.rdma.rkey = source.b->rkey;
    }
    ck_assert_int_eq(ibv_post_send(source.a->qp, wr, &bad), 0);
    run(source.pair);
    for (uint64_t i = 0; i < COUNT; i++) {
        expect_done(source.a->send_cq, i, IBV_WC_RDMA_WRITE);
        if (i != MEMORY)
            expect_part(places[i], BYTES);
    }
    ck_assert_mem_eq(source.b->memory, source.bytes + 77, BYTES);
    unmap_low(low);
    ck_assert_int_eq(soft_dereg_mr(mapped), 0);
    source_close();
}
END_TEST

/* If the link has a buffer of its own, the bytes that one read fetches leave as one burst, up to the buffer's size.
 * Bytes that are copied leave in shorter bursts, so that the peer can copy the first ones while there is more to
 * copy. */
START_TEST(long_bursts)
{
    enum { BYTES = 200000 };
    source_open(IBV_QPT_RC, _i == 1);
    struct network *network = source.pair->network;
    network_longest(network);
    post_part(1, IBV_WR_RDMA_WRITE, 0, BYTES);
    run(source.pair);
    expect_done(source.a->send_cq, 1, IBV_WC_RDMA_WRITE);
    expect_part(0, BYTES);
    size_t fetched = network_longest(network);
    post(source.a, source.b,
         &(struct work){.id = 2, .opcode = IBV_WR_RDMA_WRITE, .length = BYTES, .flags = IBV_SEND_SIGNALED});
    run(source.pair);
    expect_done(source.a->send_cq, 2, IBV_WC_RDMA_WRITE);
    ck_assert_mem_eq(source.b->memory, source.a->memory, BYTES);
    size_t copied = network_longest(network);
    expect_between(fetched, _i == 1 ? SOFT_BURST_MAX + 1 : 4096, _i == 1 ? SOFT_BURST_LONG : SOFT_BURST_MAX);
    expect_between(copied, 4096, SOFT_BURST_MAX);
    source_close();
}
END_TEST

/* The file was truncated: in the middle of a packet, of a message, of a burst; what comes before is sent. Also on an
 * unreliable connection. */
START_TEST(what_is_gone)
{
    static const size_t left[] = {0, 1, 4095, 4096, 50000};
    bool reliable = _i < 10;
    size_t at = left[_i % 5];
    source_open(reliable ? IBV_QPT_RC : IBV_QPT_UC, _i / 5 % 2);
    if (!reliable)
        post_receive(source.b, 20, 0, FILE_BYTES);
    ck_assert_int_eq(ftruncate(source.fd, BEFORE + (off_t)(100 + at)), 0);
    post_part(1, reliable ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, 0, 100);
    post_part(2, reliable ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, 100, 60000);
    run(source.pair);
    expect_done(source.a->send_cq, 1, reliable ? IBV_WC_RDMA_WRITE : IBV_WC_SEND);
    expect_wc(source.a->send_cq, 2, IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(qp_state(source.a->qp), reliable ? IBV_QPS_ERR : IBV_QPS_SQE);
    if (!reliable)
        ck_assert_uint_eq(expect_wc(source.b->recv_cq, 20, IBV_WC_SUCCESS).byte_len, 100);
    expect_part(0, 100);
    source_close();
}
END_TEST

/* More than the region, or several segments: a file region must be the only one. */
START_TEST(wrong_pieces)
{
    source_open(IBV_QPT_RC, false);
    void *low = map_low();
    uint32_t lkey = source.mr->lkey;
    struct ibv_mr *mapped = soft_reg_mr(source.a->pd, source.bytes, FILE_BYTES, 0);
    struct ibv_sge lists[][2] = {
        {{0, REGION + 1, lkey}},
        {{REGION, 1, lkey}},
        {{UINT64_MAX, 2, lkey}},
        {{(uintptr_t)source.bytes, 1, lkey}},
        {{0, 10, lkey}, {10, 10, lkey}},
        {{0, 10, lkey}, {(uintptr_t)source.a->memory, 10, source.a->mr->lkey}},
        {{(uintptr_t)source.a->memory, 10, source.a->mr->lkey}, {0, 10, lkey}},
        {{LOW, 10, lkey}, {(uintptr_t)source.bytes, 10, mapped->lkey}},
        {{(uintptr_t)source.bytes, 10, mapped->lkey}, {LOW, 10, lkey}},
    };
    memset(source.b->memory, 9, FILE_BYTES);
    post_list(1, IBV_WR_RDMA_WRITE, lists[_i], _i < 4 ? 1 : 2);
    run(source.pair);
    expect_wc(source.a->send_cq, 1, IBV_WC_LOC_PROT_ERR);
    expect_byte(source.b->memory, FILE_BYTES, 9);
    unmap_low(low);
    ck_assert_int_eq(soft_dereg_mr(mapped), 0);
    source_close();
}
END_TEST

/* A file region is never written: not by a receive, and not by a READ response. */
START_TEST(nothing_goes_there)
{
    source_open(IBV_QPT_RC, false);
    struct ibv_sge sge = {0, 100, source.mr->lkey};
    if (_i == 0) {
        struct ibv_recv_wr wr = {.wr_id = 20, .sg_list = &sge, .num_sge = 1}, *bad;
        ck_assert_int_eq(ibv_post_recv(source.a->qp, &wr, &bad), 0);
        post(source.b, source.a, &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 100});
        run(source.pair);
        expect_wc(source.b->send_cq, 1, IBV_WC_REM_OP_ERR);
        expect_wc(source.a->recv_cq, 20, IBV_WC_LOC_PROT_ERR);
    } else {
        post_list(1, IBV_WR_RDMA_READ, &sge, 1);
        run(source.pair);
        expect_wc(source.a->send_cq, 1, IBV_WC_LOC_PROT_ERR);
    }
    ck_assert(filled(source.bytes, FILE_BYTES, 5));
    source_close();
}
END_TEST

/* Its key gives the peer no access. */
START_TEST(no_peer_comes_there)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE};
    source_open(IBV_QPT_RC, false);
    struct end *b = source.b;
    struct ibv_sge sge = {(uintptr_t)b->memory, 100, b->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcodes[_i]}, *bad;
    wr.wr.rdma.rkey = source.mr->rkey;
    ck_assert_int_eq(ibv_post_send(b->qp, &wr, &bad), 0);
    run(source.pair);
    expect_wc(b->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
    expect_async(source.a, IBV_EVENT_QP_ACCESS_ERR, source.a->qp);
    ck_assert(filled(source.bytes, FILE_BYTES, 5));
    source_close();
}
END_TEST

/* Invalid ranges are refused, and a file region can't be changed. */
START_TEST(registering)
{
    source_open(IBV_QPT_RC, false);
    struct ibv_pd *pd = source.a->pd;
    static const struct {
        int fd;
        uint64_t offset;
        size_t length;
    } wrong[] = {{-1, 0, 1},         {0, 0, 0},        {0, INT64_MAX, 1},
                 {0, UINT64_MAX, 1}, {0, 0, SIZE_MAX}, {0, 1, INT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        errno = 0;
        ck_assert_ptr_null(soft_reg_file(pd, wrong[i].fd, wrong[i].offset, wrong[i].length));
        ck_assert_int_eq(errno, EINVAL);
    }
    struct ibv_mr *last = soft_reg_file(pd, source.fd, INT64_MAX - 1, 1);
    ck_assert_ptr_nonnull(last);
    ck_assert_int_eq(soft_dereg_mr(last), 0);
    ck_assert_int_eq(
        soft_rereg_mr(source.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
        IBV_REREG_MR_ERR_CMD);
    ck_assert_int_eq(errno, EINVAL);
    source_close();
}
END_TEST

/* The descriptor is write-only, or was closed. */
START_TEST(unreadable)
{
    char name[40];
    source_open(IBV_QPT_RC, false);
    snprintf(name, sizeof name, "/proc/self/fd/%d", source.fd);
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ne(fd, -1);
    struct ibv_mr *mr = soft_reg_file(source.a->pd, fd, 0, 100);
    ck_assert_ptr_nonnull(mr);
    if (_i == 1)
        close(fd);
    post_list(1, IBV_WR_RDMA_WRITE, &(struct ibv_sge){0, 100, mr->lkey}, 1);
    run(source.pair);
    expect_wc(source.a->send_cq, 1, IBV_WC_LOC_PROT_ERR);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    if (_i == 0)
        close(fd);
    source_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: files");
    TCase *tcase = new_case(suite, "file");
    tcase_add_loop_test(tcase, what_is_there, 0, 2);
    tcase_add_loop_test(tcase, in_one_burst, 0, 2);
    tcase_add_loop_test(tcase, long_bursts, 0, 2);
    tcase_add_loop_test(tcase, what_is_gone, 0, 15);
    tcase_add_loop_test(tcase, wrong_pieces, 0, 9);
    tcase_add_loop_test(tcase, nothing_goes_there, 0, 2);
    tcase_add_loop_test(tcase, no_peer_comes_there, 0, 2);
    tcase_add_test(tcase, registering);
    tcase_add_loop_test(tcase, unreadable, 0, 2);
    return run_suite(suite);
}
