/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ibta.c - all cases of the InfiniBand transport tester, run on the software device and a virtual clock. And a
 * test of the tester's judge: records of correct conversations are changed, each in one way, and must then be rejected
 * for that.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "check/support/endpoints.h"
#include "check/ibta/perform.h"

static struct rows rows;

static const struct row *row_named(const char *name)
{
    for (unsigned i = 0; i < rows.count; i++)
        if (strcmp(rows.row[i].name, name) == 0)
            return &rows.row[i];
    ck_abort_msg("there is no case '%s'", name);
}

static struct judge judged(const struct row *row, const struct record *record)
{
    struct judge judge = judge_new(record);

    row->judge(&judge, row);
    return judge;
}

START_TEST(holds)
{
    struct outcome outcome;

    perform_virtually(&rows.row[_i], &outcome);
    ck_assert_msg(outcome.judge.broken == RULE_NONE, "%s: must %s; %s", rows.row[_i].name, rows.row[_i].asks,
                  outcome.judge.why);
    outcome_free(&outcome);
}
END_TEST

/* ---- No case passes without a correct device ---- */

/* A device that sends nothing. */
START_TEST(silence_is_rejected)
{
    struct outcome outcome;

    perform_virtually(&rows.row[_i], &outcome);
    for (unsigned i = outcome.record->count; i-- > 0;) {
        enum entry_kind kind = outcome.record->entries[i]->kind;

        if (kind == ENTRY_FROM_DUT || kind == ENTRY_COMPLETION || kind == ENTRY_NOTE)
            record_remove(outcome.record, i);
    }
    ck_assert_msg(judged(&rows.row[_i], outcome.record).broken != RULE_NONE, "%s", rows.row[_i].name);
    outcome_free(&outcome);
}
END_TEST

/* A device whose queue pair ends in another state, in the cases that query it. */
START_TEST(wrong_state_is_rejected)
{
    struct outcome outcome;
    struct entry *state;

    perform_virtually(&rows.row[_i], &outcome);
    state = (struct entry *)(uintptr_t)record_note_of(outcome.record, "state");
    if (state != NULL) {
        state->value = IBV_QPS_SQD;
        ck_assert_int_eq(judged(&rows.row[_i], outcome.record).broken, RULE_NOTE);
    }
    outcome_free(&outcome);
}
END_TEST

/* ---- Each rule ---- */

/* Returns the n-th entry of this kind, counted from the end if n is negative. */
static struct entry *pick(struct record *record, enum entry_kind kind, int n)
{
    for (int i = 0; i < (int)record->count; i++) {
        struct entry *entry = record->entries[n < 0 ? (int)record->count - 1 - i : i];

        if (entry->kind == kind && (n < 0 ? ++n == 0 : n-- == 0))
            return entry;
    }
    ck_abort_msg("the record has no such entry");
}

static void change_byte(struct entry *entry, size_t at, uint8_t bits)
{
    entry->bytes[at] ^= bits;
    entry->readable = roce_read(&entry->roce, entry->bytes, entry->length);
}

static void drop(struct record *record, const struct entry *entry)
{
    for (unsigned i = 0; i < record->count; i++)
        if (record->entries[i] == entry) {
            record_remove(record, i);
            return;
        }
}

static void repeat(struct record *record, enum entry_kind kind, int n, uint64_t time)
{
    const struct entry *entry = pick(record, kind, n);

    if (kind == ENTRY_COMPLETION)
        record_event(record, kind, time)->wc = entry->wc;
    else
        record_packet(record, kind, time, entry->bytes, entry->length, entry->sealed);
}

static uint64_t end_of(const struct record *record)
{
    return record->entries[record->count - 1]->time;
}

static void bad_check(struct record *record)
{
    pick(record, ENTRY_FROM_DUT, 0)->sealed = false;
}

static void bad_version(struct record *record)
{
    change_byte(pick(record, ENTRY_FROM_DUT, 0), 1, 1);
}

static void bad_pkey(struct record *record)
{
    change_byte(pick(record, ENTRY_FROM_DUT, 0), 3, 1);
}

static void bad_qpn(struct record *record)
{
    change_byte(pick(record, ENTRY_FROM_DUT, 0), 7, 1);
}

static void bad_reserved(struct record *record)
{
    change_byte(pick(record, ENTRY_FROM_DUT, 0), 8, 1);
}

static void bad_opcode(struct record *record)
{
    change_byte(pick(record, ENTRY_FROM_DUT, 0), 0, 0x40);
}

static void bad_pad(struct record *record)
{
    struct entry *entry = pick(record, ENTRY_FROM_DUT, 0);

    change_byte(entry, entry->length - 1, 1);
}

static void short_packet(struct record *record)
{
    struct entry *entry = pick(record, ENTRY_FROM_DUT, 0);

    entry->length--;
    change_byte(entry, 1, 0);
}

static void retry_missing(struct record *record)
{
    drop(record, pick(record, ENTRY_FROM_DUT, -1));
}

static void retry_too_many(struct record *record)
{
    repeat(record, ENTRY_FROM_DUT, 0, end_of(record));
}

