/* SPDX-License-Identifier: BSD-2-Clause */
/* say.h - the output of exstest: results on standard output, errors and traces on standard error. */
#ifndef EXSTEST_SAY_H
#define EXSTEST_SAY_H

#include <stdbool.h>

extern int say_debug;  /* how often -d was given */
extern bool say_quiet; /* --json: standard output is for that alone */

/* In a server, whose clients cause its output: limits the number of lines from now on (lines.h). Only one thread may
 * print. */
void say_limited(void);
/* After say_limited(): to be called once a second, and at the end. */
void say_second(void);
void say_end(void);

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));      /* a line of the report */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2))); /* "exstest: ..." */
void trace(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
