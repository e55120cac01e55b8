/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h - the lines that exs-serve prints while it runs: each with the time, unless the output is systemd's journal,
 * which records the time itself. */
#ifndef FILES_LOG_H
#define FILES_LOG_H

#include <stdio.h>

/* Prints one line and a newline. Truncates a line that is too long. */
void log_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
