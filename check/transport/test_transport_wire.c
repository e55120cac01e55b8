/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_wire.c - when the engine calls its wire and link: opening, receiving, and reports that the application
 * polls.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "check/support/endpoints.h"

#define SLOTS 64
#define TRAILER 4

/* A link to itself that holds packets until the engine receives them. Guarded by the context's lock. */
struct loop {
    struct soft_wire wire; /* must be the first member */
    struct soft_link link;
    struct soft_clock clock;
    uint64_t now;
    int opened, open_error, pulled, attended;
    unsigned count;
    bool deaf; /* packets that are sent are lost */
    struct soft_path path;
    struct {
        size_t length;
        uint8_t bytes[ROCE_MAX];
    } slots[SLOTS];
};

static uint64_t loop_now(struct soft_clock *clock)
{
    return ((struct loop *)((char *)clock - offsetof(struct loop, clock)))->now;
}

static void loop_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                      size_t stride)
{
    struct loop *loop = (struct loop *)((char *)link - offsetof(struct loop, link));
    (void)path; /* source and destination are the same */
    for (size_t at = 0; at < length && !loop->deaf; at += stride) {
        size_t piece = (length - at < stride ? length - at : stride) - TRAILER;
        expect(loop->count < SLOTS && piece <= ROCE_MAX, "the loop is full");
        loop->slots[loop->count].length = piece;
        memcpy(loop->slots[loop->count++].bytes, burst + at, piece);
    }
}

static int loop_receive(struct soft_wire *wire, struct ibv_context *context)
{
    struct loop *loop = (struct loop *)wire;
    unsigned count = loop->count;
    loop->pulled++;
    loop->count = 0;
    for (unsigned i = 0; i < count; i++)
        soft_input(context, &loop->path, loop->slots[i].bytes, loop->slots[i].length);
    return (int)count;
}

static void loop_attended(struct soft_wire *wire, struct ibv_context *context)
{
    (void)context;
    ((struct loop *)wire)->attended++;
}

static int loop_open(struct soft_wire *wire, struct ibv_context *context)
{
    struct loop *loop = (struct loop *)wire;
    (void)context;
    loop->opened++;
    return loop->open_error;
}

static struct loop loop;
static struct ibv_context *context;
static struct end end;
static struct ibv_qp *left, *right;
static uint8_t memory[1 << 16];

static void make_objects(void)
{
    loop = (struct loop){
        .link = {.trailer = TRAILER, .send = loop_send},
        .wire = {.link = &loop.link, .receive = loop_receive, .attended = loop_attended, .open = loop_open},
        .clock = {.now = loop_now},
        .now = 1000000};
    loop.path.local.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    loop.path.remote = loop.path.local;
    context = soft_open(&loop.wire, &loop.clock, 5);
    ck_assert_ptr_nonnull(context);
    end =
        (struct end){.context = context, .pd = soft_alloc_pd(context), .memory = memory, .size = sizeof memory};
    end.channel = soft_create_comp_channel(context);
    end.send_cq = end.recv_cq = soft_create_cq(context, 100, NULL, end.channel, 0);
    end.mr = soft_reg_mr(end.pd, memory, sizeof memory, ACCESS_ALL);
    ck_assert(end.pd && end.channel && end.send_cq && end.mr);
    end.rkey = end.mr->rkey;
    ck_assert_int_eq(fcntl(end.channel->fd, F_SETFL, O_NONBLOCK), 0);
}

