/* SPDX-License-Identifier: BSD-2-Clause */
/* test_transport_requester.c - the engine as requester; the test plays the responder packet by packet. */
#include <string.h>
#include "check/support/endpoints.h"
#include "soft/engine/recovery.h"

static struct pair *with_a_ghost(uint8_t timeout)
{
    struct setup setup = setup_default();
    setup.ghost = true;
    setup.timeout = timeout;
    setup.memory = 1 << 17;
    return pair_new(&setup);
}

/* Sends an ACKNOWLEDGE with this syndrome, for request number n (0: the first PSN). */
static void answer(struct pair *pair, int n, uint8_t syndrome)
{
    struct end *a = &pair->end[0];
    uint8_t packet[ROCE_MAX];
    struct roce roce = {.opcode = ACKNOWLEDGE,
                        .migreq = true,
                        .pkey = 0xffff,
                        .qpn = a->qpn,
                        .psn = roce_psn(a->psn + (uint32_t)n),
                        .syndrome = syndrome,
                        .msn = (uint32_t)n + 1};
    size_t length = roce_write(packet, &roce);
    network_inject(pair->network, 1, 0, packet, length);
}

static void respond(struct pair *pair, uint8_t opcode, uint32_t n, size_t length)
{
    static uint8_t data[4096];
    struct end *a = &pair->end[0];
    uint8_t packet[ROCE_MAX];
    fill(data, sizeof data, n);
    struct roce roce = {.opcode = opcode,
                        .migreq = true,
                        .pkey = 0xffff,
                        .qpn = a->qpn,
                        .psn = roce_psn(a->psn + n),
                        .syndrome = SYNDROME_ACK,
                        .msn = 1,
                        .payload = data,
                        .payload_length = length};
    size_t total = roce_write(packet, &roce);
    network_inject(pair->network, 1, 0, packet, total);
}

static void post_writes(struct pair *pair, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++)
        post(&pair->end[0], &pair->end[1],
             &(struct work){.id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED});
}

static void post_read(struct pair *pair, uint64_t id, size_t length)
{
    post(&pair->end[0], &pair->end[1],
         &(struct work){.id = id, .opcode = IBV_WR_RDMA_READ, .length = length, .flags = IBV_SEND_SIGNALED});
}

/* ---- Acknowledgements ---- */

START_TEST(one_acknowledgement_for_many)
{
    struct pair *pair = with_a_ghost(0);
    struct end *a = &pair->end[0];
    post_writes(pair, 0, 5);
    answer(pair, 2, SYNDROME_ACK);
    for (uint64_t i = 0; i < 3; i++)
        expect_done(a->send_cq, i, IBV_WC_RDMA_WRITE);
    expect_none(a->send_cq);
    answer(pair, 2, SYNDROME_ACK); /* a duplicate has no effect */
    answer(pair, 1, SYNDROME_ACK); /* nor has an older one */
    expect_none(a->send_cq);
    answer(pair, 4, SYNDROME_ACK);
    expect_done(a->send_cq, 3, IBV_WC_RDMA_WRITE);
    expect_done(a->send_cq, 4, IBV_WC_RDMA_WRITE);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* The requester ignores the credit count in an ACK's syndrome: each of the 32 codes acknowledges. */
START_TEST(credit_codes_are_ignored)
{
    struct pair *pair = with_a_ghost(0);
    for (int code = 0; code < 32; code++) {
        post_writes(pair, (uint64_t)code, 1);
        answer(pair, code, (uint8_t)code);
        expect_done(pair->end[0].send_cq, (uint64_t)code, IBV_WC_RDMA_WRITE);
    }
    pair_free(pair);
}
END_TEST

/* Responses to requests that were not sent have no effect. */
START_TEST(answers_out_of_range_are_ignored)
{
    static const uint8_t syndromes[] = {SYNDROME_ACK,      SYNDROME_RNR | 5,
                                        SYNDROME_SEQUENCE, SYNDROME_INVALID_REQUEST,
                                        SYNDROME_ACCESS,   SYNDROME_OPERATION};
    struct pair *pair = with_a_ghost(0);
    struct end *a = &pair->end[0];
    post_writes(pair, 0, 2);
    answer(pair, 1, SYNDROME_ACK);
    expect_done(a->send_cq, 0, IBV_WC_RDMA_WRITE);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    for (size_t i = 0; i < sizeof syndromes; i++)
        for (int n = -300; n < 300; n++)
            /* A NAK of the next PSN is how a responder reports an overflow; it may be ignored, too. */
            if (n != 2)
                answer(pair, n, syndromes[i]);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_RTS);
    post_writes(pair, 2, 2);
    for (size_t i = 0; i < sizeof syndromes; i++)
        for (int n = -300; n < 300; n++)
            if (n < 1 || n > 4)
                answer(pair, n, syndromes[i]);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_RTS);
    answer(pair, 3, SYNDROME_ACK);
    expect_done(a->send_cq, 2, IBV_WC_RDMA_WRITE);
    expect_done(a->send_cq, 3, IBV_WC_RDMA_WRITE);
    pair_free(pair);
}
END_TEST

