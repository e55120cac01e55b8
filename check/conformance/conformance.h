/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conformance.h - the conformance suite: a table of tests, and what reads it.
 *
 * A test is one row: what is called, what must come of it, where it is asked for, and a body that does it. The
 * list, the runner, the reports and TESTS.md all come from the rows. To add a test, add a row and a body to the
 * file of its function.
 *
 * Source: M. Renke's thesis on UNH EXS (2016), appendix A, sections 5.2 and 5.3.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <exs.h>

/* ---- The table ----------------------------------------------------------------------------------------- */

#define BLOCKING 1    /* row.modes: with EXS_BLOCK, or a call that always blocks */
#define NONBLOCKING 2 /* with an event queue */
#define BOTH (BLOCKING | NONBLOCKING)

enum origin {
    THESIS,        /* a numbered test of the thesis; the row's number is the thesis's, but for doubles */
    UNIMPLEMENTED, /* of the thesis's lists of unimplemented tests; numbered behind */
    OURS           /* this library's own promises */
};

struct trial;

struct row {
    int number;
    int expected;     /* errno, or 0 for success */
    const char *call; /* as text */
    unsigned modes;
    enum origin origin;
    void (*body)(struct trial *trial);
    const char *note; /* what was decided where the thesis leaves or needs a choice; NULL */
};

struct group { /* the tests of one function */
    const char *function;
    const char *section;             /* of appendix A; NULL: it does not have the function */
    const char *const *prerequisite; /* functions that must work, as the thesis names them; NULL at the end */
    const struct row *row;
    int rows;
};

#define ROWS(array) array, (int)(sizeof(array) / sizeof((array)[0]))

/* In the order of the thesis's section 3, each behind its prerequisites; NULL at the end (groups.c). */
extern const struct group *const groups[];
const struct group *group_find(const char *function);

/* ---- What the command line asked for (options.c) ------------------------------------------------------- */

struct options {
    bool list, markdown, verbose, nonblocking, tap, stop;
    bool serve;
    const char *address, *port, *log, *junit;
    const char *peer;             /* the machine of the peers; NULL = this one */
    const char *orders;           /* port, where the peers' machine takes orders */
    int limit;                    /* seconds for one test */
    const struct group *only[64]; /* functions; none = all */
    int functions;
    struct range {
        int first, last;
    } range[64]; /* test numbers; none = all */
    int ranges;
};

/* False when the program should end with *status now. */
bool options_parse(struct options *options, int argc, char **argv, int *status);
bool options_want(const struct options *options, const struct row *row);
bool options_want_group(const struct options *options, const struct group *group);
/* In this mode, does the row apply? */
bool row_applies(const struct row *row, bool nonblocking);

/* ---- Running (runner.c) and its outcome -------------------------------------------------------------------- */

struct verdict { /* of one test; written by the process of the test, in shared memory */
    bool reported;
    bool passed;
    int error; /* errno; 0 on success */
    char reason[200];
};

/* Run one row in a process of its own, under the time limit. */
void run_row(const struct options *options, const struct group *group, const struct row *row,
             struct verdict *verdict);

/* Be the machine of the peers of a run elsewhere (remote.c): returns when it can't, with an exit status. */
int remote_serve(const struct options *options);

/* ---- Reporting (report.c, document.c) -------------------------------------------------------------------- */

struct report;

struct report *report_open(const struct options *options); /* NULL after an error message */
void report_row(struct report *report, const struct group *group, const struct row *row,
                const struct verdict *verdict);
/* None of the group's tests was run, because of this. */
void report_not_run(struct report *report, const struct group *group, const struct row *row, const char *why);
/* Print the summary, close the files. The exit status. */
int report_close(struct report *report);

/* "EINVAL", or "OK_EXS_ACCEPT" for a row that expects success. */
const char *expected_name(const struct group *group, const struct row *row, char *buffer, size_t size);
void document_list(const struct options *options);
void document_markdown(void);

#endif
