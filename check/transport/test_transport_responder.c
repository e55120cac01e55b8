/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_responder.c - the engine as responder; the test plays the requester packet by packet. */
#include <string.h>
#include "check/support/endpoints.h"

#define MTU 1024

static struct pair *with_a_ghost(void)
{
    struct setup setup = setup_default();
    setup.ghost = true;
    return pair_new(&setup);
}

static uint8_t data[8192];

/* A request with the n-th PSN that the engine expects: `length` bytes of `data`, and in a RETH `dma` bytes at `offset`
 * of the engine's memory. */
struct request {
    uint8_t opcode;
    int n;
    size_t length, dma, offset;
};

static void ask(struct pair *pair, struct request request)
{
    struct end *a = &pair->end[0];
    uint8_t packet[ROCE_BTH + ROCE_RETH + ROCE_IMM + sizeof data];
    struct roce roce = {.opcode = request.opcode,
                        .migreq = true,
                        .ackreq = true,
                        .pkey = 0xffff,
                        .qpn = a->qpn,
                        .psn = roce_psn(pair->setup.psn[1] + (uint32_t)request.n),
                        .va = (uintptr_t)a->memory + request.offset,
                        .rkey = a->rkey,
                        .dma_length = (uint32_t)request.dma,
                        .imm = htobe32(0x55),
                        .payload = data,
                        .payload_length = request.length};
    size_t length = roce_write(packet, &roce);
    network_inject(pair->network, 1, 0, packet, length);
}

/* A packet of a SEND; a packet of a WRITE; a READ of `dma` bytes. */
#define SEND_OF(opcode, n, length)                                                                             \
    {                                                                                                          \
        opcode, n, length, 0, 0                                                                                \
    }
#define WRITE_OF(opcode, n, length, dma)                                                                       \
    {                                                                                                          \
        opcode, n, length, dma, 0                                                                              \
    }
#define READ_OF(n, dma, offset)                                                                                \
    {                                                                                                          \
        READ_REQUEST, n, 0, dma, offset                                                                        \
    }
#define ASK(...) ask(pair, (struct request)__VA_ARGS__)

/* Expects this acknowledgement as the only packet since the last call. */
static void expect_answer(struct pair *pair, uint8_t syndrome, int n, uint32_t msn)
{
    expect(network_packets(pair->network) == 1, "%u packets came back, not one",
           network_packets(pair->network));
    const struct roce *roce = &network_packet(pair->network, 0)->roce;
    expect(roce->opcode == ACKNOWLEDGE, "opcode %02x is not an acknowledgement", roce->opcode);
    expect(roce->syndrome == syndrome, "syndrome %02x, not %02x", roce->syndrome, syndrome);
    expect(roce->psn == roce_psn(pair->setup.psn[1] + (uint32_t)n), "PSN %06x, not number %d", roce->psn, n);
    expect(roce->msn == msn, "MSN %u, not %u", roce->msn, msn);
    expect(roce->qpn == GHOST_QPN, "queue pair %06x", roce->qpn);
    network_forget(pair->network);
}

static void expect_silence(struct pair *pair)
{
    expect(network_packets(pair->network) == 0, "%u packets came back, not none",
           network_packets(pair->network));
}

/* ---- Duplicates ---- */

