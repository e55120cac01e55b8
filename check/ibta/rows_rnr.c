/* SPDX-License-Identifier: BSD-2-Clause */
/* rows_rnr.c - requester: RNR NAKs. Checks how long and how often it waits, and that these retries have a separate
 * counter. */
#include <stdio.h>
#include "rows.h"

#define MANY 40 /* more than the maximum of any counter */

uint64_t rnr_time(unsigned code)
{
    static const uint32_t us[32] = {655360, 10,    20,    30,     40,     60,     80,     120,
                                    160,    240,   320,   480,    640,    960,    1280,   1920,
                                    2560,   3840,  5120,  7680,   10240,  15360,  20480,  30720,
                                    40960,  61440, 81920, 122880, 163840, 245760, 327680, 491520};

    return UINT64_C(1000) * us[code & 31];
}

static const struct entry *awaited(struct channel *channel, unsigned code)
{
    return next_packet(channel, channel->bench->patience + 4 * rnr_time(code));
}

static void finish(struct channel *channel)
{
    prompt_completion(channel);
    linger_briefly(channel);
    dut_note_state(channel);
}

/* ---- Time ---- */

static void talk_code(struct channel *channel, const struct row *row)
{
    dut_post(channel, 1, IBV_WR_SEND, 8);
    if (prompt_packet(channel) == NULL)
        return;
    tester_acknowledge(channel, row->terms.dut_psn, (uint8_t)(SYNDROME_RNR | row->number));
    if (awaited(channel, row->number) == NULL)
        return;
    tester_acknowledge(channel, row->terms.dut_psn, SYNDROME_ACK);
    finish(channel);
}

static const struct entry *refused(const struct record *record)
{
    unsigned at = 0;

    return record_next(record, ENTRY_TO_DUT, &at);
}

static void judge_code(struct judge *judge, const struct row *row)
{
    judge_form(judge);
    judge_count(judge, row->terms.dut_psn, SEND_ONLY, 2);
    judge_same(judge, row->terms.dut_psn);
    judge_pause(judge, refused(judge->record), record_transmission(judge->record, row->terms.dut_psn, 1),
                rnr_time(row->number), UINT64_MAX / 2);
    judge_completions(judge, &(struct expected_completion){1, IBV_WC_SUCCESS}, 1);
    judge_note(judge, "state", IBV_QPS_RTS);
}

static void measure_code(const struct record *record, const struct row *row, char text[ROW_MEASURED])
{
    const struct entry *from = refused(record), *to = record_transmission(record, row->terms.dut_psn, 1);

    if (from != NULL && to != NULL)
        snprintf(text, ROW_MEASURED, "%.3f ms of %.3f", (double)(to->time - from->time) / 1e6,
                 (double)rnr_time(row->number) / 1e6);
}

/* An ACK for the first request and an RNR NAK for the second arrive as one batch: the time starts at the RNR NAK. */
static void talk_one_breath(struct channel *channel, const struct row *row)
{
    uint32_t psn = row->terms.dut_psn;

    dut_post(channel, 1, IBV_WR_SEND, 8);
    dut_post(channel, 2, IBV_WR_SEND, 8);
    prompt_packet(channel);
    if (prompt_packet(channel) == NULL)
        return;
    tester_hold(channel);
    tester_acknowledge(channel, psn, SYNDROME_ACK);
    tester_acknowledge(channel, psn + 1, (uint8_t)(SYNDROME_RNR | row->number));
    tester_release(channel);
    if (awaited(channel, row->number) == NULL)
        return;
    tester_acknowledge(channel, psn + 1, SYNDROME_ACK);
    prompt_completion(channel);
    finish(channel);
}

static void judge_one_breath(struct judge *judge, const struct row *row)
{
    static const struct expected_completion expected[] = {{1, IBV_WC_SUCCESS}, {2, IBV_WC_SUCCESS}};
    unsigned at = 0;

    judge_form(judge);
    judge_count(judge, row->terms.dut_psn, SEND_ONLY, 1);
    judge_count(judge, row->terms.dut_psn + 1, SEND_ONLY, 2);
    judge_completions(judge, expected, 2);
    judge_note(judge, "state", IBV_QPS_RTS);
    record_next(judge->record, ENTRY_TO_DUT, &at);
    judge_pause(judge, record_next(judge->record, ENTRY_TO_DUT, &at),
                record_transmission(judge->record, row->terms.dut_psn + 1, 1), rnr_time(row->number),
                UINT64_MAX / 2);
}

/* ---- Number of retries ---- */