static void retry_early(struct record *record)
{
    pick(record, ENTRY_FROM_DUT, 1)->time -= ack_timeout(&record->terms) / 2;
}

static void last_retry_early(struct record *record)
{
    pick(record, ENTRY_FROM_DUT, -1)->time -= ack_timeout(&record->terms) / 2;
}

static void retry_late(struct record *record)
{
    pick(record, ENTRY_FROM_DUT, -1)->time += 4 * ack_timeout(&record->terms);
    pick(record, ENTRY_COMPLETION, 0)->time += 4 * ack_timeout(&record->terms);
    pick(record, ENTRY_NOTE, 0)->time += 4 * ack_timeout(&record->terms);
}

static void error_early(struct record *record)
{
    pick(record, ENTRY_COMPLETION, 0)->time -= ack_timeout(&record->terms) / 1000;
}

static void error_late(struct record *record)
{
    pick(record, ENTRY_COMPLETION, 0)->time += 4 * ack_timeout(&record->terms);
}

static void repeat_early(struct record *record)
{
    pick(record, ENTRY_FROM_DUT, 1)->time -= rnr_time(12) / 2;
}

static void repeat_late(struct record *record)
{
    pick(record, ENTRY_FROM_DUT, -1)->time += ack_timeout(&record->terms);
}

static void another_request(struct record *record)
{
    /* A byte of the RETH's address, or of the payload. */
    change_byte(pick(record, ENTRY_FROM_DUT, -1), ROCE_BTH + 7, 1);
}

static void another_psn(struct record *record)
{
    change_byte(pick(record, ENTRY_FROM_DUT, 0), 11, 1);
}

static void another_syndrome(struct record *record)
{
    change_byte(pick(record, ENTRY_FROM_DUT, 0), ROCE_BTH, 0x60);
}

static void another_message(struct record *record)
{
    change_byte(pick(record, ENTRY_FROM_DUT, -1), ROCE_BTH + 3, 1);
}

static void another_result(struct record *record)
{
    change_byte(pick(record, ENTRY_FROM_DUT, 1), ROCE_BTH + ROCE_AETH + 7, 7);
}

static void another_length(struct record *record)
{
    struct entry *entry = pick(record, ENTRY_FROM_DUT, -1);

    entry->length -= 4;
    change_byte(entry, 1, 0);
}

static void answer_missing(struct record *record)
{
    drop(record, pick(record, ENTRY_FROM_DUT, 0));
}

static void completion_missing(struct record *record)
{
    drop(record, pick(record, ENTRY_COMPLETION, 0));
}

static void completion_twice(struct record *record)
{
    repeat(record, ENTRY_COMPLETION, 0, end_of(record));
}

static void another_status(struct record *record)
{
    pick(record, ENTRY_COMPLETION, 0)->wc.status = IBV_WC_RNR_RETRY_EXC_ERR;
}

static void another_work(struct record *record)
{
    pick(record, ENTRY_COMPLETION, 0)->wc.wr_id++;
}

static void no_error(struct record *record)
{
    pick(record, ENTRY_COMPLETION, 0)->wc.status = IBV_WC_SUCCESS;
}

/* A packet that is not a request, so that no other rule applies to it. */
static void word_after_error(struct record *record)
{
    static const uint8_t ack[] = {ACKNOWLEDGE, 0, 0xff, 0xff,         0, 0x5e, 0x50, 0, 0,
                                  0,           0, 0,    SYNDROME_ACK, 0, 0,    0};

    record_packet(record, ENTRY_FROM_DUT, end_of(record), ack, sizeof ack, true);
}

static void another_note(struct record *record)
{
    pick(record, ENTRY_NOTE, -1)->value++;
}

