/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_sweep.c - every way to lose, duplicate and reorder the first packets of a conversation.
 *
 * Whatever the network does to the first eight packets, the data arrive once, in order and complete, with all
 * completions and no others. A failure prints the mask and the packets of that conversation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check/support/endpoints.h"

#define FIRST 8 /* packets of a conversation that the script may affect */

/* The fates of packets. `fates` has two bits for each of the first packets of the conversation, or (by_way) one bit for
 * each of the first ones of both directions. */
struct mask {
    uint32_t fates;
    bool by_way;
    enum fate kind;
};

static enum fate by_mask(void *arg, const struct packet *packet)
{
    static const enum fate four[] = {FATE_DELIVER, FATE_DROP, FATE_DUPLICATE, FATE_DELAY};
    const struct mask *mask = arg;
    if (!mask->by_way)
        return packet->number < FIRST ? four[mask->fates >> 2 * packet->number & 3] : FATE_DELIVER;
    if (packet->way < FIRST && mask->fates >> (packet->way + FIRST * packet->from) & 1)
        return mask->kind;
    return FATE_DELIVER;
}

/* ---- The conversation: requests of a to b, and of b to a at the same time ---- */

enum { SEND_LENGTH = 300, WRITE_LENGTH = 200, READ_LENGTH = 600, SHORT_LENGTH = 5, BACK_LENGTH = 100 };
enum {
    SOURCE = 0,
    RECEIVED = 1024,
    WRITTEN = 2048,
    READ_TO = 3072,
    RECEIVED_SHORT = 4096,
    RECEIVED_BACK = 5120
};

static void begin(struct pair *pair)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    memset(a->memory + READ_TO, 0, 4096);
    memset(b->memory + RECEIVED, 0, 4096);
    post_receive(b, 1, RECEIVED, 1000);
    post_receive(b, 2, 0, 0);
    post_receive(b, 3, RECEIVED_SHORT, 1000);
    post_receive(b, 4, 0, 8); /* one more, which no message may consume */
    post_receive(a, 5, RECEIVED_BACK, 1000);
    post_receive(a, 6, 0, 8);
    post(a, b,
         &(struct work){.id = 1, .opcode = IBV_WR_SEND, .length = SEND_LENGTH, .flags = IBV_SEND_SIGNALED});
    post(a, b,
         &(struct work){.id = 2,
                        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                        .length = WRITE_LENGTH,
                        .target = WRITTEN,
                        .imm = htobe32(77),
                        .flags = IBV_SEND_SIGNALED});
    post(b, a,
         &(struct work){.id = 5, .opcode = IBV_WR_SEND, .length = BACK_LENGTH, .flags = IBV_SEND_SIGNALED});
    post(a, b,
         &(struct work){.id = 3,
                        .opcode = IBV_WR_RDMA_READ,
                        .at = READ_TO,
                        .length = READ_LENGTH,
                        .flags = IBV_SEND_SIGNALED});
    post(a, b,
         &(struct work){.id = 4, .opcode = IBV_WR_SEND, .length = SHORT_LENGTH, .flags = IBV_SEND_SIGNALED});
}

static void check_completions(struct pair *pair)
{
    struct end *a = &pair->end[0], *b = &pair->end[1];
    expect_done(a->send_cq, 1, IBV_WC_SEND);
    expect_done(a->send_cq, 2, IBV_WC_RDMA_WRITE);
    expect_done(a->send_cq, 3, IBV_WC_RDMA_READ);
    expect_done(a->send_cq, 4, IBV_WC_SEND);
    expect_done(b->send_cq, 5, IBV_WC_SEND);
    expect(expect_wc(b->recv_cq, 1, IBV_WC_SUCCESS).byte_len == SEND_LENGTH, "byte_len of the first SEND");
    struct ibv_wc wc = expect_wc(b->recv_cq, 2, IBV_WC_SUCCESS);
    expect(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == htobe32(77), "immediate data");
    expect(wc.byte_len == WRITE_LENGTH, "byte_len of the WRITE");
    expect(expect_wc(b->recv_cq, 3, IBV_WC_SUCCESS).byte_len == SHORT_LENGTH, "byte_len of the short SEND");
    expect(expect_wc(a->recv_cq, 5, IBV_WC_SUCCESS).byte_len == BACK_LENGTH, "byte_len of the SEND back");
    expect_quiet(pair);
}

