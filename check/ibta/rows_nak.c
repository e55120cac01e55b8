/* SPDX-License-Identifier: BSD-2-Clause */
/* rows_nak.c - requester: NAKs, and responses that imply a loss. */
#include "rows.h"

/* Returns the maximum time of a step that must not wait for the timeout. */
static uint64_t at_once(const struct terms *terms)
{
    return ack_timeout(terms) / 4;
}

static const struct entry *sent_by_tester(const struct record *record, unsigned n)
{
    const struct entry *entry = NULL;
    unsigned at = 0;

    for (n++; n > 0; n--)
        entry = record_next(record, ENTRY_TO_DUT, &at);
    return entry;
}

static bool await_psn(struct channel *channel, uint32_t psn)
{
    const struct entry *entry;

    while ((entry = prompt_packet(channel)) != NULL)
        if (entry->roce.psn == roce_psn(psn))
            return true;
    return false;
}

static void finish(struct channel *channel, unsigned completions)
{
    while (completions-- > 0)
        prompt_completion(channel);
    linger_briefly(channel);
    dut_note_state(channel);
}

/* ---- Out of sequence ---- */

static void talk_sequence(struct channel *channel, const struct row *row)
{
    uint32_t psn = row->terms.dut_psn;

    dut_post(channel, 1, IBV_WR_RDMA_WRITE, 4 * IBTA_MTU);
    if (!await_psn(channel, psn + 3))
        return;
    tester_acknowledge(channel, psn + row->number, SYNDROME_SEQUENCE);
    if (!await_psn(channel, psn + 3))
        return;
    tester_acknowledge(channel, psn + 3, SYNDROME_ACK);
    finish(channel, 1);
}

static void judge_sequence(struct judge *judge, const struct row *row)
{
    uint32_t psn = row->terms.dut_psn;

    judge_form(judge);
    for (uint32_t i = 0; i < 4; i++)
        judge_count(judge, psn + i, ROCE_NO_OPCODE, i < row->number ? 1 : 2);
    judge_same(judge, psn + row->number);
    judge_pause(judge, sent_by_tester(judge->record, 0),
                record_transmission(judge->record, psn + row->number, 1), 0, at_once(&row->terms));
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_SUCCESS}, 1);
    judge_note(judge, "state", IBV_QPS_RTS);
}

/* The responder sends a NAK for the same PSN again and again. */
static void talk_stubborn(struct channel *channel, const struct row *row)
{
    dut_post(channel, 1, IBV_WR_SEND, 8);
    for (unsigned i = 0; i <= row->terms.retry_cnt && prompt_packet(channel) != NULL; i++)
        tester_acknowledge(channel, row->terms.dut_psn, SYNDROME_SEQUENCE);
    finish(channel, 1);
}

static void judge_stubborn(struct judge *judge, const struct row *row)
{
    judge_form(judge);
    judge_count(judge, row->terms.dut_psn, SEND_ONLY, row->terms.retry_cnt + 1u);
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_RETRY_EXC_ERR}, 1);
    judge_quiet_after_error(judge);
    judge_note(judge, "state", IBV_QPS_ERR);
}

/* ---- Fatal NAKs ---- */

struct refusal {
    uint8_t syndrome;
    enum ibv_wc_status status;
    const char *name;
};

static const struct refusal refusals[] = {
    {SYNDROME_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR, "invalid request"},
    {SYNDROME_ACCESS, IBV_WC_REM_ACCESS_ERR, "remote access error"},
    {SYNDROME_OPERATION, IBV_WC_REM_OP_ERR, "remote operational error"},
};

/* Three SENDs: a NAK for the second one acknowledges the first. */
static void talk_refusal(struct channel *channel, const struct row *row)
{
    const struct refusal *refusal = row->data;

    for (unsigned i = 1; i <= 3; i++)
        dut_post(channel, i, (enum ibv_wr_opcode)row->number, 8);
    if (!await_psn(channel, row->terms.dut_psn + 2))
        return;
    tester_acknowledge(channel, row->terms.dut_psn + 1, refusal->syndrome);
    finish(channel, 3);
}

static void judge_refusal(struct judge *judge, const struct row *row)
{
    const struct refusal *refusal = row->data;
    const struct expected_completion expected[] = {
        {1, IBV_WC_SUCCESS}, {2, refusal->status}, {3, IBV_WC_WR_FLUSH_ERR}};

    judge_form(judge);
    for (uint32_t i = 0; i < 3; i++)
        judge_count(judge, row->terms.dut_psn + i, ROCE_NO_OPCODE, 1);
    judge_completions(judge, expected, 3);
    judge_pause(judge, sent_by_tester(judge->record, 0), record_error(judge->record), 0, at_once(&row->terms));
    judge_quiet_after_error(judge);
    judge_note(judge, "state", IBV_QPS_ERR);
}

