/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * c09_142_01.c - C09_142_01 of the InfiniBand Test Specification 1.0.38: 9.7.6.1.3, outstanding request
 * time-out.
 *
 * The conversation follows the document step by step. The report prints the result of each step.
 */
#include <inttypes.h>
#include "c09_142_01.h"
#include "rows.h"

#define RETRIES 2
#define CODE 18
#define WORK 1

static void talk(struct channel *channel, const struct row *row)
{
    uint64_t timeout = ack_timeout(&row->terms);

    dut_post(channel, WORK, IBV_WR_RDMA_READ, IBTA_MTU); /* step 5 */
    for (unsigned i = 0; i <= RETRIES; i++)              /* step 6 */
        if (next_packet(channel, 5 * timeout) == NULL)   /* 6.1; 6.4: no response is ever sent */
            return;
    if (next_completion(channel, 5 * timeout) == NULL) /* step 10 */
        return;
    linger(channel, 4 * timeout); /* step 11: there is no second completion */
    dut_note_state(channel);
}

/* ---- The steps ---- */

struct step {
    const char *number, *says;
    void (*check)(struct judge *judge);
};

static uint32_t psn_of(const struct judge *judge)
{
    return judge->record->terms.dut_psn;
}

static void all_received(struct judge *judge)
{
    judge_form(judge);
    judge_count(judge, psn_of(judge), ROCE_NO_OPCODE, RETRIES + 1);
}

/* Checks that each transmission is one READ, and that the device sent no other packets. */
static void one_read_each(struct judge *judge)
{
    struct expected_packet expected[RETRIES + 1];

    for (unsigned i = 0; i <= RETRIES; i++)
        expected[i] = (struct expected_packet){READ_REQUEST, psn_of(judge), .syndrome = -1};
    judge_requests(judge, expected, RETRIES + 1);
    judge_same(judge, psn_of(judge));
}

/* The document demands intervals of "about" T_tr, so the resolution of a device's clock and a stopped CPU are no faults
 * here. The related cases check the exact bounds. */
static void intervals(struct judge *judge)
{
    judge_intervals(judge, psn_of(judge));
    if (judge->early_by > 0 &&
        judge->early_by <= ack_timeout(&judge->record->terms) / 64 + judge->record->stall) {
        judge->broken = RULE_NONE;
        judge->early_by = 0;
    }
}

static void retried(struct judge *judge)
{
    judge_count(judge, psn_of(judge), READ_REQUEST, RETRIES + 1);
}

static void completion(struct judge *judge)
{
    judge_completions(judge, &(struct expected_completion){WORK, IBV_WC_RETRY_EXC_ERR}, 1);
}

static void flushed(struct judge *judge)
{
    judge_quiet_after_error(judge);
    judge_note(judge, "state", IBV_QPS_ERR);
}

static const struct step steps[] = {
    {"6.1-6.2", "all packets were received and were valid", all_received},
    {"6.3-6.4", "each message was a single READ request, dropped in silence", one_read_each},
    {"6.5-6.6", "each retry, and the error, came about T_tr to 4 T_tr later", intervals},
    {"6.7, 8", "it was retried as often as the retry count says", retried},
    {"9-12", "exactly one completion, with status 12 (IBV_WC_RETRY_EXC_ERR)", completion},
    {"13", "nothing after it; the queue pair is in the error state", flushed},
};

#define STEPS (sizeof steps / sizeof *steps)

static void judge_steps(struct judge *judge, const struct row *row)
{
    (void)row;
    for (size_t i = 0; i < STEPS; i++)
        steps[i].check(judge);
}

void rows_c09_142_01(struct rows *rows)
{
    struct row *row = rows_add(rows, "retry a READ twice, then fail", talk, judge_steps, "C09_142_01");

    row->terms.timeout = CODE;
    row->terms.retry_cnt = RETRIES;
    row->measure = measure_intervals;
}

/* ---- The report ---- */

static void print_times(FILE *to, const struct record *record)
{
    const struct entry *last = NULL, *entry;

    for (unsigned n = 0; (entry = record_transmission(record, record->terms.dut_psn, n)) != NULL; n++) {
        if (last == NULL)
            fprintf(to, "          request:  opcode %02x, PSN %06x, R_Key %#x, VA %#" PRIx64 ", %u bytes\n",
                    entry->roce.opcode, entry->roce.psn, entry->roce.rkey, entry->roce.va,
                    entry->roce.dma_length);
        else
            fprintf(to, "          retry %u:  after %.6f s\n", n, (double)(entry->time - last->time) / 1e9);
        last = entry;
    }
    entry = record_error(record);
    if (last != NULL && entry != NULL)
        fprintf(to, "          error:    after %.6f s, status %d\n", (double)(entry->time - last->time) / 1e9,
                entry->wc.status);
}

bool c09_142_01_report(FILE *to, const struct record *record, const char *device)
{
    bool pass = true;

    fprintf(to, "InfiniBand Test Specification 1.0.38, C09_142_01: outstanding request time-out (9.7.6.1.3)\n");
    fprintf(to, "device under test: %s\n", device);
    fprintf(to, "  init 1-3  reliable connection, retry count %u, ACK time-out %u\n", record->terms.retry_cnt,
            record->terms.timeout);
    fprintf(to, "  4         T_tr = %.6f s\n", (double)ack_timeout(&record->terms) / 1e9);
    fprintf(to, "  5         one READ of the path MTU, %u bytes\n", IBTA_MTU);
    for (size_t i = 0; i < STEPS; i++) {
        struct judge judge = judge_new(record);

        steps[i].check(&judge);
        fprintf(to, "  %-8s  %s: %s%s\n", steps[i].number, judge.broken == RULE_NONE ? "ok" : "FAILED",
                steps[i].says, judge.broken == RULE_NONE ? "" : "; but:");
        if (judge.broken != RULE_NONE)
            fprintf(to, "            %s\n", judge.why);
        if (steps[i].check == intervals)
            print_times(to, record);
        pass = pass && judge.broken == RULE_NONE;
    }
    fprintf(to, "C09_142_01: %s\n", pass ? "PASS" : "FAIL");
    return pass;
}
