/* SPDX-License-Identifier: BSD-2-Clause */
/* rows_progress.c - requester: partial responses, and packets that are not responses to its requests. */
#include "rows.h"

#define SENDS 4

static uint64_t limit(const struct terms *terms)
{
    return 5 * ack_timeout(terms) + 1000 * IBTA_MS;
}

static void post_sends(struct channel *channel, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        dut_post(channel, 1 + i, IBV_WR_SEND, 8);
}

/* Waits for the n-th transmission of this PSN, and ignores earlier packets. */
static bool await_transmission(struct channel *channel, uint32_t psn, unsigned n)
{
    const struct entry *entry;

    while (n > 0) {
        entry = next_packet(channel, limit(&channel->record.terms));
        if (entry == NULL)
            return false;
        n -= entry->roce.psn == roce_psn(psn);
    }
    return true;
}

static void judge_all_sent(struct judge *judge, unsigned count)
{
    static const struct expected_completion expected[SENDS] = {
        {1, IBV_WC_SUCCESS}, {2, IBV_WC_SUCCESS}, {3, IBV_WC_SUCCESS}, {4, IBV_WC_SUCCESS}};

    judge_form(judge);
    judge_completions(judge, expected, count);
    judge_note(judge, "state", IBV_QPS_RTS);
}

/* ---- Progress resets the retry counter ---- */

static void talk_refill(struct channel *channel, const struct row *row)
{
    post_sends(channel, SENDS);
    for (uint32_t i = 0; i < SENDS; i++) {
        /* Each request is sent once, and again after each timeout. The tester acknowledges the oldest one only after
         * a retransmission. */
        if (!await_transmission(channel, row->terms.dut_psn + i, i == 0 ? 2 : 1))
            return;
        tester_acknowledge(channel, row->terms.dut_psn + i, SYNDROME_ACK);
    }
    for (uint32_t i = 0; i < SENDS; i++)
        prompt_completion(channel);
    linger_briefly(channel);
    dut_note_state(channel);
}

static void judge_refill(struct judge *judge, const struct row *row)
{
    (void)row;
    judge_all_sent(judge, SENDS);
}

/* One request after the other, each lost as often as permitted: in all more losses than the count, but not in
 * succession. */
static void talk_refill_each(struct channel *channel, const struct row *row)
{
    for (uint32_t i = 0; i < SENDS; i++) {
        dut_post(channel, 1 + i, IBV_WR_SEND, 8);
        if (!await_transmission(channel, row->terms.dut_psn + i, row->terms.retry_cnt + 1u))
            return;
        tester_acknowledge(channel, row->terms.dut_psn + i, SYNDROME_ACK);
        prompt_completion(channel);
    }
    linger_briefly(channel);
    dut_note_state(channel);
}

static void judge_refill_each(struct judge *judge, const struct row *row)
{
    for (uint32_t i = 0; i < SENDS; i++)
        judge_count(judge, row->terms.dut_psn + i, ROCE_NO_OPCODE, row->terms.retry_cnt + 1u);
    judge_all_sent(judge, SENDS);
}

/* A repeated acknowledgement is no progress. */
static void talk_no_refill(struct channel *channel, const struct row *row)
{
    uint32_t psn = row->terms.dut_psn;

    dut_post(channel, 1, IBV_WR_SEND, 8);
    prompt_packet(channel);
    tester_acknowledge(channel, psn, SYNDROME_ACK);
    prompt_completion(channel);
    dut_post(channel, 2, IBV_WR_SEND, 8);
    for (unsigned i = 0; i <= row->terms.retry_cnt; i++) {
        if (next_packet(channel, limit(&row->terms)) == NULL)
            return;
        tester_acknowledge(channel, psn, SYNDROME_ACK);
    }
    if (next_completion(channel, limit(&row->terms)) != NULL)
        linger(channel, 2 * ack_timeout(&row->terms));
}

static void judge_no_refill(struct judge *judge, const struct row *row)
{
    static const struct expected_completion expected[] = {{1, IBV_WC_SUCCESS}, {2, IBV_WC_RETRY_EXC_ERR}};

    judge_form(judge);
    judge_count(judge, row->terms.dut_psn, ROCE_NO_OPCODE, 1);
    judge_count(judge, row->terms.dut_psn + 1, ROCE_NO_OPCODE, row->terms.retry_cnt + 1u);
    judge_intervals(judge, row->terms.dut_psn + 1);
    judge_completions(judge, expected, 2);
    judge_quiet_after_error(judge);
}

/* ---- Partial acknowledgements ---- */

