/* SPDX-License-Identifier: BSD-2-Clause */
/* standard.h - what a program begins and ends with: standard descriptors where it was started without, say. */
#ifndef TOOLS_STANDARD_H
#define TOOLS_STANDARD_H

/* The first thing in main: those of 0 to 2 that are closed lead nowhere from now on, so that no file or loop
 * that is opened later gets their number, and what is printed with it. */
void standard_open(void);
/* A limit on files (ulimit -f) ends a write, with EFBIG, and not the program without a line. */
void standard_outlive_limit(void);
/* Raises the limit on open files to this number, or as far as the system lets. The limit that holds then. */
unsigned long standard_raise_files(unsigned long wanted);
/* The last thing: all that was printed has to have got to where standard output goes. 0, or the exit status 1:
 * it has not, which is said on standard error, as "PROGRAM: WHAT: why". */
int standard_flush(const char *program, const char *what);

#endif
