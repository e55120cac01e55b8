/* SPDX-License-Identifier: BSD-2-Clause */
/* say.h - what exstest prints: results on standard output, complaints and tracing on standard error. */
#ifndef EXSTEST_SAY_H
#define EXSTEST_SAY_H

#include <stdbool.h>

extern int say_debug;  /* how often -d was given */
extern bool say_quiet; /* --json: standard output is for that alone */

/* A server's clients are why it says what it says: from here on, not more than so much of it (lines.h). One
 * thread. */
void say_limited(void);
/* Once a second then, and at the end. */
void say_second(void);
void say_end(void);

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));      /* a line of the report */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2))); /* "exstest: ..." */
void trace(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
