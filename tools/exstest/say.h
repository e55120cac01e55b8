/* SPDX-License-Identifier: BSD-2-Clause */
/* say.h - the output of exstest: results on standard output, errors and traces on standard error. */
#ifndef EXSTEST_SAY_H
#define EXSTEST_SAY_H

#include <stdbool.h>

extern int say_debug;  /* number of -d options */
extern bool say_quiet; /* --json: only JSON is printed on standard output */

/* For a server, whose output is caused by clients: limits the rate of lines from now on (lines.h). Only one thread may
 * print. */
void say_limited(void);
/* To be called after say_limited() once a second, and at the end. */
void say_second(void);
void say_end(void);

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));      /* a line of the report */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2))); /* "exstest: ..." */
void trace(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
