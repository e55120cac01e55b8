/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_carried.c - acknowledgements that are not packets, on a link that passes them along with a burst: when they are
 * passed, in which order, and what false ones can do.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/support/endpoints.h"
#include "soft/engine/engine.h"

#define BURSTS 16
#define BYTES 8192 /* maximum length of a burst */
#define PATIENCE 4 /* packets that may be unacknowledged before the engine must acknowledge */

/* A context, and a link that holds its bursts until the other context receives them. */
static struct side {
    struct soft_wire wire; /* must be the first member */
    struct soft_link link;
    struct end end;
    struct soft_path path;
    unsigned count; /* bursts that wait for the other side */
    struct burst {
        size_t length, stride;
        uint32_t ack;
        uint8_t bytes[BYTES];
    } bursts[BURSTS];
    uint8_t room[BYTES];
    uint8_t memory[1 << 16];
} sides[2];

static uint64_t time_now(struct soft_clock *clock)
{
    (void)clock;
    return 1000000;
}

static struct soft_clock clock_of_both = {time_now};

static struct side *other(const struct side *side)
{
    return &sides[side == &sides[0]];
}

static uint8_t *link_room(struct soft_link *link, size_t size, size_t *limit)
{
    struct side *side = (struct side *)((char *)link - offsetof(struct side, link));
    (void)size;
    *limit = BYTES;
    return side->room;
}

static void link_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                      size_t stride)
{
    struct side *side = (struct side *)((char *)link - offsetof(struct side, link));
    struct burst *to = &side->bursts[side->count++];
    (void)path;
    expect(side->count <= BURSTS, "too many bursts");
    to->length = length;
    to->stride = stride;
    to->ack = link->ack;
    link->ack = 0;
    memcpy(to->bytes, burst, length);
}

static int receive(struct soft_wire *wire, struct ibv_context *context)
{
    struct side *side = (struct side *)wire, *from = other(side);
    int packets = 0;
    for (unsigned i = 0; i < from->count; i++) {
        const struct burst *burst = &from->bursts[i];
        for (size_t at = 0; at < burst->length; at += burst->stride, packets++)
            soft_input(context, &side->path, burst->bytes + at,
                       burst->length - at < burst->stride ? burst->length - at : burst->stride);
        if (burst->ack != 0)
            soft_input_ack(&side->link, burst->ack);
    }
    from->count = 0;
    return packets;
}

static void open_side(struct side *side, const struct setup *setup)
{
    struct end *end = &side->end;
    *side = (struct side){
        .wire = {.receive = receive},
        .link = {.room = link_room, .send = link_send, .lossless = true, .carries_ack = true},
        .path = {.local.sa.sa_family = AF_INET, .remote.sa.sa_family = AF_INET, .link = &side->link},
    };
    end->context = soft_open(&side->wire, &clock_of_both, 5);
    end->pd = soft_alloc_pd(end->context);
    end->send_cq = soft_create_cq(end->context, 100, NULL, NULL, 0);
    end->recv_cq = soft_create_cq(end->context, 100, NULL, NULL, 0);
    end->memory = side->memory;
    end->size = sizeof side->memory;
    end->mr = soft_reg_mr(end->pd, end->memory, end->size, ACCESS_ALL);
    ck_assert(end->pd && end->send_cq && end->recv_cq && end->mr);
    end->rkey = end->mr->rkey;
    end->qp = qp_new(end, setup);
}

