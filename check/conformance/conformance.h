/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conformance.h - the conformance suite: a table of tests, and the functions that use it.
 *
 * A test is one row: a call, its expected result, the origin of the requirement, and a body that executes it. The list,
 * the runner, the reports and TESTS.md use the rows. To add a test, add a row and a body to the file of its function.
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

#define BLOCKING 1    /* in row.modes: with EXS_BLOCK, or a call that always blocks */
#define NONBLOCKING 2 /* in row.modes: with an event queue */
#define BOTH (BLOCKING | NONBLOCKING)

enum origin {
    THESIS,        /* a numbered test of the thesis; the row has the same number, except for duplicates */
    UNIMPLEMENTED, /* from the thesis's lists of unimplemented tests; the numbers follow those of THESIS */
    OURS           /* a requirement of this library only */
};

struct trial;

struct row {
    int number;
    int expected;     /* errno, or 0 for success */
    const char *call; /* as text */
    unsigned modes;
    enum origin origin;
    void (*body)(struct trial *trial);
    const char *note; /* the decision where the thesis is ambiguous or not followed; or NULL */
};

struct group { /* the tests of one function */
    const char *function;
    const char *section;             /* of appendix A; NULL: the function is not in the thesis */
    const char *const *prerequisite; /* functions that must work, as the thesis names them; ends with NULL */
    const struct row *row;
    int rows;
};

#define ROWS(array) array, (int)(sizeof(array) / sizeof((array)[0]))

/* In the order of the thesis's section 3: each group follows its prerequisites. Ends with NULL (groups.c). */
extern const struct group *const groups[];
const struct group *group_find(const char *function);

/* ---- Options of the command line (options.c) ----------------------------------------------------------- */

struct options {
    bool list, markdown, verbose, nonblocking, tap, stop;
    bool serve;
    const char *address, *port, *log, *junit;
    const char *peer;             /* host of the peers; NULL: this host */
    const char *orders;           /* port on which that host accepts orders */
    int limit;                    /* timeout of a test, seconds */
    const struct group *only[64]; /* selected functions; none: all */
    int functions;
    struct range {
        int first, last;
    } range[64]; /* selected numbers of tests; none: all */
    int ranges;
};

/* Parses the command line. Returns false if the program must exit with *status. */
bool options_parse(struct options *options, int argc, char **argv, int *status);
bool options_want(const struct options *options, const struct row *row);
bool options_want_group(const struct options *options, const struct group *group);
/* Whether the row applies to this mode. */
bool row_applies(const struct row *row, bool nonblocking);

/* ---- Running (runner.c) and its outcome -------------------------------------------------------------------- */

struct verdict { /* result of a test; written by the test's process, in shared memory */
    bool reported;
    bool passed;
    int error; /* errno; 0 on success */
    char reason[200];
};

/* Runs a row in a separate process, with a timeout. */
void run_row(const struct options *options, const struct group *group, const struct row *row,
             struct verdict *verdict);

/* Serves as the host of the peers for a run on another host (remote.c). Returns only on failure, an exit status. */
int remote_serve(const struct options *options);

/* ---- Reporting (report.c, document.c) -------------------------------------------------------------------- */

struct report;

/* Returns NULL after printing an error. */
struct report *report_open(const struct options *options);
void report_row(struct report *report, const struct group *group, const struct row *row,
                const struct verdict *verdict);
/* Reports a test of a group that was not run. why: the reason. */
void report_not_run(struct report *report, const struct group *group, const struct row *row, const char *why);
/* Prints the summary, and closes the files. Returns the exit status. */
int report_close(struct report *report);

/* Returns "EINVAL" for example, or "OK_EXS_ACCEPT" for a row that expects success. */
const char *expected_name(const struct group *group, const struct row *row, char *buffer, size_t size);
void document_list(const struct options *options);
void document_markdown(void);

#endif
