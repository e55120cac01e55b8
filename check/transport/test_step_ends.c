/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_step_ends.c - a step of the engine, which runs under the context's lock, ends whatever a requester or responder
 * refuses in it: wrong keys, keys that are invalidated while responses are being sent, memory that is unmapped, queue
 * pairs in the error state. On the virtual clock; a step that does not end exceeds the test's time limit.
 *
 * A short READ request can ask for a long response, and a requester of another vendor does not limit what it asks for.
 * The tests of long READs check what limits the responses: the size of a step, and turns with other queue pairs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/support/windows.h"

enum { MEMORY = 8 << 20, LONGEST = 4 << 20 /* more than a step sends */ };
enum {
    STEP = 1 << 20,
    BURST = 1 << 16 /* bytes: limit of a step, and the most by which the last burst exceeds it */
};

static struct setup large(void)
{
    struct setup setup = setup_default();

    setup.memory = MEMORY;
    setup.mtu = IBV_MTU_4096;
    setup.all_signaled = true;
    return setup;
}

/* ---- An invalidated key behind a refused request ---- */

static void withdraw(struct end *end)
{
    ck_assert_int_eq(soft_dereg_mr(end->mr), 0);
    end->mr = NULL;
}

/* All of it arrives in one batch, before any is answered: a READ through a memory window, a SEND that invalidates the
 * window, and a WRITE that is refused. The READ therefore fails when the queue pair is already in the error state. */
START_TEST(withdrawn_behind_refusal)
{
    struct pair *pair = windows_pair(large());
    struct end *a = &pair->end[0], *b = &pair->end[1], window = *b, wrong = *b;
    struct ibv_mw *mw = window_new(b, IBV_MW_TYPE_2);

    bind_ok(pair, mw, 1, 0, LONGEST, READS);
    window.rkey = mw->rkey;
    wrong.rkey ^= 1;
    post_receive(b, 9, 0, 8);
    post(a, &window, &(struct work){.id = 1, .opcode = IBV_WR_RDMA_READ, .length = 20000});
    post(a, b, &(struct work){.id = 2, .opcode = IBV_WR_SEND_WITH_INV, .imm = mw->rkey});
    post(a, &wrong, &(struct work){.id = 3, .opcode = IBV_WR_RDMA_WRITE, .length = 8});
    run(pair);
    expect_wc(a->send_cq, 1, IBV_WC_REM_ACCESS_ERR); /* the first that failed, not the third */
    expect_wc(a->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
    expect_wc(b->recv_cq, 9, IBV_WC_SUCCESS);
    expect_quiet(pair);
    windows_end(pair, mw);
}
END_TEST

/* ---- A long READ ---- */

/* A pair whose second end is played by the test. */
static struct pair *foreign_pair(void)
{
    struct setup setup = large();
    struct pair *pair;

    setup.ghost = true;
    pair = pair_new(&setup);
    network_keep_bytes(pair->network, false);
    return pair;
}

/* Sends a READ request for all of the engine's memory. Each call sends the same packet. The engine takes one step. */
static void request_all(struct pair *pair)
{
    struct end *a = &pair->end[0];
    uint8_t packet[ROCE_BTH + ROCE_RETH];
    struct roce roce = {.opcode = READ_REQUEST,
                        .migreq = true,
                        .ackreq = true,
                        .pkey = 0xffff,
                        .qpn = a->qpn,
                        .psn = pair->setup.psn[1],
                        .va = (uintptr_t)a->memory,
                        .rkey = a->rkey,
                        .dma_length = MEMORY};

    network_inject(pair->network, 1, 0, packet, roce_write(packet, &roce));
}

/* Bytes that the engine sent since the last call. */
static uint64_t sent_since(struct end *end, uint64_t *before)
{
    uint64_t now = counters_of(end).bytes_sent, sent = now - *before;

    *before = now;
    return sent;
}

/* Each step sends a limited number of bytes, and a request that is repeated adds none: the response starts again. */
START_TEST(long_read_in_steps)
{
    struct pair *pair = foreign_pair();
    struct end *a = &pair->end[0];
    uint64_t before = counters_of(a).bytes_sent, sent;

    for (int i = 0; i < 50; i++) {
        request_all(pair);
        sent = sent_since(a, &before);
        expect(sent > 0 && sent <= STEP + BURST, "a step sent %" PRIu64 " bytes", sent);
    }
    run(pair);
    sent = sent_since(a, &before);
    expect(sent <= MEMORY + MEMORY / 16, "%" PRIu64 " bytes after the last request", sent);
    ck_assert_uint_eq(network_packet(pair->network, network_packets(pair->network) - 1)->roce.opcode,
                      READ_RESPONSE_LAST);
    pair_free(pair);
}
END_TEST

/* When the queue pair fails, the rest of the response is not sent. */
START_TEST(long_read_of_failed_queue_pair)
{
    struct pair *pair = foreign_pair();
    struct end *a = &pair->end[0];
    uint64_t before = counters_of(a).bytes_sent;

    request_all(pair);
    expect(sent_since(a, &before) < MEMORY, "the whole response was sent in one step");
    qp_fail(a->qp);
    (void)sent_since(a, &before);
    run(pair);
    ck_assert_uint_eq(sent_since(a, &before), 0);
    pair_free(pair);
}
END_TEST

/* A message of another queue pair is sent between the bursts of the response, not behind it. */
START_TEST(long_read_beside_short_send)
{
    struct pair *pair = foreign_pair();
    struct end *a = &pair->end[0], other = *a;
    const struct packet *packet;

    other.qp = qp_new(&other, &pair->setup);
    other.qpn = other.qp->qp_num;
    qp_connect(&other, other.qp, pair->end[1].node, GHOST_QPN + 1, 0x100, 0x100, &pair->setup);
    request_all(pair);
    post(&other, &pair->end[1], &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = 8});
    ck_assert(network_step(pair->network));
    packet = find_packet(pair->network, 0, SEND_ONLY, 0);
    ck_assert_uint_lt(packet->number, (STEP + 2 * BURST) / mtu_bytes(pair->setup.mtu));
    ck_assert_int_eq(soft_destroy_qp(other.qp), 0);
    pair_free(pair);
}
END_TEST

