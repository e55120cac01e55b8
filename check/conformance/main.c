/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c - exs-conformance: runs the groups in order, each only if the functions that it needs work. */
#include <stdio.h>
#include <string.h>
#include "conformance.h"

enum health { UNKNOWN, WORKS, FAILS };

/* For each group: whether its first test that expects success has passed, and if not, why. */
static struct {
    enum health health;
    char why[260];
} state[64];

static int index_of(const struct group *group)
{
    int index = 0;

    while (groups[index] != group)
        index++;
    return index;
}

static const struct row *first_success(const struct group *group, bool nonblocking)
{
    for (int i = 0; i < group->rows; i++)
        if (group->row[i].expected == 0 && row_applies(&group->row[i], nonblocking))
            return &group->row[i];
    return NULL;
}

static void note_health(const struct options *options, const struct group *group, const struct row *row,
                        const struct verdict *verdict)
{
    int index = index_of(group);

    if (row != first_success(group, options->nonblocking))
        return;
    state[index].health = verdict->passed ? WORKS : FAILS;
    snprintf(state[index].why, sizeof(state[index].why), "%s does not work: its test %d: %s", group->function,
             row->number, verdict->reason);
}

/* Returns NULL, or the reason why the group cannot be run: a direct or indirect prerequisite does not work. */
static const char *obstacle(const struct options *options, const struct group *group)
{
    for (int i = 0; group->prerequisite[i] != NULL; i++) {
        const struct group *needed = group_find(group->prerequisite[i]);
        const char *deeper = obstacle(options, needed);
        int index = index_of(needed);

        if (deeper != NULL)
            return deeper;
        if (state[index].health == UNKNOWN) {
            const struct row *row = first_success(needed, options->nonblocking);
            struct verdict verdict;

            run_row(options, needed, row, &verdict);
            note_health(options, needed, row, &verdict);
        }
        if (state[index].health == FAILS)
            return state[index].why;
    }
    return NULL;
}

/* Runs the tests of a group. Returns false if the program must stop because of -x. */
static bool run_group(const struct options *options, const struct group *group, struct report *report)
{
    const char *why = obstacle(options, group);
    bool good = why == NULL;

    for (int i = 0; i < group->rows && (good || why != NULL || !options->stop); i++) {
        const struct row *row = &group->row[i];
        struct verdict verdict;

        if (!options_want(options, row) || !row_applies(row, options->nonblocking))
            continue;
        if (why != NULL) {
            report_not_run(report, group, row, why);
            continue;
        }
        run_row(options, group, row, &verdict);
        note_health(options, group, row, &verdict);
        report_row(report, group, row, &verdict);
        good &= verdict.passed;
    }
    return good || !options->stop;
}

int main(int argc, char **argv)
{
    struct options options;
    int status;

    if (!options_parse(&options, argc, argv, &status))
        return status;
    if (options.markdown) {
        document_markdown();
        return 0;
    }
    if (options.list) {
        document_list(&options);
        return 0;
    }
    if (options.serve)
        return remote_serve(&options);
    struct report *report = report_open(&options);

    if (report == NULL)
        return 2;
    for (int g = 0; groups[g] != NULL; g++)
        if (options_want_group(&options, groups[g]) && !run_group(&options, groups[g], report))
            break;
    return report_close(report);
}
