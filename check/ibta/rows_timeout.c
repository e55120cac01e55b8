/* SPDX-License-Identifier: BSD-2-Clause */
/* rows_timeout.c - requester: no responses. Checks when and how often it retransmits, and its error at the end. */
#include "rows.h"

static const char asks[] = "ask again after T to 4 T, as often as the retry count says, then fail";

/* Returns a waiting time that is sufficient for a device which retransmits after 4 T or slightly later. */
static uint64_t limit(const struct terms *terms)
{
    return (terms->retry_cnt + 1u) * 5 * ack_timeout(terms) + 1000 * IBTA_MS;
}

struct silence {
    enum ibv_wr_opcode work;
    unsigned opcode; /* of the first packet */
    size_t length;
    const char *name;
};

static const struct silence read_once = {IBV_WR_RDMA_READ, READ_REQUEST, IBTA_MTU, "READ"};

static void talk_silence(struct channel *channel, const struct row *row)
{
    const struct silence *silence = row->data;

    dut_post(channel, 1, silence->work, silence->length);
    if (next_completion(channel, limit(&row->terms)) != NULL)
        linger(channel, 2 * ack_timeout(&row->terms));
    dut_note_state(channel);
}

static void judge_silence(struct judge *judge, const struct row *row)
{
    const struct silence *silence = row->data;

    judge_form(judge);
    judge_count(judge, row->terms.dut_psn, silence->opcode, row->terms.retry_cnt + 1u);
    judge_intervals(judge, row->terms.dut_psn);
    judge_same(judge, row->terms.dut_psn);
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_RETRY_EXC_ERR}, 1);
    judge_quiet_after_error(judge);
    judge_note(judge, "state", IBV_QPS_ERR);
}

static void add_codes(struct rows *rows)
{
    for (unsigned code = 8; code <= 18; code++)
        for (unsigned retries = 0; retries <= 6; retries++) {
            struct row *row = rows_add(rows, asks, talk_silence, judge_silence, "time-out %2u, retry count %u",
                                       code, retries);

            row->terms.timeout = (uint8_t)code;
            row->terms.retry_cnt = (uint8_t)retries;
            row->measure = measure_intervals;
            row->data = &read_once;
        }
}

static void add_works(struct rows *rows)
{
    static const struct silence works[] = {
        {IBV_WR_SEND, SEND_ONLY, 8, "SEND"},
        {IBV_WR_SEND_WITH_IMM, SEND_ONLY_IMM, 7, "SEND with immediate data"},
        {IBV_WR_SEND_WITH_INV, SEND_ONLY_INV, 7, "SEND with invalidate"},
        {IBV_WR_SEND, SEND_FIRST, 3 * IBTA_MTU, "SEND of three packets"},
        {IBV_WR_RDMA_WRITE, WRITE_ONLY, 8, "WRITE"},
        {IBV_WR_RDMA_WRITE, WRITE_FIRST, 3 * IBTA_MTU - 1, "WRITE of three packets"},
        {IBV_WR_RDMA_READ, READ_REQUEST, 3 * IBTA_MTU, "READ of three packets"},
        {IBV_WR_RDMA_READ, READ_REQUEST, 0, "READ of nothing"},
        {IBV_WR_ATOMIC_FETCH_AND_ADD, FETCH_ADD, 8, "FETCH ADD"},
        {IBV_WR_ATOMIC_CMP_AND_SWP, COMPARE_SWAP, 8, "COMPARE SWAP"},
    };

    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        struct row *row = rows_add(rows, asks, talk_silence, judge_silence, "unanswered %s", works[i].name);

        row->terms.timeout = 14;
        row->terms.retry_cnt = 2;
        row->measure = measure_intervals;
        row->data = &works[i];
    }
}

/* ---- Timeout 0: disabled ---- */

#define NEVER (8000 * IBTA_MS)

static void talk_never(struct channel *channel, const struct row *row)
{
    dut_post(channel, 1, IBV_WR_RDMA_READ, IBTA_MTU);
    prompt_packet(channel);
    linger(channel, NEVER);
    tester_respond(channel, READ_RESPONSE_ONLY, row->terms.dut_psn, IBTA_MTU);
    prompt_completion(channel);
    linger_briefly(channel);
}