static void connect_side(struct side *side, const struct setup *setup)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = other(side)->end.qp->qp_num,
                               .rq_psn = 0xfffffe,
                               .max_dest_rd_atomic = 4,
                               .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid.raw = {[15] = 1}}}};
    ck_assert_int_eq(qp_init(side->end.qp, ACCESS_ALL), 0);
    soft_set_path(side->end.qp, &side->path);
    ck_assert_int_eq(soft_modify_qp(side->end.qp, &attr,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    ck_assert_int_eq(qp_ready_to_send(side->end.qp, 0xfffffe, setup), 0);
}

static void begin(void)
{
    struct setup setup = setup_default();
    setup.retry_cnt = 0; /* nothing is lost, so a retransmission is an error */
    for (int i = 0; i < 2; i++)
        open_side(&sides[i], &setup);
    for (int i = 0; i < 2; i++)
        connect_side(&sides[i], &setup);
}

static void end_of_it(void)
{
    for (int i = 0; i < 2; i++) {
        struct end *end = &sides[i].end;
        ck_assert_int_eq(soft_destroy_qp(end->qp), 0);
        ck_assert_int_eq(soft_destroy_cq(end->send_cq), 0);
        ck_assert_int_eq(soft_destroy_cq(end->recv_cq), 0);
        ck_assert_int_eq(soft_dereg_mr(end->mr), 0);
        ck_assert_int_eq(soft_dealloc_pd(end->pd), 0);
        ck_assert_int_eq(soft_close(end->context), 0);
    }
}

static void ask_for(struct side *from, uint64_t id, enum ibv_wr_opcode opcode)
{
    post(&from->end, &other(from)->end,
         &(struct work){.id = id, .opcode = opcode, .length = 64, .target = 1000, .flags = IBV_SEND_SIGNALED});
}

/* Processes received bursts. patiently: an acknowledgement that no request can carry yet is delayed, as for an
 * application that polls; otherwise it is sent. */
static void take_in(struct side *side, bool patiently)
{
    soft_lock(side->end.context);
    if (patiently)
        soft_progress_delaying_acks(soft_context_of(side->end.context));
    else
        soft_progress(side->end.context);
    soft_unlock(side->end.context);
}

static uint64_t sent(struct side *side)
{
    return counters_of(&side->end).packets_sent;
}

/* A request in the other direction carries the acknowledgement, also where the PSN wraps around; without such a request
 * the acknowledgement is a packet. */
START_TEST(goes_with_what_leaves)
{
    struct side *left = &sides[0], *right = &sides[1];
    for (uint64_t i = 0; i < 3 * PATIENCE; i++) {
        ask_for(left, 1, IBV_WR_RDMA_WRITE);
        take_in(right, true);
        ck_assert_uint_eq(right->count, 0);
        ask_for(right, 2, IBV_WR_RDMA_WRITE);
        ck_assert_uint_eq(right->count, 1);
        ck_assert_uint_eq(right->bursts[0].ack,
                          SOFT_ACKED << SOFT_ACKED_SHIFT | (uint32_t)((0xfffffe + i) & 0xffffff));
        ck_assert_uint_eq(sent(right), i + 1);
        take_in(left, false);
        expect_done(left->end.send_cq, 1, IBV_WC_RDMA_WRITE);
        ck_assert_uint_eq(left->count, 1); /* no request to carry the acknowledgement */
        ck_assert_uint_eq(left->bursts[0].ack, 0);
        take_in(right, false);
        expect_done(right->end.send_cq, 2, IBV_WC_RDMA_WRITE);
        ck_assert_uint_eq(right->count, 0);
    }
    ask_for(right, 3, IBV_WR_RDMA_WRITE); /* nothing to acknowledge */
    ck_assert_uint_eq(right->bursts[0].ack, 0);
    take_in(left, false);
    take_in(right, false);
    expect_done(right->end.send_cq, 3, IBV_WC_RDMA_WRITE);
}
END_TEST

/* A carried acknowledgement counts: after it, another PATIENCE packets may be delayed. */
START_TEST(patience_begins_anew)
{
    struct side *left = &sides[0], *right = &sides[1];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < PATIENCE; i++)
            ask_for(left, i, IBV_WR_RDMA_WRITE);
        take_in(right, true);
        ck_assert_uint_eq(right->count, 0);
        ask_for(right, PATIENCE, IBV_WR_RDMA_WRITE);
        ck_assert_uint_ne(right->bursts[0].ack, 0);
        take_in(left, false);
        for (unsigned i = 0; i < PATIENCE; i++)
            expect_done(left->end.send_cq, i, IBV_WC_RDMA_WRITE);
        take_in(right, false);
        expect_done(right->end.send_cq, PATIENCE, IBV_WC_RDMA_WRITE);
    }
}
END_TEST

/* Responses keep their order: READ responses are sent before a carried acknowledgement of later requests, and a NAK is
 * always a packet. */
START_TEST(comes_behind_answers)
{
    struct side *left = &sides[0], *right = &sides[1];
    struct ibv_wc wc;
    ask_for(left, 1, IBV_WR_RDMA_READ);
    ask_for(left, 2, IBV_WR_RDMA_WRITE);
    take_in(right, true);
    ask_for(right, 3, IBV_WR_RDMA_WRITE);
    take_in(left, false);
    expect_done(left->end.send_cq, 1, IBV_WC_RDMA_READ);
    expect_done(left->end.send_cq, 2, IBV_WC_RDMA_WRITE);
    ck_assert_uint_eq(soft_query_retransmitted(left->end.qp), 0);
    take_in(right, false);
    expect_done(right->end.send_cq, 3, IBV_WC_RDMA_WRITE);
    ask_for(left, 4, IBV_WR_SEND); /* no receive is posted */
    soft_lock(right->end.context);
    receive(&right->wire, right->end.context);
    soft_unlock(right->end.context);
    ask_for(right, 5, IBV_WR_RDMA_WRITE);
    ck_assert_uint_gt(right->count, 0);
    for (unsigned i = 0; i < right->count; i++)
        ck_assert_uint_eq(right->bursts[i].ack, 0);
    take_in(left, false);
    ck_assert_int_eq(ibv_poll_cq(left->end.send_cq, 1, &wc), 0);
    ck_assert_uint_eq(counters_of(&left->end).rnr_naks_received, 1);
}
END_TEST

