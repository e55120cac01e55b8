/* SPDX-License-Identifier: BSD-2-Clause */
/* rows_answer.c - responder: new, repeated and out-of-order requests. Checks its responses, and that it executes each
 * request once. */
#include <string.h>
#include "rows.h"

#define ACK SYNDROME_ACK

/* Sends a request with the next PSN, and returns it, so that it can be sent again. */
static struct roce ask(struct channel *channel, unsigned opcode, size_t length)
{
    struct roce request = tester_request(channel, opcode, 0, length);

    channel->next_psn += opcode == READ_REQUEST ? roce_packets(length, IBTA_MTU) : 1;
    tester_send(channel, &request, INTACT);
    return request;
}

static void finish(struct channel *channel)
{
    linger_briefly(channel);
    dut_note_state(channel);
    dut_note_word(channel, "memory", 0);
}

static void judge_rest(struct judge *judge, uint64_t memory)
{
    judge_form(judge);
    judge_note(judge, "state", IBV_QPS_RTS);
    judge_note(judge, "memory", memory);
}

/* ---- New requests ---- */

static void talk_four(struct channel *channel, const struct row *row)
{
    (void)row;
    for (unsigned i = 0; i < 4; i++) {
        dut_receive(channel, 1 + i, 0, 16);
        ask(channel, SEND_ONLY, 8);
        prompt_packet(channel);
    }
    finish(channel);
}

static void judge_four(struct judge *judge, const struct row *row)
{
    static const struct expected_completion done[] = {
        {1, IBV_WC_SUCCESS}, {2, IBV_WC_SUCCESS}, {3, IBV_WC_SUCCESS}, {4, IBV_WC_SUCCESS}};
    struct expected_packet expected[4];

    for (uint32_t i = 0; i < 4; i++)
        expected[i] = (struct expected_packet){ACKNOWLEDGE, row->terms.tester_psn + i, ACK, .msn = i + 1};
    judge_answers(judge, expected, 4);
    judge_completions(judge, done, 4);
    judge_rest(judge, 0x1111111111111111);
}

/* A request of 0 bytes: the key is not checked. */
static void talk_nothing(struct channel *channel, const struct row *row)
{
    struct roce request = tester_request(channel, row->number, 0, 0);

    request.rkey ^= 0xbad00;
    request.va = 0x10;
    tester_send(channel, &request, INTACT);
    prompt_packet(channel);
    finish(channel);
}

static void judge_nothing(struct judge *judge, const struct row *row)
{
    unsigned opcode = row->number == READ_REQUEST ? READ_RESPONSE_ONLY : ACKNOWLEDGE;

    judge_answers(judge, &(struct expected_packet){opcode, row->terms.tester_psn, ACK, .msn = 1}, 1);
    judge_rest(judge, 0);
}

/* ---- Repeated requests ---- */

/* The repeated request has different data, which the responder must not write. */
static void talk_duplicate(struct channel *channel, const struct row *row)
{
    struct roce request;

    dut_receive(channel, 1, 0, 16);
    dut_receive(channel, 2, 0, 16);
    request = ask(channel, row->number, 8);
    prompt_packet(channel);
    request.payload = payload_of(0x22);
    for (int i = 0; i < 2; i++) {
        tester_send(channel, &request, INTACT);
        prompt_packet(channel);
    }
    finish(channel);
}

static void judge_duplicate(struct judge *judge, const struct row *row)
{
    uint32_t psn = row->terms.tester_psn;
    const struct expected_packet expected[] = {{ACKNOWLEDGE, psn, ACK, .msn = 1},
                                               {ACKNOWLEDGE, psn, ACK, .msn = 1},
                                               {ACKNOWLEDGE, psn, ACK, .msn = 1}};

    judge_answers(judge, expected, 3);
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_SUCCESS}, row->number == SEND_ONLY);
    judge_rest(judge, 0x1111111111111111);
}

