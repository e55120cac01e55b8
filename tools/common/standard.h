/* SPDX-License-Identifier: BSD-2-Clause */
/* standard.h - the first and last steps of a program: standard descriptors, limits, and flushing standard output. */
#ifndef TOOLS_STANDARD_H
#define TOOLS_STANDARD_H

/* To be called first in main. Opens /dev/null for each of the descriptors 0 to 2 that is closed, so that no file or
 * event loop that is opened later gets this number and the program's output. The mode makes input and output fail, as
 * on a closed descriptor. */
void standard_open(void);
/* Ignores SIGXFSZ: a write beyond the limit on file sizes (ulimit -f) then fails with EFBIG, and the program
 * continues. */
void standard_outlive_limit(void);
/* Raises the limit on open files to this number, or as far as the system allows. Returns the limit. */
unsigned long standard_raise_files(unsigned long wanted);
/* To be called last: flushes standard output. Returns 0; or, if some output could not be written, prints "PROGRAM:
 * WHAT: why" on standard error and returns the exit status 1. */
int standard_flush(const char *program, const char *what);

#endif