/* ---- Responses that imply a loss ---- */

/* Sends the responses to a READ request, without the packet at `skip`. */
static void serve_read(struct channel *channel, const struct roce *request, uint32_t skip)
{
    uint32_t packets = roce_packets(request->dma_length, IBTA_MTU);

    for (uint32_t i = 0; i < packets; i++) {
        bool first = i == 0, last = i + 1 == packets;
        unsigned opcode = first ? (last ? READ_RESPONSE_ONLY : READ_RESPONSE_FIRST)
                                : (last ? READ_RESPONSE_LAST : READ_RESPONSE_MIDDLE);
        uint32_t left = request->dma_length - i * IBTA_MTU;

        if (i != skip)
            tester_respond(channel, opcode, request->psn + i, left < IBTA_MTU ? left : IBTA_MTU);
    }
}

static void talk_lost_response(struct channel *channel, const struct row *row)
{
    const struct entry *request;

    dut_post(channel, 1, IBV_WR_RDMA_READ, 3 * IBTA_MTU);
    if ((request = prompt_packet(channel)) == NULL)
        return;
    serve_read(channel, &request->roce, row->number);
    if ((request = prompt_packet(channel)) == NULL)
        return;
    serve_read(channel, &request->roce, UINT32_MAX);
    finish(channel, 1);
    dut_note_byte(channel, "last byte", 3 * IBTA_MTU - 1);
}

/* The requester must repeat the READ from the missing packet, or from its beginning. */
static void judge_lost_response(struct judge *judge, const struct row *row)
{
    unsigned at = 0;
    const struct entry *again;

    judge_form(judge);
    record_next(judge->record, ENTRY_FROM_DUT, &at);
    again = record_next(judge->record, ENTRY_FROM_DUT, &at);
    judge_pause(judge, sent_by_tester(judge->record, row->number), again, 0, at_once(&row->terms));
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_SUCCESS}, 1);
    judge_note(judge, "state", IBV_QPS_RTS);
    judge_note(judge, "last byte", 0xd0);
}

/* The SEND after the READ is acknowledged, which implies that the READ's response was lost. */
static void talk_implied(struct channel *channel, const struct row *row)
{
    const struct entry *request;
    uint32_t psn = row->terms.dut_psn;

    dut_post(channel, 1, IBV_WR_RDMA_READ, IBTA_MTU);
    dut_post(channel, 2, IBV_WR_SEND, 8);
    if (!await_psn(channel, psn + 1))
        return;
    tester_acknowledge(channel, psn + 1, SYNDROME_ACK);
    if ((request = prompt_packet(channel)) == NULL)
        return;
    serve_read(channel, &request->roce, UINT32_MAX);
    if (await_psn(channel, psn + 1))
        tester_acknowledge(channel, psn + 1, SYNDROME_ACK);
    finish(channel, 2);
}

static void judge_implied(struct judge *judge, const struct row *row)
{
    static const struct expected_completion expected[] = {{1, IBV_WC_SUCCESS}, {2, IBV_WC_SUCCESS}};

    judge_form(judge);
    judge_count(judge, row->terms.dut_psn, READ_REQUEST, 2);
    judge_pause(judge, sent_by_tester(judge->record, 0),
                record_transmission(judge->record, row->terms.dut_psn, 1), 0, at_once(&row->terms));
    judge_completions(judge, expected, 2);
    judge_note(judge, "state", IBV_QPS_RTS);
}

/* The READ's own PSN is acknowledged, and its data arrive afterwards. The requester may repeat the READ or wait. */
static void talk_acknowledged_read(struct channel *channel, const struct row *row)
{
    const struct entry *request, *again;

    dut_post(channel, 1, IBV_WR_RDMA_READ, IBTA_MTU);
    if ((request = prompt_packet(channel)) == NULL)
        return;
    tester_acknowledge(channel, row->terms.dut_psn, SYNDROME_ACK);
    again = prompt_packet(channel);
    serve_read(channel, again != NULL ? &again->roce : &request->roce, UINT32_MAX);
    finish(channel, 1);
    dut_note_byte(channel, "last byte", IBTA_MTU - 1);
}