static void talk_read_again(struct channel *channel, const struct row *row)
{
    struct roce request = ask(channel, READ_REQUEST, 2 * IBTA_MTU);

    (void)row;
    prompt_packet(channel);
    prompt_packet(channel);
    tester_send(channel, &request, INTACT);
    prompt_packet(channel);
    prompt_packet(channel);
    request.psn++; /* repeats only the second half */
    request.va += IBTA_MTU;
    request.dma_length = IBTA_MTU;
    tester_send(channel, &request, INTACT);
    prompt_packet(channel);
    finish(channel);
}

static void judge_read_again(struct judge *judge, const struct row *row)
{
    uint32_t psn = row->terms.tester_psn;
    const struct expected_packet expected[] = {{READ_RESPONSE_FIRST, psn, ACK, .msn = 1},
                                               {READ_RESPONSE_LAST, psn + 1, ACK, .msn = 1},
                                               {READ_RESPONSE_FIRST, psn, ACK, .msn = 1},
                                               {READ_RESPONSE_LAST, psn + 1, ACK, .msn = 1},
                                               {READ_RESPONSE_ONLY, psn + 1, ACK, .msn = 1}};

    judge_answers(judge, expected, 5);
    judge_rest(judge, 0);
}

/* ---- Atomics ---- */

static void set_word(struct channel *channel, uint64_t value)
{
    __atomic_store_n((uint64_t *)(void *)channel->memory, value, __ATOMIC_SEQ_CST);
}

static struct roce ask_atomic(struct channel *channel, unsigned opcode, uint64_t swap_add, uint64_t compare)
{
    struct roce request = tester_request(channel, opcode, 0, 8);

    request.swap_add = swap_add;
    request.compare = compare;
    channel->next_psn++;
    tester_send(channel, &request, INTACT);
    prompt_packet(channel);
    return request;
}

/* An atomic that is sent three times, with others in between: it returns 100 each time, and is executed once. */
static void talk_atomic(struct channel *channel, const struct row *row)
{
    struct roce first;

    set_word(channel, 100);
    first = ask_atomic(channel, row->number, 7, 100);
    tester_send(channel, &first, INTACT);
    prompt_packet(channel);
    ask_atomic(channel, FETCH_ADD, 1000, 0);
    ask_atomic(channel, FETCH_ADD, 1000, 0);
    tester_send(channel, &first, INTACT);
    prompt_packet(channel);
    finish(channel);
}

static void judge_atomic(struct judge *judge, const struct row *row)
{
    uint32_t psn = row->terms.tester_psn;
    uint64_t after = row->number == FETCH_ADD ? 107 : 7;
    const struct expected_packet expected[] = {{ATOMIC_ACKNOWLEDGE, psn, ACK, .original = 100},
                                               {ATOMIC_ACKNOWLEDGE, psn, ACK, .original = 100},
                                               {ATOMIC_ACKNOWLEDGE, psn + 1, ACK, .original = after},
                                               {ATOMIC_ACKNOWLEDGE, psn + 2, ACK, .original = after + 1000},
                                               {ATOMIC_ACKNOWLEDGE, psn, ACK, .original = 100}};

    judge_answers(judge, expected, 5);
    judge_rest(judge, after + 2000);
}

/* A comparison that fails changes nothing, and neither does the repeated request, even if it would succeed by then. */
static void talk_swap_fails(struct channel *channel, const struct row *row)
{
    struct roce first;

    (void)row;
    set_word(channel, 100);
    first = ask_atomic(channel, COMPARE_SWAP, 7, 200);
    set_word(channel, 200);
    tester_send(channel, &first, INTACT);
    prompt_packet(channel);
    finish(channel);
}

static void judge_swap_fails(struct judge *judge, const struct row *row)
{
    uint32_t psn = row->terms.tester_psn;
    const struct expected_packet expected[] = {{ATOMIC_ACKNOWLEDGE, psn, ACK, .original = 100},
                                               {ATOMIC_ACKNOWLEDGE, psn, ACK, .original = 100}};

    judge_answers(judge, expected, 2);
    judge_rest(judge, 200);
}

/* ---- Out-of-order requests ---- */

