/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lines.h - limits how many lines a server prints about its clients: a burst, then one a second. Further lines are
 * counted, and the count is printed every few seconds, so that a client can't fill a disk by failing.
 */
#ifndef COMMON_LINES_H
#define COMMON_LINES_H

#include <stdbool.h>

enum {
    LINES_BURST = 100,
    LINES_PERIOD = 10, /* seconds from one "N more" to the next */
};

/* The limit of one output. Owned by the server, used only by its loop's thread; initialized by lines_begin(). */
struct lines {
    int left;                 /* lines that may be printed now */
    unsigned long suppressed; /* suppressed lines that were not reported yet */
    int seconds;              /* since the last report, or since the first suppressed line */
};

struct lines lines_begin(void);
/* Whether a line may be printed; counts it. */
bool lines_take(struct lines *lines);
/* To be called once a second. Returns the number of suppressed lines if it is time to report it, else 0. */
unsigned long lines_second(struct lines *lines);
/* At the end of the program: returns the number of suppressed lines that were not reported. */
unsigned long lines_end(struct lines *lines);

#endif