static const struct {
    const char *row;
    void (*spoil)(struct record *record);
    enum rule rule;
} spoilings[] = {
    {"C09_142_01", bad_check, RULE_FORM},
    {"C09_142_01", bad_version, RULE_FORM},
    {"C09_142_01", bad_pkey, RULE_FORM},
    {"C09_142_01", bad_qpn, RULE_FORM},
    {"C09_142_01", bad_reserved, RULE_FORM},
    {"C09_142_01", bad_opcode, RULE_FORM},
    {"C09_142_01", short_packet, RULE_FORM},
    {"unanswered SEND with immediate data", bad_pad, RULE_FORM},
    {"C09_142_01", retry_missing, RULE_COUNT},
    {"C09_142_01", retry_too_many, RULE_COUNT},
    {"C09_142_01", retry_early, RULE_INTERVAL},
    {"C09_142_01", retry_late, RULE_INTERVAL},
    {"time-out 18, retry count 2", error_early, RULE_INTERVAL},
    {"C09_142_01", error_late, RULE_INTERVAL},
    {"C09_142_01", another_request, RULE_SAME},
    {"C09_142_01", completion_twice, RULE_COMPLETIONS},
    {"C09_142_01", another_status, RULE_COMPLETIONS},
    {"C09_142_01", another_work, RULE_COMPLETIONS},
    {"C09_142_01", word_after_error, RULE_QUIET},
    {"C09_142_01", another_note, RULE_NOTE},
    {"time-out 12, retry count 3", no_error, RULE_INTERVAL},
    {"time-out 12, retry count 3", retry_early, RULE_INTERVAL},
    {"time-out 12, retry count 0", retry_too_many, RULE_COUNT},
    {"time-out 0", retry_too_many, RULE_REQUESTS},
    {"time-out 0", another_psn, RULE_REQUESTS},
    {"WRITE of three packets, ACKs reversed", another_length, RULE_REQUESTS},
    {"WRITE of three packets, ACKs reversed", another_psn, RULE_REQUESTS},
    {"ACK and RNR NAK in one breath", last_retry_early, RULE_PAUSE},
    {"unanswered WRITE of three packets", word_after_error, RULE_QUIET},
    {"answer to a READ after its error", another_note, RULE_NOTE},
    {"answer to a SEND after its error", completion_twice, RULE_COMPLETIONS},
    {"one ACK for four", completion_missing, RULE_COMPLETIONS},
    {"an old ACK refills nothing", last_retry_early, RULE_INTERVAL},
    {"an ACK restarts the timer", last_retry_early, RULE_PAUSE},
    {"NAK of packet 3 of 4", repeat_late, RULE_PAUSE},
    {"RNR NAK, timer code 12", repeat_early, RULE_PAUSE},
    {"RNR NAK, timer code 12", another_request, RULE_SAME},
    {"RNR retry count 3", retry_missing, RULE_COUNT},
    {"four SENDs", another_psn, RULE_ANSWERS},
    {"four SENDs", another_syndrome, RULE_ANSWERS},
    {"four SENDs", another_message, RULE_ANSWERS},
    {"four SENDs", answer_missing, RULE_ANSWERS},
    {"four SENDs", retry_too_many, RULE_ANSWERS},
    {"SEND again", completion_twice, RULE_COMPLETIONS},
    {"FETCH ADD again, and after others", another_result, RULE_ANSWERS},
    {"FETCH ADD again, and after others", another_note, RULE_NOTE},
    {"WRITE with a wrong key", another_syndrome, RULE_ANSWERS},
    {"SEND of more than the receive holds", another_status, RULE_COMPLETIONS},
    {"SEND with a wrong P_Key", retry_too_many, RULE_ANSWERS},
};

#define SPOILINGS ((int)(sizeof spoilings / sizeof *spoilings))

START_TEST(spoiled_is_rejected)
{
    const struct row *row = row_named(spoilings[_i].row);
    struct outcome outcome;
    struct record *spoiled;
    struct judge judge;

    perform_virtually(row, &outcome);
    ck_assert_int_eq(outcome.judge.broken, RULE_NONE);
    spoiled = record_copy(outcome.record);
    spoilings[_i].spoil(spoiled);
    judge = judged(row, spoiled);
    ck_assert_msg(judge.broken == spoilings[_i].rule, "%s: rule %s, not %s: %s", row->name,
                  rule_name(judge.broken), rule_name(spoilings[_i].rule), judge.why);
    record_free(spoiled);
    free(spoiled);
    outcome_free(&outcome);
}
END_TEST

START_TEST(every_rule_is_there)
{
    bool seen[RULES] = {false};

    for (int i = 0; i < SPOILINGS; i++)
        seen[spoilings[i].rule] = true;
    for (int rule = RULE_NONE + 1; rule < RULES; rule++)
        ck_assert_msg(seen[rule], "nothing shows that rule %s can be broken", rule_name((enum rule)rule));
}
END_TEST

/* If there are several faults, a timeout that is too short is the least of them, and the shortest one is reported. */
START_TEST(early_is_the_least_fault)
{
    const struct row *row = row_named("C09_142_01");
    struct outcome outcome;
    struct judge judge;

    perform_virtually(row, &outcome);
    retry_early(outcome.record);
    judge = judged(row, outcome.record);
    ck_assert_uint_gt(judge.early_by, ack_timeout(&row->terms) / 4);
    another_status(outcome.record);
    judge = judged(row, outcome.record);
    ck_assert_int_eq(judge.broken, RULE_COMPLETIONS);
    ck_assert_uint_eq(judge.early_by, 0);
    outcome_free(&outcome);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("transport: conformance");
    TCase *table = new_case(suite, "table"), *judge = new_case(suite, "judge");

    rows = rows_all();
    tcase_set_timeout(table, 20);
    tcase_add_loop_test(table, holds, 0, (int)rows.count);
    tcase_set_timeout(judge, 20);
    tcase_add_loop_test(judge, silence_is_rejected, 0, (int)rows.count);
    tcase_add_loop_test(judge, wrong_state_is_rejected, 0, (int)rows.count);
    tcase_add_loop_test(judge, spoiled_is_rejected, 0, SPOILINGS);
    tcase_add_test(judge, every_rule_is_there);
    tcase_add_test(judge, early_is_the_least_fault);
    return suite;
}

int main(void)
{
    int failed = run_suite(suite());

    rows_free(&rows);
    return failed;
}