static void connect_one(struct ibv_qp *qp, struct ibv_qp *to, const struct setup *setup)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = to->qp_num,
                               .rq_psn = 7,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 1,
                               .ah_attr = {.is_global = 1, .port_num = 1}};
    attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
    attr.ah_attr.grh.dgid.raw[12] = 127;
    attr.ah_attr.grh.dgid.raw[15] = 1;
    ck_assert_int_eq(qp_init(qp, ACCESS_ALL), 0);
    ck_assert_int_eq(soft_modify_qp(qp, &attr,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    soft_set_path(qp, &loop.path);
    ck_assert_int_eq(qp_ready_to_send(qp, 7, setup), 0);
}

static void connect_both(void)
{
    struct setup setup = setup_default();
    left = qp_new(&end, &setup);
    right = qp_new(&end, &setup);
    connect_one(left, right, &setup);
    connect_one(right, left, &setup);
    end.qp = left;
}

static void free_objects(void)
{
    if (left) {
        ck_assert_int_eq(soft_destroy_qp(left), 0);
        ck_assert_int_eq(soft_destroy_qp(right), 0);
    }
    ck_assert_int_eq(soft_destroy_cq(end.send_cq), 0);
    ck_assert_int_eq(soft_destroy_comp_channel(end.channel), 0);
    ck_assert_int_eq(soft_dereg_mr(end.mr), 0);
    ck_assert_int_eq(soft_dealloc_pd(end.pd), 0);
    ck_assert_int_eq(soft_close(context), 0);
}

static void post_write(uint64_t id, size_t length)
{
    post(&end, &end,
         &(struct work){.id = id,
                        .opcode = IBV_WR_RDMA_WRITE,
                        .length = length,
                        .target = 30000,
                        .flags = IBV_SEND_SIGNALED});
}

START_TEST(opened_by_the_first_queue_pair)
{
    ck_assert_int_eq(loop.opened, 0);
    ck_assert_ptr_eq(soft_wire_of(context), &loop.wire);
    connect_both();
    ck_assert_int_eq(loop.opened, 1);
}
END_TEST

START_TEST(failure_to_open)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = end.send_cq, .recv_cq = end.recv_cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
    loop.open_error = EMFILE;
    errno = 0;
    ck_assert_ptr_null(soft_create_qp(end.pd, &attr));
    ck_assert_int_eq(errno, EMFILE);
    loop.open_error = 0;
    connect_both(); /* the next attempt opens the wire */
    ck_assert_int_eq(loop.opened, 2);
}
END_TEST

/* Without a service thread: the application's polling receives packets, answers them, and finds the completions. */
START_TEST(polling_drives_the_device)
{
    struct ibv_wc wc;
    int polls = 0;
    connect_both();
    fill(memory, 20000, 1);
    post_write(1, 20000);
    while (!ibv_poll_cq(end.send_cq, 1, &wc))
        ck_assert_int_lt(++polls, 50);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    expect(filled(memory + 30000, 20000, 1), "the data differ");
    ck_assert_uint_eq(loop.count, 0);
}
END_TEST

/* A poll that finds completions in the queue does not call the link. */
START_TEST(completions_that_are_there_come_first)
{
    struct ibv_wc wc;
    connect_both();
    for (uint64_t i = 0; i < 5; i++)
        post_write(i, 4);
    while (!ibv_poll_cq(end.send_cq, 1, &wc))
        ;
    int pulled = loop.pulled;
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(ibv_poll_cq(end.send_cq, 1, &wc), 1);
    ck_assert_int_eq(loop.pulled, pulled);
    ck_assert_int_eq(ibv_poll_cq(end.send_cq, 1, &wc), 0);
    ck_assert_int_eq(loop.pulled, pulled + 1);
}
END_TEST

START_TEST(waiting_drives_the_device)
{
    struct ibv_cq *cq;
    void *cq_context;
    connect_both();
    ck_assert_int_eq(ibv_req_notify_cq(end.send_cq, 0), 0);
    post_write(1, 4);
    int tries = 0;
    while (soft_get_cq_event(end.channel, &cq, &cq_context)) {
        ck_assert_int_eq(errno, EAGAIN);
        ck_assert_int_lt(++tries, 10);
    }
    ck_assert_ptr_eq(cq, end.send_cq);
    soft_ack_cq_events(cq, 1);
    expect_done(end.send_cq, 1, IBV_WC_RDMA_WRITE);
}
END_TEST