/* ---- Negative acknowledgements ---- */

START_TEST(sequence_nak_acknowledges_what_is_before)
{
    struct pair *pair = with_a_ghost(0);
    struct end *a = &pair->end[0];
    post_writes(pair, 0, 5);
    unsigned before = network_packets(pair->network);
    answer(pair, 3, SYNDROME_SEQUENCE);
    for (uint64_t i = 0; i < 3; i++)
        expect_done(a->send_cq, i, IBV_WC_RDMA_WRITE);
    expect_none(a->send_cq);
    run(pair);
    ck_assert_uint_eq(network_packets(pair->network), before + 2);
    ck_assert_uint_eq(network_packet(pair->network, before)->roce.psn, a->psn + 3);
    ck_assert_uint_eq(network_packet(pair->network, before + 1)->roce.psn, a->psn + 4);
    answer(pair, 4, SYNDROME_ACK);
    expect_done(a->send_cq, 3, IBV_WC_RDMA_WRITE);
    expect_done(a->send_cq, 4, IBV_WC_RDMA_WRITE);
    pair_free(pair);
}
END_TEST

static const struct {
    uint8_t syndrome;
    enum ibv_wc_status status;
} fatal[] = {{SYNDROME_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR},
             {SYNDROME_ACCESS, IBV_WC_REM_ACCESS_ERR},
             {SYNDROME_OPERATION, IBV_WC_REM_OP_ERR}};

