/* SPDX-License-Identifier: BSD-2-Clause */
/* standard.h - the first and last steps of a program: standard descriptors, limits, and flushing standard output. */
#ifndef TOOLS_STANDARD_H
#define TOOLS_STANDARD_H

/* To be called first in main. Opens /dev/null in place of each of the descriptors 0 to 2 that is closed, in the mode in
 * which input and output fail, so that no file or loop that is opened later gets its number and the program's output. */
void standard_open(void);
/* Ignores SIGXFSZ: beyond the limit on file sizes (ulimit -f) a write fails with EFBIG, and the program continues. */
void standard_outlive_limit(void);
/* Raises the limit on open files to this number, or as far as the system allows. Returns the limit. */
unsigned long standard_raise_files(unsigned long wanted);
/* To be called last: flushes standard output. 0; or the exit status 1 if some output could not be written, which is
 * reported on standard error as "PROGRAM: WHAT: why". */
int standard_flush(const char *program, const char *what);

#endif