START_TEST(progress_counts_packets)
{
    connect_both();
    post_write(1, 3000);
    soft_lock(context);
    ck_assert(!soft_trylock(context));
    ck_assert_int_eq(soft_progress(context), 3);
    ck_assert_int_eq(soft_progress(context), 1); /* the acknowledgement */
    ck_assert_int_eq(soft_progress(context), 0);
    soft_unlock(context);
    ck_assert(soft_trylock(context));
    soft_unlock(context);
    expect_done(end.send_cq, 1, IBV_WC_RDMA_WRITE);
}
END_TEST

/* A timeout expires in the first poll after its time. */
START_TEST(polling_runs_timers)
{
    struct ibv_wc wc;
    connect_both();
    loop.deaf = true;
    post_write(1, 4);
    loop.deaf = false;
    ck_assert_int_eq(ibv_poll_cq(end.send_cq, 1, &wc), 0);
    ck_assert_uint_eq(loop.count, 0);
    soft_lock(context);
    uint64_t deadline = soft_deadline(context);
    soft_unlock(context);
    ck_assert_uint_gt(deadline, loop.now);
    ck_assert_uint_ne(deadline, NEVER_NS);
    loop.now = deadline;
    for (int polls = 0; !ibv_poll_cq(end.send_cq, 1, &wc); polls++)
        ck_assert_int_lt(polls, 10);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
}
END_TEST

static uint64_t deadline_now(void)
{
    soft_lock(context);
    uint64_t deadline = soft_deadline(context);
    soft_unlock(context);
    return deadline;
}

/* On a lossless link the retry timer starts only when the deadline is queried. It does not run for requests that were
 * acknowledged by then, and a peer that never answers is given up after all retries. Nothing is retransmitted. */
START_TEST(silence_where_nothing_is_lost)
{
    const struct setup setup = setup_default();
    uint64_t step = UINT64_C(4096) << setup.timeout;
    struct ibv_wc wc;
    int steps = 0;
    loop.link.lossless = true;
    loop.path.link = &loop.link;
    connect_both();
    post_write(1, 4);
    loop.now += 100 * step; /* the deadline was not queried, so this time does not count */
    ck_assert_int_eq(ibv_poll_cq(end.send_cq, 1, &wc), 0);
    expect_done(end.send_cq, 1, IBV_WC_RDMA_WRITE);
    ck_assert_uint_eq(deadline_now(), NEVER_NS);
    loop.deaf = true;
    post_write(2, 4);
    while (!ibv_poll_cq(end.send_cq, 1, &wc)) {
        uint64_t deadline = deadline_now();
        ck_assert_uint_ge(deadline, loop.now);
        ck_assert_uint_le(deadline, loop.now + 4 * step);
        loop.now = deadline;
        ck_assert_int_lt(steps++, 3 * (setup.retry_cnt + 1));
    }
    ck_assert_int_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
    ck_assert_uint_eq(soft_query_retransmitted(left), 0);
}
END_TEST

START_TEST(attention_is_told)
{
    struct ibv_wc wc;
    struct ibv_cq *cq;
    void *cq_context;
    connect_both();
    int before = loop.attended;
    ck_assert_int_eq(ibv_poll_cq(end.send_cq, 1, &wc), 0);
    ck_assert_int_gt(loop.attended, before);
    before = loop.attended;
    post_write(1, 4);
    ck_assert_int_gt(loop.attended, before);
    before = loop.attended;
    ck_assert_int_eq(soft_get_cq_event(end.channel, &cq, &cq_context), -1);
    ck_assert_int_gt(loop.attended, before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: wire");
    TCase *tcase = new_case(suite, "wire");
    tcase_add_checked_fixture(tcase, make_objects, free_objects);
    tcase_add_test(tcase, opened_by_the_first_queue_pair);
    tcase_add_test(tcase, failure_to_open);
    tcase_add_test(tcase, polling_drives_the_device);
    tcase_add_test(tcase, completions_that_are_there_come_first);
    tcase_add_test(tcase, waiting_drives_the_device);
    tcase_add_test(tcase, progress_counts_packets);
    tcase_add_test(tcase, polling_runs_timers);
    tcase_add_test(tcase, silence_where_nothing_is_lost);
    tcase_add_test(tcase, attention_is_told);
    return run_suite(suite);
}