START_TEST(duplicates_are_acknowledged_and_not_executed)
{
    struct pair *pair = with_a_ghost();
    struct end *a = &pair->end[0];
    fill(data, sizeof data, 1);
    for (uint64_t i = 0; i < 6; i++)
        post_receive(a, i, 1000 * i, 1000);
    ASK(SEND_OF(SEND_ONLY, 0, 100));
    expect_answer(pair, SYNDROME_ACK, 0, 1);
    ASK({WRITE_ONLY_IMM, 1, 8, 8, 30000});
    expect_answer(pair, SYNDROME_ACK, 1, 2);
    ASK({WRITE_ONLY, 2, 16, 16, 40000});
    expect_answer(pair, SYNDROME_ACK, 2, 3);
    memset(a->memory + 30000, 0x77, 11000); /* the application owns this memory again */
    memset(a->memory, 0x77, 2000);
    ASK(SEND_OF(SEND_ONLY, 0, 100));
    expect_answer(pair, SYNDROME_ACK, 2, 3); /* of the newest request, not of the duplicate */
    ASK({WRITE_ONLY_IMM, 1, 8, 8, 30000});
    expect_answer(pair, SYNDROME_ACK, 2, 3);
    ASK({WRITE_ONLY, 2, 16, 16, 40000});
    expect_answer(pair, SYNDROME_ACK, 2, 3);
    expect_byte(a->memory, 2000, 0x77);
    expect_byte(a->memory + 30000, 11000, 0x77);
    ASK(SEND_OF(SEND_ONLY, 3, 5));
    expect_answer(pair, SYNDROME_ACK, 3, 4);
    for (uint64_t i = 0; i < 3; i++) /* three receives were consumed, not five */
        expect_wc(a->recv_cq, i, IBV_WC_SUCCESS);
    expect_quiet(pair);
    ck_assert_uint_eq(counters_of(a).duplicates, 3);
    pair_free(pair);
}
END_TEST

/* A batch of packets causes one acknowledgement, which is not repeated. */
START_TEST(acknowledged_once)
{
    struct pair *pair = with_a_ghost();
    struct end *a = &pair->end[0];
    for (int i = 0; i < 5; i++) {
        ASK(WRITE_OF(WRITE_ONLY, i, 4, 4));
        expect_answer(pair, SYNDROME_ACK, i, (uint32_t)i + 1);
        for (int again = 0; again < 3; again++) {
            soft_lock(a->context);
            soft_flush(a->context);
            soft_unlock(a->context);
            struct ibv_wc wc;
            ck_assert_int_eq(ibv_poll_cq(a->recv_cq, 1, &wc), 0);
        }
        expect_silence(pair);
    }
    pair_free(pair);
}
END_TEST

/* A duplicate in the middle of a message that is still arriving has no effect on it. */
START_TEST(duplicate_inside_a_message)
{
    struct pair *pair = with_a_ghost();
    struct end *a = &pair->end[0];
    fill(data, sizeof data, 2);
    post_receive(a, 1, 0, 4000);
    ASK(SEND_OF(SEND_FIRST, 0, MTU));
    ASK(SEND_OF(SEND_MIDDLE, 1, MTU));
    ASK(SEND_OF(SEND_FIRST, 0, MTU));
    ASK(SEND_OF(SEND_MIDDLE, 1, MTU));
    ASK(SEND_OF(SEND_LAST, 2, 100));
    ASK(SEND_OF(SEND_LAST, 2, 100));
    struct ibv_wc wc = expect_wc(a->recv_cq, 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, 2 * MTU + 100);
    ck_assert_mem_eq(a->memory, data, MTU);
    ck_assert_mem_eq(a->memory + MTU, data, MTU);
    ck_assert_mem_eq(a->memory + 2 * MTU, data, 100);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

#define NEAR 16384 /* an adapter's maximum of outstanding packets, as far as the engine answers them */

/* Duplicates and early packets are answered if they are within a peer's window of the expected PSN. No other packet is
 * answered, so that an attacker that guesses numbers does not learn that this queue pair exists. */
START_TEST(only_near_psns_are_answered)
{
    static const int near[] = {-1, -2, -64, 1 - NEAR};
    static const int far[] = {-NEAR, -100000, -0x7ffff0, -0x7ffffe, NEAR + 2, 100000, 0x7fffff};
    struct pair *pair = with_a_ghost();
    struct end *a = &pair->end[0];
    post_receive(a, 1, 0, 100);
    ASK(SEND_OF(SEND_ONLY, 0, 4));
    expect_answer(pair, SYNDROME_ACK, 0, 1);
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        ASK(WRITE_OF(WRITE_ONLY, near[i], 4, 4));
        expect_answer(pair, SYNDROME_ACK, 0, 1);
    }
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        ASK(WRITE_OF(WRITE_ONLY, far[i], 4, 4));
        ASK({0x15, far[i], 0, 0, 0}); /* a reserved opcode */
        run(pair);
        expect_silence(pair);
    }
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_RTS);
    ASK(WRITE_OF(WRITE_ONLY, NEAR + 1, 4, 4));
    expect_answer(pair, SYNDROME_SEQUENCE, 1, 1);
    ASK(WRITE_OF(WRITE_ONLY, 1, 4, 4)); /* the expected PSN has not changed */
    expect_answer(pair, SYNDROME_ACK, 1, 2);
    expect_wc(a->recv_cq, 1, IBV_WC_SUCCESS);
    pair_free(pair);
}
END_TEST

