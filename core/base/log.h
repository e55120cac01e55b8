/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.h - the lines of EXS_DEBUG and EXS_CHECK, to standard error or to the program's exs_log, and the errors of calls.
 * The functions here that return -1 set errno; all but xs_fails() also log which argument is wrong and why, and keep
 * that text for exs_errmsg(). If a call sets only errno, exs_errmsg() explains the error by errno and by the call that
 * the thread made last (errmsg.c).
 */
#ifndef XS_LOG_H
#define XS_LOG_H

#include <errno.h>
#include <stddef.h>

/* Passes the lines to this function in place of standard error, or to standard error again if it is NULL; `context` is
 * its first argument. It is called by one thread at a time, and not any more when log_redirect() has returned. */
void log_redirect(void (*write)(void *context, int level, const char *text), void *context);
/* Called in a forked child, which has only one thread. */
void log_forked(void);

/* Writes a line if EXS_DEBUG is set. Lines say what failed and what to do. Keeps errno. */
void xs_log(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* Writes a line whether EXS_DEBUG is set or not: what the user or the administrator has to know. Keeps errno. */
void xs_warn(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* Writes a line about an operation. Called if EXS_DEBUG is 2 (core/debug/trace.c). */
void xs_log_operation(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* Reports a mistake of the program (EXS_CHECK), whether EXS_DEBUG is set or not. With EXS_CHECK=abort it aborts the
 * process. */
void xs_misused(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* Sets errno and returns -1. */
static inline int xs_fails(int error)
{
    errno = error;
    return -1;
}

/* Logs why the call fails. Returns -1, with errno set to `error`. */
int xs_refuse(int error, const char *format, ...) __attribute__((cold, format(printf, 2, 3)));
/* Like xs_refuse(), for a function that continues, or does not return an int. */
#define xs_explain(...) ((void)xs_refuse(__VA_ARGS__))
/* Logs which argument is wrong. Returns -1 and EINVAL. */
int xs_invalid(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));
/* Like xs_invalid(): for flags other than the allowed ones, and for a length of more than EXS_MSG_MAX. */
int xs_bad_flags(int flags, int allowed) __attribute__((cold));
int xs_too_long(size_t length) __attribute__((cold));
/* Logs that the argument for a result is NULL or not valid. Returns -1 and EFAULT. */
int xs_nowhere(const char *argument) __attribute__((cold));

/* The call that a thread made last. Every public call stores it, so it must be cheap: it has 16 bytes, in static
 * thread-local storage. The text of a failure is in errmsg_text(). */
struct last_call {
    const char *name; /* NULL: no call yet, or `type` says which call */
    int sockno;       /* the socket; -1: the call is not on a socket */
    short type;       /* EXS_EVT_, or 0 */
    short error;      /* the errno that errmsg_text() explains, or 0 */
};
extern _Thread_local struct last_call xs_last_call __attribute__((tls_model("initial-exec")));

#define ERRMSG_MAX 512
/* The thread's buffer for the text of a failure, of ERRMSG_MAX bytes. */
char *errmsg_text(void);

/* Writes the local time, for a line: "22:04:05.123456 ". Returns `out`. */
#define LOG_TIME_MAX 24
const char *log_time(char out[LOG_TIME_MAX]);

#endif
