/* SPDX-License-Identifier: BSD-2-Clause */
/* log.c - lines on standard error. See log.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <exs.h>
#include "log.h"
#include "settings.h"
#include "text.h"

const char *log_time(char out[LOG_TIME_MAX])
{
    struct timespec now;
    struct tm day;

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &day);
    size_t length = strftime(out, LOG_TIME_MAX, "%H:%M:%S", &day);
    snprintf(out + length, LOG_TIME_MAX - length, ".%06ld ", now.tv_nsec / 1000);
    return out;
}

/* Names of hosts and files, and the environment's values, may contain control characters, which are filtered
 * out. */
static void say(const char *before, const char *format, va_list arguments)
{
    char line[512], time[LOG_TIME_MAX] = "";
    int saved = errno;

    vsnprintf(line, sizeof(line), format, arguments);
    fprintf(stderr, "exs: %s%s%s\n", settings()->trace ? log_time(time) : "", before, text_filter(line));
    errno = saved;
}

static void write_log(const char *before, const char *format, va_list arguments)
{
    if (settings()->debug)
        say(before, format, arguments);
}

void xs_misused(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say("misuse: ", format, arguments);
    va_end(arguments);
    if (settings()->check_aborts)
        abort();
}

void xs_log(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    write_log("", format, arguments);
    va_end(arguments);
}

int xs_invalid(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    write_log("invalid argument: ", format, arguments);
    va_end(arguments);
    errno = EINVAL;
    return -1;
}

int xs_nowhere(const char *argument)
{
    xs_invalid("there is no memory at %s, where the result goes", argument);
    errno = EFAULT;
    return -1;
}

int xs_bad_flags(int flags, int allowed)
{
    return xs_invalid("flags 0x%x has 0x%x, which is no flag here", (unsigned)flags,
                      (unsigned)(flags & ~allowed));
}

int xs_too_long(size_t length)
{
    return xs_invalid("length %zu is more than EXS_MSG_MAX, %zu", length, (size_t)EXS_MSG_MAX);
}