START_TEST(fatal_naks)
{
    struct pair *pair = with_a_ghost(10);
    struct end *a = &pair->end[0];
    post_receive(a, 9, 0, 8);
    post_writes(pair, 0, 5);
    answer(pair, 2, fatal[_i].syndrome);
    expect_done(a->send_cq, 0, IBV_WC_RDMA_WRITE);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    expect_wc(a->send_cq, 2, fatal[_i].status);
    expect_wc(a->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->send_cq, 4, IBV_WC_WR_FLUSH_ERR);
    expect_wc(a->recv_cq, 9, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    unsigned before = network_packets(pair->network);
    run(pair);
    ck_assert_uint_eq(network_packets(pair->network), before);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

START_TEST(rnr_nak_acknowledges_what_is_before)
{
    struct pair *pair = with_a_ghost(0);
    struct end *a = &pair->end[0];
    post_writes(pair, 0, 3);
    unsigned before = network_packets(pair->network);
    answer(pair, 1, SYNDROME_RNR | 1);
    expect_done(a->send_cq, 0, IBV_WC_RDMA_WRITE);
    expect_none(a->send_cq);
    ck_assert_uint_eq(network_packets(pair->network), before);
    run(pair);
    ck_assert_uint_eq(network_packets(pair->network), before + 2);
    ck_assert_uint_eq(network_packet(pair->network, before)->roce.psn, a->psn + 1);
    pair_free(pair);
}
END_TEST

/* ---- READ responses ---- */

START_TEST(read_response_acknowledges_what_is_before)
{
    struct pair *pair = with_a_ghost(0);
    struct end *a = &pair->end[0];
    post_writes(pair, 0, 2);
    post_read(pair, 2, 100);
    respond(pair, READ_RESPONSE_ONLY, 2, 100);
    expect_done(a->send_cq, 0, IBV_WC_RDMA_WRITE);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_WRITE);
    expect_done(a->send_cq, 2, IBV_WC_RDMA_READ);
    expect(filled(a->memory, 96, 2), "the data differ");
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* An ACK alone never completes a READ: the data are missing, so it is requested again. */
START_TEST(acknowledgement_does_not_complete_a_read)
{
    struct pair *pair = with_a_ghost(8);
    struct end *a = &pair->end[0];
    post_writes(pair, 0, 1);
    post_read(pair, 1, 100);
    post_writes(pair, 2, 1);
    answer(pair, 2, SYNDROME_ACK);
    expect_done(a->send_cq, 0, IBV_WC_RDMA_WRITE);
    expect_none(a->send_cq);
    while (count_packets(pair->network, 0, READ_REQUEST) < 2)
        ck_assert(network_step(pair->network));
    expect_none(a->send_cq);
    respond(pair, READ_RESPONSE_ONLY, 1, 100);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_READ);
    answer(pair, 2, SYNDROME_ACK);
    expect_done(a->send_cq, 2, IBV_WC_RDMA_WRITE);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* Of five responses numbers 0, 1 and 3 arrived: the requester asks for the rest from number 2 on. */
START_TEST(read_goes_on_where_it_stopped)
{
    struct pair *pair = with_a_ghost(8);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post_read(pair, 7, 4 * 1024 + 100);
    respond(pair, READ_RESPONSE_FIRST, 0, 1024);
    respond(pair, READ_RESPONSE_MIDDLE, 1, 1024);
    respond(pair, READ_RESPONSE_MIDDLE, 3, 1024);
    expect_byte(a->memory + 2048, 3000, 0);
    while (count_packets(pair->network, 0, READ_REQUEST) < 2)
        ck_assert(network_step(pair->network));
    const struct roce *again = &find_packet(pair->network, 0, READ_REQUEST, 1)->roce;
    ck_assert_uint_eq(again->psn, a->psn + 2);
    ck_assert_uint_eq(again->va, (uintptr_t)b->memory + 2048);
    ck_assert_uint_eq(again->dma_length, 2 * 1024 + 100);
    respond(pair, READ_RESPONSE_FIRST, 2, 1024);
    respond(pair, READ_RESPONSE_MIDDLE, 3, 1024);
    expect_none(a->send_cq);
    respond(pair, READ_RESPONSE_LAST, 4, 100);
    ck_assert_uint_eq(expect_wc(a->send_cq, 7, IBV_WC_SUCCESS).byte_len, 4 * 1024 + 100);
    for (size_t i = 0; i < 4; i++)
        expect(filled(a->memory + 1024 * i, 1024, i), "the data of response %zu differ", i);
    expect_byte(a->memory + 4 * 1024 + 100, 2000, 0);
    pair_free(pair);
}
END_TEST

/* Expects that READ request number n asks for `packets` packets of 1,024 bytes, from packet `first` on. */
static void expect_request(struct pair *pair, unsigned n, uint32_t first, uint32_t packets)
{
    while (count_packets(pair->network, 0, READ_REQUEST) <= n)
        ck_assert(network_step(pair->network));
    ck_assert_uint_eq(count_packets(pair->network, 0, READ_REQUEST), n + 1);
    const struct roce *request = &find_packet(pair->network, 0, READ_REQUEST, n)->roce;
    ck_assert_uint_eq(request->psn, pair->end[0].psn + first);
    ck_assert_uint_eq(request->va, (uintptr_t)pair->end[1].memory + 1024 * first);
    ck_assert_uint_eq(request->dma_length, 1024 * packets);
}

/* Sends responses `first` to `last` of a request for `begin` to `end`. */
static void respond_to_request(struct pair *pair, uint32_t begin, uint32_t first, uint32_t last, uint32_t end)
{
    for (uint32_t n = first; n <= last; n++)
        respond(pair,
                n == begin ? READ_RESPONSE_FIRST
                : n == end ? READ_RESPONSE_LAST
                           : READ_RESPONSE_MIDDLE,
                n, 1024);
}

/* A responder sends the whole response to a READ without a pause. Therefore a request asks for no more than a window,
 * and the next one follows when the last response has arrived. A request after a loss asks only for the rest of its
 * part. */
START_TEST(long_read_is_asked_for_in_parts)
{
    struct pair *pair = with_a_ghost(0);
    struct end *a = &pair->end[0];
    const uint32_t start = SOFT_WINDOW_START, second = start + 2 * start, length = second + 4;
    post_read(pair, 7, 1024 * length);
    expect_request(pair, 0, 0, start);
    respond_to_request(pair, 0, 0, start - 2, start - 1);
    ck_assert_uint_eq(count_packets(pair->network, 0, READ_REQUEST), 1);
    respond(pair, READ_RESPONSE_LAST, start - 1, 1024);
    expect_request(pair, 1, start, 2 * start);
    respond_to_request(pair, start, start, second - 5, second - 1);
    respond(pair, READ_RESPONSE_LAST, second - 1, 1024); /* the three before it are lost */
    expect_request(pair, 2, second - 4, 4);
    respond_to_request(pair, second - 4, second - 4, second - 1, second - 1);
    expect_none(a->send_cq);
    expect_request(pair, 3, second, 4);
    respond_to_request(pair, second, second, length - 1, length - 1);
    ck_assert_uint_eq(expect_wc(a->send_cq, 7, IBV_WC_SUCCESS).byte_len, 1024 * length);
    for (size_t i = 0; i < length; i++)
        expect(filled(a->memory + 1024 * i, 1024, i), "the data of response %zu differ", i);
    expect_quiet(pair);
    pair_free(pair);
}
END_TEST

/* Each response may be duplicated, and old ones may be late: nothing is written after the completion. */
START_TEST(late_read_responses_write_nothing)
{
    struct pair *pair = with_a_ghost(0);
    struct end *a = &pair->end[0];
    post_read(pair, 1, 3000);
    for (int twice = 0; twice < 2; twice++)
        respond(pair, READ_RESPONSE_FIRST, 0, 1024);
    for (int twice = 0; twice < 2; twice++)
        respond(pair, READ_RESPONSE_MIDDLE, 1, 1024);
    respond(pair, READ_RESPONSE_LAST, 2, 952);
    expect_done(a->send_cq, 1, IBV_WC_RDMA_READ);
    memset(a->memory, 0x11, 3000); /* the application owns its memory again */
    for (uint32_t n = 0; n < 3; n++) {
        respond(pair, READ_RESPONSE_FIRST, n, 1024);
        respond(pair, READ_RESPONSE_MIDDLE, n, 1024);
        respond(pair, READ_RESPONSE_LAST, n, 952);
        respond(pair, READ_RESPONSE_ONLY, n, 952);
    }
    expect_byte(a->memory, 3000, 0x11);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_RTS);
    pair_free(pair);
}
END_TEST

/* A response of the wrong length or kind never completes the READ successfully, and nothing is written behind its
 * buffer. */
static const struct {
    uint8_t opcode;
    size_t length;
} wrong[] = {{READ_RESPONSE_ONLY, 1024},  {READ_RESPONSE_ONLY, 1000}, {READ_RESPONSE_ONLY, 4},
             {READ_RESPONSE_ONLY, 0},     {READ_RESPONSE_LAST, 976},  {READ_RESPONSE_FIRST, 1000},
             {READ_RESPONSE_FIRST, 1028}, {READ_RESPONSE_FIRST, 0},   {READ_RESPONSE_FIRST, 4096},
             {READ_RESPONSE_MIDDLE, 4096}};

START_TEST(wrong_read_responses)
{
    struct pair *pair = with_a_ghost(8);
    struct end *a = &pair->end[0];
    post_read(pair, 1, 2000);
    respond(pair, wrong[_i].opcode, 0, wrong[_i].length);
    respond(pair, READ_RESPONSE_LAST, 1, 976);
    struct ibv_wc wc;
    if (ibv_poll_cq(a->send_cq, 1, &wc))
        ck_assert_int_ne(wc.status, IBV_WC_SUCCESS);
    expect_byte(a->memory + 2000, 10000, 0);
    run(pair);
    expect_byte(a->memory + 2000, 10000, 0);
    pair_free(pair);
}
END_TEST

/* The last response is longer than the rest, but not longer than a packet. */
START_TEST(too_long_last_response)
{
    struct pair *pair = with_a_ghost(8);
    struct end *a = &pair->end[0];
    post_read(pair, 1, 1500);
    respond(pair, READ_RESPONSE_FIRST, 0, 1024);
    respond(pair, READ_RESPONSE_LAST, 1, 1024);
    run(pair);
    struct ibv_wc wc;
    ck_assert_int_eq(ibv_poll_cq(a->send_cq, 1, &wc), 1);
    ck_assert_int_ne(wc.status, IBV_WC_SUCCESS);
    expect_byte(a->memory + 1500, 10000, 0);
    pair_free(pair);
}
END_TEST

/* Nothing is outstanding: no response has any effect. */
START_TEST(responses_to_nobody)
{
    struct pair *pair = with_a_ghost(8);
    struct end *a = &pair->end[0];
    for (uint32_t n = 0; n < 20; n++)
        for (uint8_t opcode = READ_RESPONSE_FIRST; opcode <= READ_RESPONSE_ONLY; opcode++)
            respond(pair, opcode, n, 1024);
    expect_byte(a->memory, a->size, 0);
    expect_quiet(pair);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_RTS);
    ck_assert_uint_eq(network_packets(pair->network), 0);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport: requester");
    TCase *answers = new_case(suite, "answers"), *reads = new_case(suite, "reads");
    tcase_add_test(answers, one_acknowledgement_for_many);
    tcase_add_test(answers, credit_codes_are_ignored);
    tcase_add_test(answers, answers_out_of_range_are_ignored);
    tcase_add_test(answers, sequence_nak_acknowledges_what_is_before);
    tcase_add_loop_test(answers, fatal_naks, 0, 3);
    tcase_add_test(answers, rnr_nak_acknowledges_what_is_before);
    tcase_add_test(reads, read_response_acknowledges_what_is_before);
    tcase_add_test(reads, acknowledgement_does_not_complete_a_read);
    tcase_add_test(reads, read_goes_on_where_it_stopped);
    tcase_add_test(reads, long_read_is_asked_for_in_parts);
    tcase_add_test(reads, late_read_responses_write_nothing);
    tcase_add_loop_test(reads, wrong_read_responses, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(reads, too_long_last_response);
    tcase_add_test(reads, responses_to_nobody);
    return run_suite(suite);
}
