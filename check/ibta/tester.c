/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tester.c - the transport tester: runs all cases of the table with a device under test, and prints the report of
 * C09_142_01 and the table of results.
 */
#include <errno.h>
#include <getopt.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "c09_142_01.h"
#include "known.h"
#include "perform.h"

static const char usage[] =
    "usage: tester [-c PATTERN] [-l MS] [-v] virtual | udp | rdma DEVICE ADDRESS TESTER-ADDRESS TESTER-NETNS\n"
    "Tests a device's reliable connections against the InfiniBand specification.\n"
    "  virtual  the embedded device, on a virtual clock\n"
    "  udp      the embedded device, over its UDP link on this machine, in real time\n"
    "  rdma     a device of rdma-core; the tester is at TESTER-ADDRESS, in the network namespace of that name\n"
    "  -c       only the cases whose name matches\n"
    "  -l       by how much the machine may make a timer late, in milliseconds (60)\n"
    "  -v       every packet of a case that fails\n"
    "Ends with 1 when a case fails that is not known to.\n";

/* Time for which a CPU was stopped. Several such times may delay a response, and some are due in 0.27 s. */
#define STILL (50 * IBTA_MS)
#define AGAIN 3

struct choice {
    const char *pattern;
    bool verbose;
    unsigned long late; /* milliseconds; 0: the default of the bench */
    const char *device;
};

static void keep_matching(struct rows *rows, const char *pattern)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < rows->count; i++)
        if (fnmatch(pattern, rows->row[i].name, 0) == 0)
            rows->row[kept++] = rows->row[i];
    rows->count = kept;
}

/* ---- Printing ---- */

static void print_record(const struct record *record)
{
    static const char *const kinds[] = {"from device", "to device", "posted", "completion", "note"};

    for (unsigned i = 0; i < record->count; i++) {
        const struct entry *entry = record->entries[i];

        printf("      %12.6f ms  %-11s ", (double)(entry->time - record->entries[0]->time) / 1e6,
               kinds[entry->kind]);
        if (entry->kind == ENTRY_COMPLETION)
            printf("work %llu, status %d\n", (unsigned long long)entry->wc.wr_id, entry->wc.status);
        else if (entry->bytes == NULL)
            printf("%s %#llx\n", entry->name != NULL ? entry->name : "work", (unsigned long long)entry->value);
        else
            printf("opcode %02x, PSN %06x, syndrome %02x, message %u, %zu bytes%s\n", entry->roce.opcode,
                   entry->roce.psn, entry->roce.syndrome, entry->roce.msn, entry->length,
                   entry->sealed ? "" : ", wrong ICRC");
    }
}

/* Returns the text of known_difference(), or NULL if the case has passed or the fault is not known. */
static const char *known_why(const struct row *row, const struct outcome *outcome, const struct choice *choice)
{
    if (outcome->judge.broken == RULE_NONE)
        return NULL;
    return known_difference(choice->device, row->name, &outcome->judge);
}

/* Prints one case. Returns false if it failed and the fault is not known. */
static bool print_row(const struct row *row, const struct outcome *outcome, const struct choice *choice)
{
    bool holds = outcome->judge.broken == RULE_NONE;
    const char *known = known_why(row, outcome, choice);
    char measured[ROW_MEASURED] = "";

    if (row->measure != NULL)
        row->measure(outcome->record, row, measured);
    printf("%-7s  %-44s %-28s %s\n",
           holds           ? "PASS"
           : known != NULL ? "DIFFERS"
                           : "FAIL",
           row->name, measured, row->asks);
    if (!holds)
        printf("         it does not: %s\n", outcome->judge.why);
    if (known != NULL)
        printf("         who is right: %s\n", known);
    if (!holds && choice->verbose)
        print_record(outcome->record);
    return holds || known != NULL;
}

static unsigned print_table(const struct rows *rows, const struct outcome *outcomes,
                            const struct choice *choice, const char *name)
{
    unsigned failed = 0, differ = 0;

    printf("\nThe family, on: %s\n", name);
    printf("%-7s  %-44s %-28s %s\n", "verdict", "case", "measured", "the device must");
    for (unsigned i = 0; i < rows->count; i++) {
        failed += !print_row(&rows->row[i], &outcomes[i], choice);
        differ += outcomes[i].judge.broken != RULE_NONE;
    }
    printf("%u cases: %u pass, %u differ and are known to, %u fail\n", rows->count, rows->count - differ,
           differ - failed, failed);
    return failed;
}

/* ---- Running ---- */