/* ---- Anything, in any order ---- */

struct chaos {
    struct pair *pair;
    uint64_t chance;
    int file[2];              /* files that the two memories are mapped from */
    struct ibv_mr *region[2]; /* a second region of the same memory, which the window is bound to */
    struct ibv_mw *window[2];
    long owed[2];  /* completions that are still expected */
    uint64_t last; /* ID of the last work request */
};

static size_t below(struct chaos *chaos, size_t limit)
{
    return random_next(&chaos->chance) % limit;
}

static enum fate any_fate(void *arg, const struct packet *packet)
{
    static const enum fate fates[] = {FATE_DROP, FATE_DUPLICATE, FATE_DELAY};
    struct chaos *chaos = arg;
    size_t chance = below(chaos, 200);

    (void)packet;
    return chance < sizeof fates / sizeof *fates ? fates[chance] : FATE_DELIVER;
}

static void enroll(struct end *end)
{
    end->mr = soft_reg_mr(end->pd, end->memory, end->size, ACCESS_ALL);
    expect(end->mr, "soft_reg_mr: %s", strerror(errno));
    end->rkey = end->mr->rkey;
}

/* The memory is mapped from a file, which may be truncated while the device uses it. */
static void map_file(struct chaos *chaos, int i)
{
    struct end *end = &chaos->pair->end[i];

    withdraw(end);
    chaos->file[i] = memfd_create("memory", MFD_CLOEXEC);
    ck_assert(chaos->file[i] != -1 && ftruncate(chaos->file[i], MEMORY) == 0);
    ck_assert_ptr_eq(
        mmap(end->memory, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, chaos->file[i], 0),
        end->memory);
    enroll(end);
    chaos->region[i] = soft_reg_mr(end->pd, end->memory, MEMORY, ACCESS_ALL | IBV_ACCESS_MW_BIND);
    chaos->window[i] = window_new(end, IBV_MW_TYPE_2);
}

/* Binds the window of a new queue pair. */
static void open_window(struct chaos *chaos, int i)
{
    struct end *end = &chaos->pair->end[i];

    ck_assert_int_eq(bind_try(end->qp, chaos->window[i], (uint8_t)below(chaos, 256), chaos->region[i],
                              end->memory, MEMORY, READS | WRITES),
                     0);
    chaos->owed[i]++;
}

static void take_completions(struct chaos *chaos)
{
    struct ibv_wc wc;

    for (int i = 0; i < 2; i++) {
        while (ibv_poll_cq(chaos->pair->end[i].recv_cq, 1, &wc) == 1)
            continue;
        while (ibv_poll_cq(chaos->pair->end[i].send_cq, 1, &wc) == 1)
            chaos->owed[i]--;
    }
}