/* ---- Gaps ---- */

START_TEST(one_nak_for_each_gap)
{
    struct pair *pair = with_a_ghost();
    ASK(WRITE_OF(WRITE_ONLY, 0, 4, 4));
    expect_answer(pair, SYNDROME_ACK, 0, 1);
    ASK({WRITE_ONLY, 2, 4, 4, 2000});
    expect_answer(pair, SYNDROME_SEQUENCE, 1, 1);
    for (int n = 3; n < 10; n++)
        ASK({WRITE_ONLY, n, 4, 4, 2000});
    expect_silence(pair);
    ASK(WRITE_OF(WRITE_ONLY, 1, 4, 4));
    expect_answer(pair, SYNDROME_ACK, 1, 2);
    ASK({WRITE_ONLY, 3, 4, 4, 2000}); /* another gap */
    expect_answer(pair, SYNDROME_SEQUENCE, 2, 2);
    ASK(WRITE_OF(WRITE_ONLY, 2, 4, 4));
    expect_answer(pair, SYNDROME_ACK, 2, 3);
    expect_byte(pair->end[0].memory + 2000, 100, 0);
    ck_assert_uint_eq(counters_of(&pair->end[0]).naks_sent, 2);
    pair_free(pair);
}
END_TEST

/* The packets behind an RNR NAK are not a gap, and cause no NAK. */
START_TEST(no_nak_behind_rnr)
{
    struct pair *pair = with_a_ghost();
    ASK(SEND_OF(SEND_FIRST, 0, MTU));
    expect_answer(pair, SYNDROME_RNR | pair->setup.min_rnr_timer, 0, 0);
    ASK(SEND_OF(SEND_MIDDLE, 1, MTU));
    ASK(SEND_OF(SEND_LAST, 2, 1));
    expect_silence(pair);
    post_receive(&pair->end[0], 1, 0, 3000);
    ASK(SEND_OF(SEND_FIRST, 0, MTU));
    network_forget(pair->network);
    ASK(SEND_OF(SEND_LAST, 1, 1));
    expect_answer(pair, SYNDROME_ACK, 1, 1);
    ck_assert_uint_eq(expect_wc(pair->end[0].recv_cq, 1, IBV_WC_SUCCESS).byte_len, MTU + 1);
    pair_free(pair);
}
END_TEST

/* ---- READ ---- */

static void expect_read(struct pair *pair, int n, size_t offset, size_t length)
{
    uint32_t count = roce_packets(length, MTU);
    expect(network_packets(pair->network) == count, "%u responses, not %u", network_packets(pair->network),
           count);
    for (uint32_t i = 0; i < count; i++) {
        const struct roce *roce = &network_packet(pair->network, i)->roce;
        ck_assert_uint_eq(roce->opcode, count == 1       ? READ_RESPONSE_ONLY
                                        : i == 0         ? READ_RESPONSE_FIRST
                                        : i == count - 1 ? READ_RESPONSE_LAST
                                                         : READ_RESPONSE_MIDDLE);
        ck_assert_uint_eq(roce->psn, pair->setup.psn[1] + (uint32_t)n + i);
        ck_assert_uint_eq(roce->payload_length, i < count - 1 ? MTU : length - (count - 1) * MTU);
        ck_assert_mem_eq(roce->payload, pair->end[0].memory + offset + MTU * i, roce->payload_length);
    }
    network_forget(pair->network);
}