/* The tester sends row->number RNR NAKs, then an ACK unless row->data, an error, is expected. */
static void talk_count(struct channel *channel, const struct row *row)
{
    dut_post(channel, 1, IBV_WR_SEND, 8);
    for (unsigned i = 0; i < row->number; i++) {
        if (awaited(channel, 1) == NULL)
            return;
        tester_acknowledge(channel, row->terms.dut_psn, SYNDROME_RNR | 1);
    }
    if (row->data == NULL) {
        if (awaited(channel, 1) == NULL)
            return;
        tester_acknowledge(channel, row->terms.dut_psn, SYNDROME_ACK);
    }
    finish(channel);
}

/* row->data: the expected error, or NULL. */
static void judge_times(struct judge *judge, const struct row *row)
{
    const enum ibv_wc_status *error = row->data;
    enum ibv_wc_status status = error != NULL ? *error : IBV_WC_SUCCESS;

    judge_form(judge);
    judge_count(judge, row->terms.dut_psn, SEND_ONLY, row->number + (error == NULL));
    judge_completions(judge, &(struct expected_completion){1, status}, 1);
    if (error != NULL)
        judge_quiet_after_error(judge);
    judge_note(judge, "state", error != NULL ? IBV_QPS_ERR : IBV_QPS_RTS);
}

static void add_counts(struct rows *rows)
{
    static const enum ibv_wc_status error = IBV_WC_RNR_RETRY_EXC_ERR;
    struct row *row;

    for (uint8_t retries = 0; retries <= 6; retries++) {
        row = rows_add(rows, "try as often as the RNR retry count says, then fail", talk_count, judge_times,
                       "RNR retry count %u", retries);
        row->terms.rnr_retry = retries;
        row->number = retries + 1u;
        row->data = &error;
    }
    row = rows_add(rows, "try for ever", talk_count, judge_times, "RNR retry count 7");
    row->terms.rnr_retry = 7;
    row->number = MANY;
    row = rows_add(rows, "leave the retry count alone", talk_count, judge_times, "RNR NAKs are not retries");
    row->terms.retry_cnt = 0;
    row->terms.rnr_retry = 3;
    row->number = 3;
}

/* The tester does not respond as often as the retry counter permits, then sends an ACK. */
static void talk_silence(struct channel *channel, const struct row *row)
{
    dut_post(channel, 1, IBV_WR_SEND, 8);
    for (unsigned i = 0; i < row->number + 1; i++)
        if (next_packet(channel, channel->bench->patience + 5 * ack_timeout(&row->terms)) == NULL)
            return;
    tester_acknowledge(channel, row->terms.dut_psn, SYNDROME_ACK);
    finish(channel);
}

/* Each of four requests gets one RNR NAK. */
static void talk_refill(struct channel *channel, const struct row *row)
{
    for (uint32_t i = 0; i < 4; i++) {
        dut_post(channel, 1 + i, IBV_WR_SEND, 8);
        if (prompt_packet(channel) == NULL)
            return;
        tester_acknowledge(channel, row->terms.dut_psn + i, SYNDROME_RNR | 1);
        if (awaited(channel, 1) == NULL)
            return;
        tester_acknowledge(channel, row->terms.dut_psn + i, SYNDROME_ACK);
        prompt_completion(channel);
    }
    linger_briefly(channel);
    dut_note_state(channel);
}

static void judge_refill(struct judge *judge, const struct row *row)
{
    static const struct expected_completion expected[] = {
        {1, IBV_WC_SUCCESS}, {2, IBV_WC_SUCCESS}, {3, IBV_WC_SUCCESS}, {4, IBV_WC_SUCCESS}};

    judge_form(judge);
    for (uint32_t i = 0; i < 4; i++)
        judge_count(judge, row->terms.dut_psn + i, SEND_ONLY, 2);
    judge_completions(judge, expected, 4);
    judge_note(judge, "state", IBV_QPS_RTS);
}

void rows_rnr(struct rows *rows)
{
    struct row *row;

    for (unsigned code = 0; code < 32; code++) {
        row = rows_add(rows, "wait at least that long", talk_code, judge_code, "RNR NAK, timer code %u", code);
        row->number = code;
        row->measure = measure_code;
    }
    rows_add(rows, "wait from when it was refused", talk_one_breath, judge_one_breath,
             "ACK and RNR NAK in one breath")
        ->number = 8;
    add_counts(rows);
    row = rows_add(rows, "leave the RNR retry count alone", talk_silence, judge_times,
                   "time-outs are not RNR retries");
    row->terms.timeout = 19;
    row->terms.retry_cnt = 3;
    row->terms.rnr_retry = 0;
    row->number = 3;
    row =
        rows_add(rows, "begin to count anew", talk_refill, judge_refill, "success refills the RNR retry count");
    row->terms.rnr_retry = 1;
}