static void post_any(struct chaos *chaos, int i)
{
    static const enum ibv_wr_opcode opcodes[] = {
        IBV_WR_RDMA_READ,           IBV_WR_RDMA_READ, IBV_WR_RDMA_READ,    IBV_WR_RDMA_WRITE,
        IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,      IBV_WR_SEND_WITH_INV};
    struct end *from = &chaos->pair->end[i], to = chaos->pair->end[!i];
    struct work work = {.id = chaos->last++,
                        .opcode = opcodes[below(chaos, sizeof opcodes / sizeof *opcodes)],
                        .at = below(chaos, MEMORY / 2),
                        .target = below(chaos, MEMORY / 2),
                        .length = below(chaos, (size_t)1 << (1 + below(chaos, 22))),
                        .imm = chaos->window[!i]->rkey};

    if (below(chaos, 2) == 0)
        to.rkey = chaos->window[!i]->rkey;
    to.rkey ^= below(chaos, 10) == 0;
    if (work.opcode == IBV_WR_SEND || work.opcode == IBV_WR_SEND_WITH_INV)
        work.length %= 10000;
    chaos->owed[i] += post_try(from, &to, &work) == 0;
}

static void receive(struct chaos *chaos, struct end *end)
{
    struct ibv_sge sge = {(uintptr_t)end->memory + below(chaos, MEMORY / 2), (uint32_t)below(chaos, 20000),
                          end->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    (void)ibv_post_recv(end->qp, &wr, &bad); /* fails if the receive queue is full */
}

static void change(struct chaos *chaos, int i)
{
    struct end *end = &chaos->pair->end[i];

    switch (below(chaos, 24)) {
    case 0:
        withdraw(end);
        ck_assert_int_eq(ftruncate(chaos->file[i], MEMORY), 0); /* missing pages could not be registered */
        enroll(end);
        break;
    case 1:
        ck_assert_int_eq(ftruncate(chaos->file[i], below(chaos, 2) * MEMORY), 0);
        break;
    case 2:
        if (below(chaos, 4) == 0)
            qp_fail(end->qp);
        break;
    case 3:
    case 4:
    case 5:
    case 6:
        receive(chaos, end);
        break;
    default:
        post_any(chaos, i);
    }
}

/* All requests complete, and then new queue pairs are created. */
static void settle(struct chaos *chaos)
{
    struct pair *pair = chaos->pair;

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(ftruncate(chaos->file[i], MEMORY), 0);
    run(pair);
    take_completions(chaos);
    ck_assert_int_eq(chaos->owed[0], 0);
    ck_assert_int_eq(chaos->owed[1], 0);
    pair_renew(pair);
    for (int i = 0; i < 2; i++)
        open_window(chaos, i);
}

static bool has_failed(struct chaos *chaos)
{
    return qp_state(chaos->pair->end[0].qp) == IBV_QPS_ERR || qp_state(chaos->pair->end[1].qp) == IBV_QPS_ERR;
}

static void finish(struct chaos *chaos)
{
    run(chaos->pair);
    take_completions(chaos);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ibv_dealloc_mw(chaos->window[i]), 0);
        ck_assert_int_eq(soft_dereg_mr(chaos->region[i]), 0);
    }
    pair_free(chaos->pair);
    for (int i = 0; i < 2; i++)
        close(chaos->file[i]);
}

START_TEST(anything)
{
    enum { ROUNDS = 2000 };
    struct setup setup = large();
    struct chaos chaos = {.chance = (uint64_t)_i + 1};

    setup.qp_access = ACCESS_ALL | IBV_ACCESS_MW_BIND;
    setup.rnr_retry = 2;
    setup.far = _i % 4 == 2;
    setup.loopback = _i % 4 == 3;
    chaos.pair = pair_new(&setup);
    network_keep_bytes(chaos.pair->network, false);
    network_set_script(chaos.pair->network, any_fate, &chaos);
    for (int i = 0; i < 2; i++)
        map_file(&chaos, i);
    settle(&chaos);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t changes = below(&chaos, 6); changes > 0; changes--) /* packets that arrive together */
            change(&chaos, (int)below(&chaos, 2));
        for (size_t steps = below(&chaos, 8); steps > 0; steps--)
            (void)network_step(chaos.pair->network);
        take_completions(&chaos);
        if (has_failed(&chaos) && below(&chaos, 4) == 0)
            settle(&chaos);
    }
    settle(&chaos);
    finish(&chaos);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: steps end");
    TCase *tcase = new_case(suite, "steps");

    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, withdrawn_behind_refusal);
    tcase_add_test(tcase, long_read_in_steps);
    tcase_add_test(tcase, long_read_of_failed_queue_pair);
    tcase_add_test(tcase, long_read_beside_short_send);
    tcase_add_loop_test(tcase, anything, 0, 16);
    return run_suite(suite);
}
