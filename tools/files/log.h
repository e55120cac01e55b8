/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h - the lines that exs-serve prints while it runs: each with the time, unless they go to systemd's
 * journal, which keeps that itself. */
#ifndef FILES_LOG_H
#define FILES_LOG_H

#include <stdio.h>

/* One line, without its end, which is cut where it gets too long. */
void log_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