/* Requests 1 and 2 arrive before 0: one NAK, for 0. Then all arrive in order. Then a new gap leads to a new NAK. */
static void talk_gap(struct channel *channel, const struct row *row)
{
    struct roce write = tester_request(channel, WRITE_ONLY, 0, 8);
    static const struct {
        uint8_t psn;
        bool answered;
    } order[] = {{1, true}, {2, false}, {0, true}, {1, true}, {2, true}, {4, true}, {3, true}};

    (void)row;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        write.psn = channel->next_psn + order[i].psn;
        tester_send(channel, &write, INTACT);
        if (order[i].answered)
            prompt_packet(channel);
        else
            linger_briefly(channel);
    }
    finish(channel);
}

static void judge_gap(struct judge *judge, const struct row *row)
{
    uint32_t psn = row->terms.tester_psn;
    const struct expected_packet expected[] = {{ACKNOWLEDGE, psn, SYNDROME_SEQUENCE, .msn = 0},
                                               {ACKNOWLEDGE, psn, ACK, .msn = 1},
                                               {ACKNOWLEDGE, psn + 1, ACK, .msn = 2},
                                               {ACKNOWLEDGE, psn + 2, ACK, .msn = 3},
                                               {ACKNOWLEDGE, psn + 3, SYNDROME_SEQUENCE, .msn = 3},
                                               {ACKNOWLEDGE, psn + 3, ACK, .msn = 4}};

    judge_answers(judge, expected, 6);
    judge_rest(judge, 0x1111111111111111);
}

/* ---- Receiver not ready ---- */

static void talk_not_ready(struct channel *channel, const struct row *row)
{
    struct roce request = ask(channel, row->number, 8);

    prompt_packet(channel);
    dut_receive(channel, 1, 0, 16);
    tester_send(channel, &request, INTACT);
    prompt_packet(channel);
    finish(channel);
}

static void judge_not_ready(struct judge *judge, const struct row *row)
{
    uint32_t psn = row->terms.tester_psn;
    const struct expected_packet expected[] = {
        {ACKNOWLEDGE, psn, SYNDROME_RNR | row->terms.min_rnr_timer, .msn = 0},
        {ACKNOWLEDGE, psn, ACK, .msn = 1}};

    judge_answers(judge, expected, 2);
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_SUCCESS}, 1);
    judge_form(judge);
    judge_note(judge, "state", IBV_QPS_RTS);
}

static void add_atomics(struct rows *rows)
{
    static const char asks[] = "work once, and answer the same again";

    rows_add(rows, asks, talk_atomic, judge_atomic, "FETCH ADD again, and after others")->number = FETCH_ADD;
    rows_add(rows, asks, talk_atomic, judge_atomic, "COMPARE SWAP again, and after others")->number =
        COMPARE_SWAP;
    rows_add(rows, asks, talk_swap_fails, judge_swap_fails, "COMPARE SWAP that fails, again");
}

void rows_answer(struct rows *rows)
{
    rows_add(rows, "acknowledge each, and count it", talk_four, judge_four, "four SENDs");
    rows_add(rows, "accept: no key is needed", talk_nothing, judge_nothing, "WRITE of nothing, wrong key")
        ->number = WRITE_ONLY;
    rows_add(rows, "accept: no key is needed", talk_nothing, judge_nothing, "READ of nothing, wrong key")
        ->number = READ_REQUEST;
    rows_add(rows, "acknowledge again, do nothing", talk_duplicate, judge_duplicate, "SEND again")->number =
        SEND_ONLY;
    rows_add(rows, "acknowledge again, do nothing", talk_duplicate, judge_duplicate, "WRITE again")->number =
        WRITE_ONLY;
    rows_add(rows, "answer again, or what is asked of it", talk_read_again, judge_read_again,
             "READ again, whole and half");
    add_atomics(rows);
    rows_add(rows, "NAK once for each gap", talk_gap, judge_gap, "PSNs too early");
    for (unsigned code = 0; code < 32; code += 31)
        for (unsigned i = 0; i < 2; i++) {
            struct row *row =
                rows_add(rows, "RNR NAK with its timer, then accept", talk_not_ready, judge_not_ready,
                         "%s without a receive, timer code %u", i ? "WRITE with immediate" : "SEND", code);

            row->number = i ? WRITE_ONLY_IMM : SEND_ONLY;
            row->terms.min_rnr_timer = (uint8_t)code;
        }
}