static struct bench *open_bench(int count, char **words, const struct choice *choice)
{
    struct bench *bench = NULL;

    if (count == 1 && strcmp(words[0], "virtual") == 0)
        bench = bench_open_virtual();
    else if (count == 1 && strcmp(words[0], "udp") == 0)
        bench = bench_open_udp();
    else if (count == 5 && strcmp(words[0], "rdma") == 0)
        bench = bench_open_rdma(words[1], words[2], words[3], words[4]);
    else
        fputs(usage, stderr);
    if (bench == NULL)
        exit(2);
    if (choice->late > 0)
        bench->late = choice->late * IBTA_MS;
    return bench;
}

static uint64_t perform_in_time(struct bench *bench, const struct rows *rows, struct outcome *outcomes)
{
    uint64_t stall = perform_at_once(bench, rows, outcomes);

    printf("longest time that a processor of this machine stood still: %.1f ms\n", (double)stall / 1e6);
    return stall;
}

/* Returns the failed cases, and their indices among all cases. */
static struct rows failed_rows(const struct rows *rows, const struct outcome *outcomes,
                               const struct choice *choice, unsigned *places)
{
    struct rows failed = {.row = calloc(rows->count + 1, sizeof *failed.row)};

    if (failed.row == NULL)
        exit(2);
    for (unsigned i = 0; i < rows->count; i++) {
        if (outcomes[i].judge.broken == RULE_NONE || known_why(&rows->row[i], &outcomes[i], choice) != NULL)
            continue;
        printf("again: %s: %s\n", rows->row[i].name, outcomes[i].judge.why);
        places[failed.count] = i;
        failed.row[failed.count++] = rows->row[i];
    }
    return failed;
}

static void perform(int count, char **words, const struct rows *rows, struct outcome *outcomes,
                    const struct choice *choice, const char **name)
{
    struct bench *bench = open_bench(count, words, choice);
    struct outcome *again = calloc(rows->count + 1, sizeof *again);
    unsigned *places = calloc(rows->count + 1, sizeof *places);
    uint64_t stall;

    if (again == NULL || places == NULL)
        exit(2);
    *name = bench->name;
    if (strcmp(words[0], "virtual") == 0) {
        bench_close(bench);
        for (unsigned i = 0; i < rows->count; i++)
            perform_virtually(&rows->row[i], &outcomes[i]);
        stall = 0;
    } else {
        stall = perform_in_time(bench, rows, outcomes);
    }
    /* A case that failed while a CPU was stopped is repeated, because the tester may have responded too late. */
    for (int i = 0; i < AGAIN && stall > STILL; i++) {
        struct rows failed = failed_rows(rows, outcomes, choice, places);

        stall = failed.count == 0 ? 0 : perform_in_time(open_bench(count, words, choice), &failed, again);
        for (unsigned at = 0; at < failed.count; at++) {
            outcome_free(&outcomes[places[at]]);
            outcomes[places[at]] = again[at];
        }
        rows_free(&failed);
    }
    free(again);
    free(places);
}

static bool test(int count, char **words, const struct choice *choice)
{
    struct rows rows = rows_all();
    struct outcome *outcomes;
    unsigned failed = 0;
    const char *name;

    keep_matching(&rows, choice->pattern);
    outcomes = calloc(rows.count + 1, sizeof *outcomes);
    if (outcomes == NULL)
        exit(2);
    perform(count, words, &rows, outcomes, choice, &name);
    for (unsigned i = 0; i < rows.count; i++)
        if (strcmp(rows.row[i].name, "C09_142_01") == 0)
            failed += !c09_142_01_report(stdout, outcomes[i].record, name);
    failed += print_table(&rows, outcomes, choice, name);
    for (unsigned i = 0; i < rows.count; i++)
        outcome_free(&outcomes[i]);
    free(outcomes);
    rows_free(&rows);
    return failed == 0;
}

int main(int argc, char **argv)
{
    struct choice choice = {.pattern = "*"};
    int option;

    while ((option = getopt(argc, argv, "c:l:v")) != -1) {
        if (option == 'c')
            choice.pattern = optarg;
        else if (option == 'l')
            choice.late = strtoul(optarg, NULL, 10);
        else if (option == 'v')
            choice.verbose = true;
        else {
            fputs(usage, stderr);
            return 2;
        }
    }
    choice.device = argc - optind > 1 ? argv[optind + 1] : argc - optind > 0 ? argv[optind] : "";
    return test(argc - optind, argv + optind, &choice) ? 0 : 1;
}