START_TEST(duplicate_read_is_answered_again)
{
    struct pair *pair = with_a_ghost();
    struct end *a = &pair->end[0];
    fill(a->memory, a->size, 3);
    ASK(READ_OF(0, 5000, 100));
    run(pair);
    expect_read(pair, 0, 100, 5000);
    ASK({WRITE_ONLY, 5, 4, 4, 60000});
    expect_answer(pair, SYNDROME_ACK, 5, 2);
    ASK(READ_OF(0, 5000, 100)); /* the whole READ */
    run(pair);
    expect_read(pair, 0, 100, 5000);
    ASK(READ_OF(2, 5000 - 2 * MTU, 100 + 2 * MTU)); /* from packet 2 on */
    run(pair);
    expect_read(pair, 2, 100 + 2 * MTU, 5000 - 2 * MTU);
    ASK(READ_OF(4, 5000 - 4 * MTU, 100 + 4 * MTU)); /* only the last response */
    run(pair);
    expect_read(pair, 4, 100 + 4 * MTU, 5000 - 4 * MTU);
    ASK({WRITE_ONLY, 6, 4, 4, 60000}); /* the sequence was not affected */
    expect_answer(pair, SYNDROME_ACK, 6, 3);
    pair_free(pair);
}
END_TEST

#define LONG (8 << 20)

/* A long READ is requested again from some packet on, while its response is being sent: from then on the response is
 * the rest from that packet, complete and in order, and the next request's response follows it. */
START_TEST(asked_again_on_the_way)
{
    struct setup setup = setup_default();
    setup.ghost = true;
    setup.memory = LONG;
    struct pair *pair = pair_new(&setup);
    uint32_t count = (LONG) / MTU, from = (uint32_t)_i * count / 8;
    ASK(READ_OF(0, LONG, 0));
    unsigned before = network_packets(pair->network);
    ck_assert_uint_lt(before, count);
    ASK(READ_OF((int)from, (LONG)-from * MTU, from * MTU));
    ASK(READ_OF((int)count, 8, 0));
    run(pair);
    unsigned packets = network_packets(pair->network), i = before;
    /* packets that were being sent may come first */
    while (i < packets && network_packet(pair->network, i)->roce.psn != setup.psn[1] + from)
        i++;
    unsigned start = i;
    for (uint32_t psn = from; i < packets && psn <= count; i++) {
        uint32_t got = network_packet(pair->network, i)->roce.psn - setup.psn[1];
        expect(got == psn, "response %u behind that to %u", got, psn);
        psn++;
    }
    expect(i == packets && packets - start == count - from + 1, "%u responses from %u on", packets - start,
           from);
    ck_assert_uint_eq(network_packet(pair->network, packets - 1)->roce.opcode, READ_RESPONSE_ONLY);
    pair_free(pair);
}
END_TEST

/* A READ with the PSN of an earlier one that asks for other data is not a duplicate, and gets no data. */
START_TEST(false_duplicate_read_gets_nothing)
{
    struct pair *pair = with_a_ghost();
    static const struct request false_ones[] = {
        {READ_REQUEST, 0, 0, 2000, 200},    {READ_REQUEST, 0, 0, 2001, 100},
        {READ_REQUEST, 0, 0, 20000, 100},   {READ_REQUEST, 0, 0, 2000, 0},
        {READ_REQUEST, -1, 0, 2000, 100},   {READ_REQUEST, 1, 0, 2000, 100},
        {READ_REQUEST, 2, 0, 2000, 100},    {READ_REQUEST, -700, 0, 100, 100},
        {READ_REQUEST, 0, 0, 1u << 31, 100}};
    ASK(READ_OF(0, 2000, 100));
    run(pair);
    network_forget(pair->network);
    ASK({WRITE_ONLY, 2, 4, 4, 60000});
    network_forget(pair->network);
    ask(pair, false_ones[_i]);
    run(pair);
    for (unsigned i = 0; i < network_packets(pair->network); i++)
        ck_assert_uint_eq(network_packet(pair->network, i)->roce.opcode, ACKNOWLEDGE);
    pair_free(pair);
}
END_TEST

