/* SPDX-License-Identifier: BSD-2-Clause */
/* standard.h - standard descriptors for a program that was started without. */
#ifndef TOOLS_STANDARD_H
#define TOOLS_STANDARD_H

/* The first thing in main: those of 0 to 2 that are closed lead nowhere from now on, so that no file or loop
 * that is opened later gets their number, and what is printed with it. */
void standard_open(void);
/* The last thing: all that was printed has to have got to where standard output goes. 0, or the exit status 1:
 * it has not, which is said on standard error, as "PROGRAM: WHAT: why". */
int standard_flush(const char *program, const char *what);

#endif