/* If the memory of a READ is gone from its second packet on, the READ fails, and the requests behind it are not
 * acknowledged. */
START_TEST(not_behind_what_is_gone)
{
    enum { PAGE_BYTES = 65536, THERE = 1024 };
    struct side *left = &sides[0], *right = &sides[1];
    int file = memfd_create("source", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(file, 2 * PAGE_BYTES), 0);
    uint8_t *bytes = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(bytes, MAP_FAILED);
    struct ibv_mr *mr = soft_reg_mr(right->end.pd, bytes, 2 * PAGE_BYTES, IBV_ACCESS_REMOTE_READ);
    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(ftruncate(file, PAGE_BYTES), 0);
    struct ibv_sge sge = {(uintptr_t)left->memory, 2 * THERE, left->end.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)bytes + PAGE_BYTES - THERE;
    wr.wr.rdma.rkey = mr->rkey;
    ck_assert_int_eq(ibv_post_send(left->end.qp, &wr, &bad), 0);
    ask_for(left, 2, IBV_WR_RDMA_WRITE);
    take_in(right, false);
    ck_assert_int_eq(qp_state(right->end.qp), IBV_QPS_ERR);
    take_in(left, false);
    expect_wc(left->end.send_cq, 1, IBV_WC_REM_OP_ERR);
    expect_wc(left->end.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(soft_dereg_mr(mr), 0);
    munmap(bytes, 2 * PAGE_BYTES);
    close(file);
}
END_TEST

/* A carried acknowledgement has no effect if its PSN was not sent, was acknowledged before, or the queue pair is in the
 * error or reset state. */
START_TEST(lies_do_nothing)
{
    struct side *left = &sides[0];
    struct ibv_wc wc;
    ask_for(left, 1, IBV_WR_RDMA_WRITE);
    soft_lock(left->end.context);
    for (uint32_t psn = 0xffffff; psn != 0x1000; psn = (psn + 1) & 0xffffff)
        soft_input_ack(&left->link, SOFT_ACKED << SOFT_ACKED_SHIFT | psn);
    for (uint32_t psn = 0xfffffd; psn != 0xfff000; psn--)
        soft_input_ack(&left->link, SOFT_ACKED << SOFT_ACKED_SHIFT | psn);
    soft_unlock(left->end.context);
    left->count = 0;
    ck_assert_int_eq(ibv_poll_cq(left->end.send_cq, 1, &wc), 0);
    soft_lock(left->end.context);
    soft_input_ack(&left->link, SOFT_ACKED << SOFT_ACKED_SHIFT | 0xfffffe);
    soft_unlock(left->end.context);
    expect_done(left->end.send_cq, 1, IBV_WC_RDMA_WRITE);
    ask_for(left, 2, IBV_WR_RDMA_WRITE);
    qp_fail(left->end.qp);
    expect_wc(left->end.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    soft_lock(left->end.context);
    soft_input_ack(&left->link, SOFT_ACKED << SOFT_ACKED_SHIFT | 0xffffff);
    soft_unlock(left->end.context);
    ck_assert_int_eq(
        soft_modify_qp(left->end.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE), 0);
    soft_lock(left->end.context);
    soft_input_ack(&left->link, SOFT_ACKED << SOFT_ACKED_SHIFT | 0xffffff);
    soft_unlock(left->end.context);
    expect_none(left->end.send_cq);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: carried acknowledgements");
    TCase *tcase = new_case(suite, "carried");
    tcase_add_checked_fixture(tcase, begin, end_of_it);
    tcase_add_test(tcase, goes_with_what_leaves);
    tcase_add_test(tcase, patience_begins_anew);
    tcase_add_test(tcase, comes_behind_answers);
    tcase_add_test(tcase, not_behind_what_is_gone);
    tcase_add_test(tcase, lies_do_nothing);
    return run_suite(suite);
}