/* Only its data acknowledge a READ or an atomic: an ACK for earlier requests has their PSN and MSN, since some
 * requesters would take any other for the response. */
START_TEST(no_acknowledgement_of_what_has_an_answer)
{
    struct setup setup = setup_default();
    setup.ghost = true;
    setup.qp_access |= IBV_ACCESS_REMOTE_ATOMIC;
    setup.mr_access |= IBV_ACCESS_REMOTE_ATOMIC;
    struct pair *pair = pair_new(&setup);
    uint8_t opcode = _i == 0 ? READ_REQUEST : FETCH_ADD,
            answer = _i == 0 ? READ_RESPONSE_ONLY : ATOMIC_ACKNOWLEDGE;
    ASK(WRITE_OF(WRITE_ONLY, 0, 4, 4));
    expect_answer(pair, SYNDROME_ACK, 0, 1);
    for (int n = 1; n <= 2; n++) {
        ASK({opcode, n, 0, 8, 800});
        run(pair);
        ck_assert_uint_eq(network_packets(pair->network), 1);
        ck_assert_uint_eq(network_packet(pair->network, 0)->roce.opcode, answer);
        ck_assert_uint_eq(network_packet(pair->network, 0)->roce.msn, n + 1);
        network_forget(pair->network);
        ASK(WRITE_OF(WRITE_ONLY, 0, 4, 4));
        expect_answer(pair, SYNDROME_ACK, 0, 1);
        ASK(WRITE_OF(WRITE_ONLY, n + 2, 4, 4));
        expect_answer(pair, SYNDROME_SEQUENCE, n + 1, (uint32_t)n + 1);
    }
    ASK(WRITE_OF(WRITE_ONLY, 3, 4, 4));
    expect_answer(pair, SYNDROME_ACK, 3, 4);
    ASK(WRITE_OF(WRITE_ONLY, 0, 4, 4));
    expect_answer(pair, SYNDROME_ACK, 3, 4);
    pair_free(pair);
}
END_TEST

/* READs are answered in order, and the requests behind them are acknowledged after them. */
START_TEST(answers_keep_their_order)
{
    struct pair *pair = with_a_ghost();
    ASK(READ_OF(0, 4 * MTU, 0));
    ASK(READ_OF(4, 2 * MTU, 0));
    ASK({WRITE_ONLY, 6, 4, 4, 60000});
    ASK(READ_OF(7, 1, 0));
    run(pair);
    uint32_t before = 0;
    for (unsigned i = 0; i < network_packets(pair->network); i++) {
        const struct roce *roce = &network_packet(pair->network, i)->roce;
        uint32_t n = roce_psn(roce->psn - pair->setup.psn[1]) + 1;
        expect(n > before, "the answer to PSN number %u comes behind that to %u", n - 1, before - 1);
        before = n;
    }
    ck_assert_uint_eq(before, 8);
    ck_assert_uint_eq(network_packet(pair->network, network_packets(pair->network) - 1)->roce.msn, 4);
    pair_free(pair);
}
END_TEST

/* ---- Invalid requests: a NAK, the error state, and an error completion for the current receive ---- */

struct sequence {
    struct request before, bad;
};

