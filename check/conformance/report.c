/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report.c - prints results: a line of seven fields for each test, to the log and (failures, or all) to standard
 * output; or TAP instead; and JUnit XML in addition. The output contains nothing that differs from run to run, so two
 * logs can be compared.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "conformance.h"

struct report {
    const struct options *options;
    FILE *log, *junit;
    const struct group *group;                /* the current group */
    int group_passed, group_failed;           /* tests of the group */
    int passed, failed, errors, not_run, ran; /* tests; errors: ended by a signal or the timeout */
};

static const char *mode_name(const struct report *report)
{
    return report->options->nonblocking ? "non-blocking" : "blocking";
}

static FILE *open_file(const char *path)
{
    FILE *file = fopen(path, "w");

    if (file == NULL)
        fprintf(stderr, "exs-conformance: can't write %s: %s: give another with -o or --junit\n", path,
                strerror(errno));
    return file;
}

struct report *report_open(const struct options *options)
{
    struct report *report = calloc(1, sizeof(*report));

    if (report == NULL)
        return NULL;
    report->options = options;
    report->log = open_file(options->log);
    report->junit = options->junit != NULL ? open_file(options->junit) : NULL;
    if (report->log == NULL || (options->junit != NULL && report->junit == NULL)) {
        if (report->log != NULL)
            fclose(report->log);
        free(report);
        return NULL;
    }
    if (report->junit != NULL)
        fprintf(report->junit,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"exs-conformance "
                "%s\">\n",
                mode_name(report));
    if (options->tap)
        puts("TAP version 13");
    return report;
}

/* Prints a line to the log and, if `aloud`, to standard output. */
static void say(struct report *report, bool aloud, const char *line)
{
    fprintf(report->log, "%s\n", line);
    if (report->options->tap)
        printf("# %s\n", line);
    else if (aloud)
        puts(line);
    fflush(stdout);
}

/* Prints the sums of a group, before the next group or at the end. */
static void tally(struct report *report, const struct group *next)
{
    char line[120];

    if (report->group != NULL && report->group != next && report->group_passed + report->group_failed > 0) {
        snprintf(line, sizeof(line), "%s: %d passed, %d failed", report->group->function, report->group_passed,
                 report->group_failed);
        say(report, report->options->verbose, line);
    }
    if (report->group != next)
        report->group_passed = report->group_failed = 0;
    report->group = next;
}

static void xml_text(FILE *file, const char *text)
{
    for (; *text != 0; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc(*text, file);
        }
    }
}

/* Prints a test as JUnit XML. kind: "failure" or "error", with the reason; or NULL if the test has passed. */
static void junit_case(struct report *report, const struct group *group, const struct row *row,
                       const char *kind, const char *why)
{
    if (report->junit == NULL)
        return;
    fprintf(report->junit, "<testcase classname=\"%s\" name=\"%d ", group->function, row->number);
    xml_text(report->junit, row->call);
    if (kind == NULL) {
        fputs("\"/>\n", report->junit);
        return;
    }
    fprintf(report->junit, "\"><%s message=\"", kind);
    xml_text(report->junit, why);
    fprintf(report->junit, "\"/></testcase>\n");
}

static void tap_line(struct report *report, bool passed, const struct group *group, const struct row *row,
                     const char *why)
{
    if (!report->options->tap)
        return;
    printf("%sok %d - %s %d: %s%s%s\n", passed ? "" : "not ", report->ran, group->function, row->number,
           row->call, passed ? "" : ": ", passed ? "" : why);
    fflush(stdout);
}

static bool is_error(const struct verdict *verdict)
{
    return strcmp(verdict->reason, "SEGFAULT") == 0 || strcmp(verdict->reason, "Time Out") == 0 ||
           !verdict->reported;
}

void report_row(struct report *report, const struct group *group, const struct row *row,
                const struct verdict *verdict)
{
    const char *kind = verdict->passed ? NULL : is_error(verdict) ? "error" : "failure";
    char line[600], name[40];

    tally(report, group);
    report->ran++;
    if (verdict->passed)
        report->passed++, report->group_passed++;
    else
        report->failed++, report->group_failed++, report->errors += is_error(verdict);
    snprintf(line, sizeof(line), "%d : %s : %s : %s : %s : %d : %s", row->number,
             expected_name(group, row, name, sizeof(name)), row->call, mode_name(report),
             verdict->passed ? "PASS" : "FAIL", verdict->error, verdict->reason);
    fprintf(report->log, "%s\n", line);
    if (!report->options->tap && (report->options->verbose || !verdict->passed))
        puts(line);
    fflush(stdout);
    tap_line(report, verdict->passed, group, row, verdict->reason);
    junit_case(report, group, row, kind, verdict->reason);
}

void report_not_run(struct report *report, const struct group *group, const struct row *row, const char *why)
{
    char line[400];

    if (report->group != group) {
        tally(report, group);
        snprintf(line, sizeof(line), "%s: not run: %s", group->function, why);
        say(report, true, line);
    }
    report->not_run++;
    report->ran++;
    tap_line(report, false, group, row, "not run");
    junit_case(report, group, row, "error", why);
}

static void summary(struct report *report)
{
    int good = report->ran > 0 ? report->passed * 100 / report->ran : 0;
    char line[200];

    if (report->options->tap)
        printf("1..%d\n", report->ran);
    if (report->not_run > 0)
        snprintf(line, sizeof(line), "%d passed, %d failed, %d not run", report->passed, report->failed,
                 report->not_run);
    else
        snprintf(line, sizeof(line), "%d passed, %d failed", report->passed, report->failed);
    say(report, true, line);
    snprintf(line, sizeof(line), "%d%%: Checks: %d, Failures: %d, Errors: %d", good, report->ran,
             report->failed - report->errors, report->errors + report->not_run);
    say(report, true, line);
}

int report_close(struct report *report)
{
    tally(report, NULL);
    summary(report);
    int status = report->ran > 0 && report->passed == report->ran ? 0 : 1;

    if (report->junit != NULL) {
        fputs("</testsuite>\n</testsuites>\n", report->junit);
        if (fclose(report->junit) != 0)
            status = 1;
    }
    if (fclose(report->log) != 0)
        status = 1;
    free(report);
    return status;
}