static void judge_never(struct judge *judge, const struct row *row)
{
    unsigned at = 0, end = 0;

    judge_form(judge);
    judge_requests(judge, &(struct expected_packet){READ_REQUEST, row->terms.dut_psn, .syndrome = -1}, 1);
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_SUCCESS}, 1);
    judge_pause(judge, record_next(judge->record, ENTRY_POSTED, &at),
                record_next(judge->record, ENTRY_COMPLETION, &end), NEVER, UINT64_MAX / 2);
}

/* ---- Late responses ---- */

static void talk_after_error(struct channel *channel, const struct row *row)
{
    dut_post(channel, 1, (enum ibv_wr_opcode)row->number, IBTA_MTU);
    dut_post(channel, 2, (enum ibv_wr_opcode)row->number, IBTA_MTU);
    if (next_completion(channel, limit(&row->terms)) == NULL)
        return;
    prompt_completion(channel);
    for (uint32_t i = 0; i < 2; i++)
        if (row->number == IBV_WR_RDMA_READ)
            tester_respond(channel, READ_RESPONSE_ONLY, row->terms.dut_psn + i, IBTA_MTU);
        else
            tester_acknowledge(channel, row->terms.dut_psn + i, SYNDROME_ACK);
    linger_briefly(channel);
    dut_note_state(channel);
    dut_note_byte(channel, "memory", 0);
}

static void judge_after_error(struct judge *judge, const struct row *row)
{
    static const struct expected_completion expected[] = {{1, IBV_WC_RETRY_EXC_ERR}, {2, IBV_WC_WR_FLUSH_ERR}};

    judge_form(judge);
    judge_count(judge, row->terms.dut_psn, ROCE_NO_OPCODE, row->terms.retry_cnt + 1u);
    judge_completions(judge, expected, 2);
    judge_quiet_after_error(judge);
    judge_note(judge, "state", IBV_QPS_ERR);
    judge_note(judge, "memory", 0);
}

static void add_after_error(struct rows *rows, enum ibv_wr_opcode work, const char *name)
{
    struct row *row = rows_add(rows, "take no notice: each work completes once, the data go nowhere",
                               talk_after_error, judge_after_error, "answer to a %s after its error", name);

    row->terms.timeout = 14;
    row->terms.retry_cnt = 1;
    row->number = work;
}

/* The late responses arrive, and so do those to the retransmissions. */
static void talk_twice(struct channel *channel, const struct row *row)
{
    bool read = row->number == IBV_WR_RDMA_READ;
    uint32_t psn = row->terms.dut_psn;

    dut_post(channel, 1, (enum ibv_wr_opcode)row->number, IBTA_MTU);
    for (int i = 0; i < 3; i++)
        if (next_packet(channel, limit(&row->terms)) == NULL)
            return;
    for (int i = 0; i < 3; i++)
        if (read)
            tester_respond(channel, READ_RESPONSE_ONLY, psn, IBTA_MTU);
        else
            tester_acknowledge(channel, psn, SYNDROME_ACK);
    prompt_completion(channel);
    linger_briefly(channel);
    dut_note_state(channel);
}

static void judge_twice(struct judge *judge, const struct row *row)
{
    judge_form(judge);
    judge_count(judge, row->terms.dut_psn, ROCE_NO_OPCODE, 3);
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_SUCCESS}, 1);
    judge_note(judge, "state", IBV_QPS_RTS);
}

static void add_twice(struct rows *rows, enum ibv_wr_opcode work, const char *name)
{
    struct row *row =
        rows_add(rows, "complete once", talk_twice, judge_twice, "three answers to a %s sent thrice", name);

    row->terms.timeout = 18;
    row->terms.retry_cnt = 3;
    row->number = work;
}

void rows_timeout(struct rows *rows)
{
    struct row *row;

    add_codes(rows);
    add_works(rows);
    row = rows_add(rows, "wait for ever", talk_never, judge_never, "time-out 0");
    row->terms.timeout = 0;
    row->terms.retry_cnt = 1;
    add_after_error(rows, IBV_WR_SEND, "SEND");
    add_after_error(rows, IBV_WR_RDMA_READ, "READ");
    add_twice(rows, IBV_WR_SEND, "SEND");
    add_twice(rows, IBV_WR_RDMA_READ, "READ");
}