static const struct sequence sequences[] = {
    /* Opcodes out of sequence. */
    {WRITE_OF(WRITE_ONLY, 0, 4, 4), SEND_OF(SEND_MIDDLE, 1, MTU)},
    {WRITE_OF(WRITE_ONLY, 0, 4, 4), SEND_OF(SEND_LAST, 1, 4)},
    {WRITE_OF(WRITE_ONLY, 0, 4, 4), SEND_OF(SEND_LAST_IMM, 1, 4)},
    {WRITE_OF(WRITE_ONLY, 0, 4, 4), WRITE_OF(WRITE_MIDDLE, 1, MTU, 0)},
    {WRITE_OF(WRITE_ONLY, 0, 4, 4), WRITE_OF(WRITE_LAST, 1, 4, 0)},
    {WRITE_OF(WRITE_ONLY, 0, 4, 4), WRITE_OF(WRITE_LAST_IMM, 1, 4, 0)},
    {SEND_OF(SEND_FIRST, 0, MTU), SEND_OF(SEND_FIRST, 1, MTU)},
    {SEND_OF(SEND_FIRST, 0, MTU), SEND_OF(SEND_ONLY, 1, 4)},
    {SEND_OF(SEND_FIRST, 0, MTU), WRITE_OF(WRITE_MIDDLE, 1, MTU, 0)},
    {SEND_OF(SEND_FIRST, 0, MTU), WRITE_OF(WRITE_LAST, 1, 4, 0)},
    {SEND_OF(SEND_FIRST, 0, MTU), WRITE_OF(WRITE_ONLY, 1, 4, 4)},
    {SEND_OF(SEND_FIRST, 0, MTU), READ_OF(1, 4, 0)},
    {WRITE_OF(WRITE_FIRST, 0, MTU, 3 * MTU), WRITE_OF(WRITE_FIRST, 1, MTU, 3 * MTU)},
    {WRITE_OF(WRITE_FIRST, 0, MTU, 3 * MTU), SEND_OF(SEND_MIDDLE, 1, MTU)},
    {WRITE_OF(WRITE_FIRST, 0, MTU, 3 * MTU), SEND_OF(SEND_LAST, 1, 4)},
    {WRITE_OF(WRITE_FIRST, 0, MTU, 3 * MTU), WRITE_OF(WRITE_ONLY, 1, 4, 4)},
    {WRITE_OF(WRITE_FIRST, 0, MTU, 3 * MTU), READ_OF(1, 4, 0)},
    /* Payloads of the wrong length. */
    {WRITE_OF(WRITE_FIRST, 0, MTU, 3 * MTU), WRITE_OF(WRITE_LAST, 1, MTU, 0)},   /* ends too early */
    {WRITE_OF(WRITE_FIRST, 0, MTU, MTU + 8), WRITE_OF(WRITE_MIDDLE, 1, MTU, 0)}, /* continues too long */
    {WRITE_OF(WRITE_FIRST, 0, MTU, MTU + 8), WRITE_OF(WRITE_LAST, 1, 12, 0)},    /* the last is too long */
    {WRITE_OF(WRITE_FIRST, 0, MTU, MTU + 8),
     WRITE_OF(WRITE_LAST_IMM, 1, MTU, 0)}, /* the same, with a receive */
    {WRITE_OF(WRITE_ONLY, 0, 4, 4), WRITE_OF(WRITE_ONLY, 1, 8, 4)},
    {WRITE_OF(WRITE_ONLY, 0, 4, 4), WRITE_OF(WRITE_ONLY, 1, 4, 8)},
    {WRITE_OF(WRITE_ONLY, 0, 4, 4), WRITE_OF(WRITE_ONLY_IMM, 1, 4, 8)},
    {WRITE_OF(WRITE_ONLY, 0, 4, 4), WRITE_OF(WRITE_FIRST, 1, MTU, MTU - 4)},
};