static void talk_partial(struct channel *channel, const struct row *row)
{
    uint32_t psn = row->terms.dut_psn;

    dut_post(channel, 1, IBV_WR_RDMA_WRITE, 4 * IBTA_MTU);
    if (!await_transmission(channel, psn + 3, 1))
        return;
    tester_acknowledge(channel, psn + 1, SYNDROME_ACK);
    if (!await_transmission(channel, psn + 3, 1))
        return;
    tester_acknowledge(channel, psn + 3, SYNDROME_ACK);
    prompt_completion(channel);
    linger_briefly(channel);
    dut_note_state(channel);
}

static void judge_partial(struct judge *judge, const struct row *row)
{
    for (uint32_t i = 0; i < 4; i++)
        judge_count(judge, row->terms.dut_psn + i, ROCE_NO_OPCODE, i < 2 ? 1 : 2);
    judge_same(judge, row->terms.dut_psn + 2);
    judge_same(judge, row->terms.dut_psn + 3);
    judge_all_sent(judge, 1);
}

static void talk_all_at_once(struct channel *channel, const struct row *row)
{
    post_sends(channel, SENDS);
    for (unsigned i = 0; i < SENDS; i++)
        if (prompt_packet(channel) == NULL)
            return;
    tester_acknowledge(channel, row->terms.dut_psn + SENDS - 1, SYNDROME_ACK);
    for (unsigned i = 0; i < SENDS; i++)
        prompt_completion(channel);
    linger_briefly(channel);
    dut_note_state(channel);
}

static void judge_all_at_once(struct judge *judge, const struct row *row)
{
    for (uint32_t i = 0; i < SENDS; i++)
        judge_count(judge, row->terms.dut_psn + i, SEND_ONLY, 1);
    judge_all_sent(judge, SENDS);
}

/* A message of the device: these packets, all of the path MTU except the last. */
struct message {
    enum ibv_wr_opcode work;
    size_t length;
    unsigned opcodes[3];
    const char *name;
};

static const struct message messages[] = {
    {IBV_WR_SEND, 2 * IBTA_MTU + 1, {SEND_FIRST, SEND_MIDDLE, SEND_LAST}, "SEND"},
    {IBV_WR_SEND_WITH_IMM, 3 * IBTA_MTU, {SEND_FIRST, SEND_MIDDLE, SEND_LAST_IMM}, "SEND with immediate data"},
    {IBV_WR_SEND_WITH_INV, 2 * IBTA_MTU + 3, {SEND_FIRST, SEND_MIDDLE, SEND_LAST_INV}, "SEND with invalidate"},
    {IBV_WR_RDMA_WRITE, 3 * IBTA_MTU, {WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST}, "WRITE"},
    {IBV_WR_RDMA_WRITE_WITH_IMM,
     2 * IBTA_MTU + 2,
     {WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST_IMM},
     "WRITE with immediate data"},
};

/* The ACKs arrive in the wrong order, which has the same effect as the last one alone. */
static void talk_message(struct channel *channel, const struct row *row)
{
    const struct message *message = row->data;

    dut_post(channel, 1, message->work, message->length);
    for (int i = 0; i < 3; i++)
        if (prompt_packet(channel) == NULL)
            return;
    tester_hold(channel);
    for (uint32_t i = 3; i-- > 0;)
        tester_acknowledge(channel, row->terms.dut_psn + i, SYNDROME_ACK);
    tester_release(channel);
    prompt_completion(channel);
    linger_briefly(channel);
    dut_note_state(channel);
}

static void judge_message(struct judge *judge, const struct row *row)
{
    const struct message *message = row->data;
    struct expected_packet expected[3];

    for (uint32_t i = 0; i < 3; i++) {
        expected[i] = (struct expected_packet){message->opcodes[i], row->terms.dut_psn + i, .syndrome = -1};
        judge_payload(judge, row->terms.dut_psn + i, i < 2 ? IBTA_MTU : message->length - 2 * IBTA_MTU);
    }
    judge_requests(judge, expected, 3);
    judge_all_sent(judge, 1);
}

/* ---- The timer ---- */

/* The first of two requests is acknowledged after three quarters of T. The second must be repeated T to 4 T after
 * that. */
static void talk_restart(struct channel *channel, const struct row *row)
{
    uint32_t psn = row->terms.dut_psn;

    post_sends(channel, 2);
    prompt_packet(channel);
    prompt_packet(channel);
    linger(channel, ack_timeout(&row->terms) * 3 / 4);
    tester_acknowledge(channel, psn, SYNDROME_ACK);
    if (next_packet(channel, limit(&row->terms)) == NULL)
        return;
    tester_acknowledge(channel, psn + 1, SYNDROME_ACK);
    prompt_completion(channel);
    prompt_completion(channel);
    linger_briefly(channel);
    dut_note_state(channel);
}