static bool complete(struct pair *pair)
{
    uint8_t *a = pair->end[0].memory, *b = pair->end[1].memory;
    return !memcmp(b + RECEIVED, a + SOURCE, SEND_LENGTH) && !memcmp(b + WRITTEN, a + SOURCE, WRITE_LENGTH) &&
           !memcmp(a + READ_TO, b + SOURCE, READ_LENGTH) &&
           !memcmp(b + RECEIVED_SHORT, a + SOURCE, SHORT_LENGTH) &&
           !memcmp(a + RECEIVED_BACK, b + SOURCE, BACK_LENGTH);
}

static bool nothing_beside(struct pair *pair)
{
    static const uint8_t zero[1024];
    uint8_t *a = pair->end[0].memory, *b = pair->end[1].memory;
    return !memcmp(b + RECEIVED + SEND_LENGTH, zero, 1024 - SEND_LENGTH) &&
           !memcmp(b + WRITTEN + WRITE_LENGTH, zero, 1024 - WRITE_LENGTH) &&
           !memcmp(a + READ_TO + READ_LENGTH, zero, 1024 - READ_LENGTH) &&
           !memcmp(b + RECEIVED_SHORT + SHORT_LENGTH, zero, 1024 - SHORT_LENGTH) &&
           !memcmp(a + RECEIVED_BACK + BACK_LENGTH, zero, 1024 - BACK_LENGTH);
}

/* The conversation to print after a failure. */
static struct pair *current;
static struct mask mask;

static void explain(void)
{
    fprintf(stderr, "mask %08x%s, kind %d:\n", mask.fates, mask.by_way ? " by direction" : "", mask.kind);
    network_print(current->network);
}

static struct pair *begin_sweep(bool pull)
{
    struct setup setup = setup_default();
    setup.mtu = IBV_MTU_256;
    setup.memory = 8192;
    setup.pull = pull;
    setup.send_depth = setup.recv_depth = 8;
    setup.cqe = 32;
    setup.psn[0] = 0xfffffe; /* the second packet has the last PSN before it wraps around */
    setup.psn[1] = 0xffffff;
    struct pair *pair = pair_new(&setup);
    fill(pair->end[0].memory, 1024, 1);
    fill(pair->end[1].memory, 1024, 2);
    network_keep_bytes(pair->network, false);
    network_set_script(pair->network, by_mask, &mask);
    current = pair;
    before_failure = explain;
    return pair;
}

static void end_sweep(struct pair *pair)
{
    before_failure = NULL;
    pair_free(pair);
}

static void converse(struct pair *pair)
{
    pair_renew(pair);
    begin(pair);
    run(pair);
    check_completions(pair);
    expect(complete(pair), "data are missing");
    expect(nothing_beside(pair), "something was written beside the data");
}

/* One kind of fault, for each of the first eight packets of both directions independently: 65,536 masks. The packets
 * are passed to the engines, or (pull) the engines fetch them in batches of any size. */
static const struct {
    enum fate kind;
    bool pull;
} mishaps[] = {{FATE_DROP, false},    {FATE_DUPLICATE, false}, {FATE_DELAY, false}, {FATE_ECHO, false},
               {FATE_CORRUPT, false}, {FATE_TRUNCATE, false},  {FATE_DROP, true},   {FATE_DELAY, true}};

START_TEST(one_kind_in_both_directions)
{
    struct pair *pair = begin_sweep(mishaps[_i].pull);
    mask.by_way = true;
    mask.kind = mishaps[_i].kind;
    for (uint32_t forth = 0; forth < 1 << FIRST; forth++)
        for (uint32_t back = 0; back < 1 << FIRST; back++) {
            mask.fates = forth | back << FIRST;
            converse(pair);
        }
    end_sweep(pair);
}
END_TEST

/* All combinations: each of the first eight packets is delivered, lost, duplicated or delayed. Split into one test for
 * each slice; packets are passed and fetched alternately. */
#define SLICES 8

START_TEST(four_fates_for_eight_packets)
{
    struct pair *pair = begin_sweep(_i & 1);
    uint32_t all = 1 << 2 * FIRST, slice = all / SLICES, begin = (uint32_t)_i / 2 * slice;
    for (mask.fates = begin; mask.fates < begin + slice; mask.fates++)
        converse(pair);
    end_sweep(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: sweep");
    TCase *tcase = new_case(suite, "masks");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, one_kind_in_both_directions, 0, sizeof mishaps / sizeof *mishaps);
    tcase_add_loop_test(tcase, four_fates_for_eight_packets, 0, 2 * SLICES);
    return run_suite(suite);
}
