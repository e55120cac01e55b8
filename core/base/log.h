/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.h - lines on standard error (EXS_DEBUG, EXS_CHECK), and the errors of calls. Each function that returns -1 sets
 * errno and logs which argument is wrong and why.
 */
#ifndef XS_LOG_H
#define XS_LOG_H

#include <errno.h>
#include <stddef.h>

/* Writes a line to standard error if the environment sets EXS_DEBUG. Lines say what failed and what to do. Keeps
 * errno. */
void xs_log(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* Reports a mistake of the program (EXS_CHECK), whether EXS_DEBUG is set or not. With EXS_CHECK=abort it aborts the
 * process. */
void xs_misused(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* Sets errno and returns -1. */
static inline int xs_fails(int error)
{
    errno = error;
    return -1;
}

/* Logs which argument is wrong. Returns -1 and EINVAL. */
int xs_invalid(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));
/* Like xs_invalid(): for flags other than the allowed ones, and for a length of more than EXS_MSG_MAX. */
int xs_bad_flags(int flags, int allowed) __attribute__((cold));
int xs_too_long(size_t length) __attribute__((cold));
/* Logs that the argument for a result is NULL or not valid. Returns -1 and EFAULT. */
int xs_nowhere(const char *argument) __attribute__((cold));

/* Writes the local time, for a line: "22:04:05.123456 ". Returns `out`. */
#define LOG_TIME_MAX 24
const char *log_time(char out[LOG_TIME_MAX]);

#endif
