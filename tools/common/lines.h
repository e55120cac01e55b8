/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lines.h - a rate limit for lines that a server prints about its clients: a burst, then one a second. Further lines
 * are counted, and the server prints the count every few seconds. A client therefore cannot fill a disk by failing.
 */
#ifndef COMMON_LINES_H
#define COMMON_LINES_H

#include <stdbool.h>

enum {
    LINES_BURST = 100,
    LINES_PERIOD = 10, /* seconds between two reports of suppressed lines */
};

/* The limit of one output. Owned by the server, used by its loop's thread only; initialized by lines_begin(). */
struct lines {
    int left;                 /* lines that may be printed now */
    unsigned long suppressed; /* suppressed lines since the last report */
    int seconds;              /* since the last report, or since the first suppressed line */
};

struct lines lines_begin(void);
/* Returns whether a line may be printed, and counts it. */
bool lines_take(struct lines *lines);
/* To be called once a second. Returns the number of suppressed lines if it must be reported now, else 0. */
unsigned long lines_second(struct lines *lines);
/* To be called at the end of the program: returns the number of suppressed lines since the last report. */
unsigned long lines_end(struct lines *lines);

#endif