static void judge_restart(struct judge *judge, const struct row *row)
{
    uint64_t timeout = ack_timeout(&row->terms);
    unsigned at = 0;

    judge_count(judge, row->terms.dut_psn, ROCE_NO_OPCODE, 1);
    judge_pause(judge, record_next(judge->record, ENTRY_TO_DUT, &at),
                record_transmission(judge->record, row->terms.dut_psn + 1, 1), timeout, 4 * timeout);
    judge_all_sent(judge, 2);
}

/* A response after four fifths of T is in time. */
static void talk_slow(struct channel *channel, const struct row *row)
{
    post_sends(channel, 1);
    prompt_packet(channel);
    linger(channel, ack_timeout(&row->terms) * 4 / 5);
    tester_acknowledge(channel, row->terms.dut_psn, SYNDROME_ACK);
    prompt_completion(channel);
    linger(channel, ack_timeout(&row->terms));
    dut_note_state(channel);
}

static void judge_slow(struct judge *judge, const struct row *row)
{
    judge_requests(judge, &(struct expected_packet){SEND_ONLY, row->terms.dut_psn, .syndrome = -1}, 1);
    judge_all_sent(judge, 1);
}

/* ---- Packets that are no responses ---- */

static void talk_no_answer(struct channel *channel, const struct row *row)
{
    struct roce answer = {.opcode = ACKNOWLEDGE, .syndrome = SYNDROME_ACK, .psn = row->terms.dut_psn};

    post_sends(channel, 1);
    prompt_packet(channel);
    if (row->number == INTACT)
        answer.psn += 100; /* of a request that was never sent */
    tester_send(channel, &answer, (enum damage)row->number);
    if (next_packet(channel, limit(&row->terms)) == NULL)
        return;
    tester_acknowledge(channel, row->terms.dut_psn, SYNDROME_ACK);
    prompt_completion(channel);
    linger_briefly(channel);
    dut_note_state(channel);
}

static void judge_no_answer(struct judge *judge, const struct row *row)
{
    uint64_t timeout = ack_timeout(&row->terms);

    judge_count(judge, row->terms.dut_psn, ROCE_NO_OPCODE, 2);
    judge_pause(judge, record_transmission(judge->record, row->terms.dut_psn, 0),
                record_transmission(judge->record, row->terms.dut_psn, 1), timeout, 4 * timeout);
    judge_all_sent(judge, 1);
}

static void add_no_answers(struct rows *rows)
{
    static const struct {
        enum damage damage;
        const char *name;
    } kinds[] = {{INTACT, "a PSN never sent"},
                 {BAD_CHECK, "a wrong ICRC"},
                 {BAD_PKEY, "a wrong P_Key"},
                 {BAD_VERSION, "a wrong version"},
                 {BAD_QPN, "a wrong queue pair"}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct row *row = rows_add(rows, "take no notice, and ask again in time", talk_no_answer,
                                   judge_no_answer, "ACK with %s", kinds[i].name);

        row->terms.timeout = 16;
        row->number = kinds[i].damage;
    }
}

static void add(struct rows *rows, const char *asks, void (*talk)(struct channel *, const struct row *),
                void (*judge)(struct judge *, const struct row *), uint8_t timeout, uint8_t retries,
                const char *name)
{
    struct row *row = rows_add(rows, asks, talk, judge, "%s", name);

    row->terms.timeout = timeout;
    row->terms.retry_cnt = retries;
}

void rows_progress(struct rows *rows)
{
    add(rows, "begin to count anew", talk_refill, judge_refill, 18, 1, "progress refills the retry count");
    add(rows, "begin to count anew", talk_refill_each, judge_refill_each, 18, 2,
        "success refills the retry count");
    add(rows, "not count anew", talk_no_refill, judge_no_refill, 17, 2, "an old ACK refills nothing");
    add(rows, "ask again for what is not acknowledged", talk_partial, judge_partial, 18, 3, "ACK of a part");
    add(rows, "complete all that is before", talk_all_at_once, judge_all_at_once, 19, 3, "one ACK for four");
    add(rows, "run the timer anew", talk_restart, judge_restart, 20, 3, "an ACK restarts the timer");
    add(rows, "wait", talk_slow, judge_slow, 20, 3, "an ACK just in time");
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
        rows_add(rows, "send it in full packets, and complete once", talk_message, judge_message,
                 "%s of three packets, ACKs reversed", messages[i].name)
            ->data = &messages[i];
    add_no_answers(rows);
}
