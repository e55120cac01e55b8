/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lines.h - how many lines a server prints about its clients: a burst of them, then one a second. The others
 * are counted, and told of every few seconds, so that no client fills a disk by failing.
 */
#ifndef COMMON_LINES_H
#define COMMON_LINES_H

#include <stdbool.h>

enum {
    LINES_BURST = 100,
    LINES_PERIOD = 10, /* seconds from one "N more" to the next */
};

/* Of one output; its server's, used by its loop's thread only. Begins as lines_begin() has it. */
struct lines {
    int left;                 /* that may be printed now */
    unsigned long suppressed; /* and not told of yet */
    int seconds;              /* since something was told, or since there is something to tell */
};

struct lines lines_begin(void);
/* May a line be printed? */
bool lines_take(struct lines *lines);
/* Once a second. Returns how many have been suppressed if it is time to say so, else 0. */
unsigned long lines_second(struct lines *lines);
/* The same at the end. */
unsigned long lines_end(struct lines *lines);

#endif