static void judge_acknowledged_read(struct judge *judge, const struct row *row)
{
    (void)row;
    judge_form(judge);
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_SUCCESS}, 1);
    judge_note(judge, "state", IBV_QPS_RTS);
    judge_note(judge, "last byte", 0xd0);
}

/* Retries because of an implied loss count like other retries. */
static void talk_implied_last(struct channel *channel, const struct row *row)
{
    dut_post(channel, 1, IBV_WR_RDMA_READ, IBTA_MTU);
    dut_post(channel, 2, IBV_WR_SEND, 8);
    if (!await_psn(channel, row->terms.dut_psn + 1))
        return;
    tester_acknowledge(channel, row->terms.dut_psn + 1, SYNDROME_ACK);
    finish(channel, 2);
}

static void judge_implied_last(struct judge *judge, const struct row *row)
{
    static const struct expected_completion expected[] = {{1, IBV_WC_RETRY_EXC_ERR}, {2, IBV_WC_WR_FLUSH_ERR}};

    judge_form(judge);
    judge_count(judge, row->terms.dut_psn, READ_REQUEST, 1);
    judge_completions(judge, expected, 2);
    judge_note(judge, "state", IBV_QPS_ERR);
}

/* ---- Invalid responses ---- */

struct wrong {
    unsigned opcode;
    size_t length;
    const char *name;
};

static const struct wrong wrongs[] = {
    {READ_RESPONSE_ONLY, IBTA_MTU - 4, "too little for a READ"},
    {READ_RESPONSE_ONLY, IBTA_MTU + 4, "too much for a READ"},
    {ATOMIC_ACKNOWLEDGE, 0, "an atomic's result for a READ"},
};

static void talk_wrong(struct channel *channel, const struct row *row)
{
    const struct wrong *wrong = row->data;

    dut_post(channel, 1, IBV_WR_RDMA_READ, IBTA_MTU);
    if (prompt_packet(channel) == NULL)
        return;
    if (wrong->opcode == ATOMIC_ACKNOWLEDGE)
        tester_result(channel, row->terms.dut_psn, 99);
    else
        tester_respond(channel, wrong->opcode, row->terms.dut_psn, wrong->length);
    finish(channel, 1);
    dut_note_byte(channel, "byte behind", IBTA_MTU);
}

static void judge_wrong(struct judge *judge, const struct row *row)
{
    (void)row;
    judge_form(judge);
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_BAD_RESP_ERR}, 1);
    judge_quiet_after_error(judge);
    judge_note(judge, "state", IBV_QPS_ERR);
    judge_note(judge, "byte behind", 0);
}

static void add_refusals(struct rows *rows)
{
    static const struct {
        enum ibv_wr_opcode work;
        const char *name;
    } works[] = {{IBV_WR_SEND, "SEND"}, {IBV_WR_RDMA_WRITE, "WRITE"}};

    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        for (size_t j = 0; j < 2; j++) {
            struct row *row = rows_add(rows, "fail at once, flush the rest", talk_refusal, judge_refusal,
                                       "%s refused: %s", works[j].name, refusals[i].name);

            row->number = works[j].work;
            row->data = &refusals[i];
        }
}

void rows_nak(struct rows *rows)
{
    for (unsigned i = 0; i < 4; i++)
        rows_add(rows, "ask again at once, from there", talk_sequence, judge_sequence, "NAK of packet %u of 4",
                 i)
            ->number = i;
    for (uint8_t retries = 0; retries <= 6; retries += 3)
        rows_add(rows, "count it as a retry, then fail", talk_stubborn, judge_stubborn,
                 "NAK of sequence for ever, retry count %u", retries)
            ->terms.retry_cnt = retries;
    add_refusals(rows);
    for (unsigned i = 0; i < 2; i++)
        rows_add(rows, "ask again at once", talk_lost_response, judge_lost_response,
                 "READ response %u of 3 is lost", i)
            ->number = i;
    rows_add(rows, "ask again at once", talk_implied, judge_implied, "ACK instead of a READ response");
    rows_add(rows, "not take it for the data", talk_acknowledged_read, judge_acknowledged_read,
             "ACK with the PSN of a READ");
    rows_add(rows, "count it as a retry, then fail", talk_implied_last, judge_implied_last,
             "ACK instead of a READ response, retry count 0")
        ->terms.retry_cnt = 0;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++)
        rows_add(rows, "fail: bad response", talk_wrong, judge_wrong, "answer: %s", wrongs[i].name)->data =
            &wrongs[i];
}