START_TEST(invalid_requests)
{
    struct pair *pair = with_a_ghost();
    struct end *a = &pair->end[0];
    const struct sequence *sequence = &sequences[_i];
    memset(data, 0xdd, sizeof data);
    post_receive(a, 1, 0, 4 * MTU);
    post_receive(a, 2, 0, 4 * MTU);
    struct request before = sequence->before, bad = sequence->bad;
    before.offset = bad.offset = 20000;
    ask(pair, before);
    network_forget(pair->network);
    ask(pair, bad);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    expect_answer(pair, SYNDROME_INVALID_REQUEST, 1, before.opcode == WRITE_ONLY);
    /* The receive in use fails, the other one is flushed: none succeeds. */
    struct ibv_wc wc;
    for (uint64_t id = 1; id <= 2; id++) {
        ck_assert_int_eq(ibv_poll_cq(a->recv_cq, 1, &wc), 1);
        ck_assert_uint_eq(wc.wr_id, id);
        ck_assert_int_ne(wc.status, IBV_WC_SUCCESS);
    }
    ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
    size_t allowed = before.dma > before.length ? before.dma : before.length;
    expect_byte(a->memory + 20000 + allowed, 10000, 0);
    network_forget(pair->network);
    ASK({WRITE_ONLY, 1, 4, 4, 20000}); /* it answers no further request */
    expect_silence(pair);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* Lengths that no packet may have: dropped or refused, never executed. */
static const struct request misfits[] = {
    {SEND_FIRST, 0, MTU - 4, 0, 0}, {SEND_FIRST, 0, MTU + 4, 0, 0},     {SEND_FIRST, 0, 0, 0, 0},
    {SEND_ONLY, 0, MTU + 4, 0, 0},  {SEND_ONLY, 0, MTU + 1, 0, 0},      {SEND_ONLY, 0, 4096, 0, 0},
    {SEND_ONLY, 0, 8000, 0, 0},     {SEND_ONLY_IMM, 0, MTU + 1, 0, 0},  {WRITE_FIRST, 0, MTU - 4, 4096, 0},
    {WRITE_FIRST, 0, 0, 4096, 0},   {WRITE_FIRST, 0, 2 * MTU, 4096, 0}, {WRITE_ONLY, 0, 2 * MTU, 2 * MTU, 0},
    {READ_REQUEST, 0, 4, 100, 0},   {READ_REQUEST, 0, 0, 0x80000001, 0}};

START_TEST(impossible_lengths)
{
    struct pair *pair = with_a_ghost();
    struct end *a = &pair->end[0];
    memset(data, 0xdd, sizeof data);
    post_receive(a, 1, 20000, 20000);
    ask(pair, misfits[_i]);
    run(pair);
    expect_byte(a->memory, a->size, 0);
    struct ibv_wc wc;
    if (ibv_poll_cq(a->recv_cq, 1, &wc))
        ck_assert_int_ne(wc.status, IBV_WC_SUCCESS);
    struct soft_counters counters = counters_of(a);
    ck_assert_uint_eq(counters.malformed + counters.naks_sent, 1);
    for (unsigned i = 0; i < network_packets(pair->network); i++) /* no data either */
        ck_assert_uint_eq(network_packet(pair->network, i)->roce.opcode, ACKNOWLEDGE);
    pair_free(pair);
}
END_TEST

/* LAST needs at least one byte: the specification permits to refuse an empty one. */
START_TEST(empty_last)
{
    struct pair *pair = with_a_ghost();
    struct end *a = &pair->end[0];
    post_receive(a, 1, 0, 4 * MTU);
    ASK(SEND_OF(SEND_FIRST, 0, MTU));
    ASK(SEND_OF(SEND_LAST, 1, 0));
    struct ibv_wc wc;
    if (ibv_poll_cq(a->recv_cq, 1, &wc))
        ck_assert_int_ne(wc.status, IBV_WC_SUCCESS);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: responder");
    TCase *order = new_case(suite, "order"), *reads = new_case(suite, "reads"),
          *invalid = new_case(suite, "invalid");
    tcase_add_test(order, duplicates_are_acknowledged_and_not_executed);
    tcase_add_test(order, acknowledged_once);
    tcase_add_test(order, duplicate_inside_a_message);
    tcase_add_test(order, only_near_psns_are_answered);
    tcase_add_test(order, one_nak_for_each_gap);
    tcase_add_test(order, no_nak_behind_rnr);
    tcase_add_test(reads, duplicate_read_is_answered_again);
    tcase_add_loop_test(reads, asked_again_on_the_way, 0, 8);
    tcase_add_loop_test(reads, false_duplicate_read_gets_nothing, 0, 9);
    tcase_add_loop_test(reads, no_acknowledgement_of_what_has_an_answer, 0, 2);
    tcase_add_test(reads, answers_keep_their_order);
    tcase_add_loop_test(invalid, invalid_requests, 0, sizeof sequences / sizeof *sequences);
    tcase_add_loop_test(invalid, impossible_lengths, 0, sizeof misfits / sizeof *misfits);
    tcase_add_test(invalid, empty_last);
    return run_suite(suite);
}
