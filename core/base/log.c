/* SPDX-License-Identifier: BSD-2-Clause */
/* log.c - lines of text, to standard error or to the program. See log.h. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
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

_Thread_local struct last_call xs_last_call __attribute__((tls_model("initial-exec"))) = {.sockno = -1};

char *errmsg_text(void)
{
    static _Thread_local char text[ERRMSG_MAX];

    return text;
}

/* The program's function, or NULL. sink_lock guards it, and is held while it runs. */
static struct {
    void (*write)(void *context, int level, const char *text);
    void *context;
} sink;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_redirected; /* saves the lock where there is no function; pairs with nothing */

void log_redirect(void (*write)(void *context, int level, const char *text), void *context)
{
    pthread_mutex_lock(&sink_lock);
    sink.write = write;
    sink.context = context;
    atomic_store_explicit(&is_redirected, write != NULL, memory_order_relaxed);
    pthread_mutex_unlock(&sink_lock);
}

void log_forked(void)
{
    pthread_mutex_init(&sink_lock, NULL);
}

static bool pass_line(int level, const char *before, const char *text)
{
    char line[ERRMSG_MAX + 32];

    snprintf(line, sizeof(line), "%s%s", before, text);
    pthread_mutex_lock(&sink_lock);
    bool has_sink = sink.write != NULL;

    if (has_sink)
        sink.write(sink.context, level, line);
    pthread_mutex_unlock(&sink_lock);
    return has_sink;
}

static void write_line(int level, const char *before, const char *text)
{
    char time[LOG_TIME_MAX] = "";
    int saved = errno;

    if (!atomic_load_explicit(&is_redirected, memory_order_relaxed) || !pass_line(level, before, text))
        fprintf(stderr, "exs: %s%s%s\n", settings()->trace ? log_time(time) : "", before, text);
    errno = saved;
}

/* Names of hosts and files, and the environment's values, may contain control characters, which are filtered
 * out. */
static void print_message(int level, const char *before, const char *format, va_list arguments)
{
    char line[ERRMSG_MAX];

    vsnprintf(line, sizeof(line), format, arguments);
    write_line(level, before, text_filter(line));
}

static void set_errmsg(int error, const char *before, const char *format, va_list arguments)
{
    char *text = errmsg_text();

    vsnprintf(text, ERRMSG_MAX, format, arguments);
    text_filter(text);
    if (settings()->debug)
        write_line(EXS_LOG_DEBUG, before, text);
    xs_last_call.error = (short)error;
    errno = error;
}

void xs_misused(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_message(EXS_LOG_ALWAYS, "misuse: ", format, arguments);
    va_end(arguments);
    if (settings()->check_aborts)
        abort();
}

void xs_log(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (settings()->debug)
        print_message(EXS_LOG_DEBUG, "", format, arguments);
    va_end(arguments);
}

void xs_warn(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_message(EXS_LOG_ALWAYS, "", format, arguments);
    va_end(arguments);
}

void xs_log_operation(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_message(EXS_LOG_TRACE, "", format, arguments);
    va_end(arguments);
}

int xs_refuse(int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    set_errmsg(error, "", format, arguments);
    va_end(arguments);
    return -1;
}

int xs_invalid(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    set_errmsg(EINVAL, "invalid argument: ", format, arguments);
    va_end(arguments);
    return -1;
}

int xs_nowhere(const char *argument)
{
    xs_invalid("%s is NULL or not writable", argument);
    xs_last_call.error = EFAULT;
    return xs_fails(EFAULT);
}

int xs_bad_flags(int flags, int allowed)
{
    return xs_invalid("unknown flags 0x%x (in 0x%x)", (unsigned)(flags & ~allowed), (unsigned)flags);
}

int xs_too_long(size_t length)
{
    return xs_invalid("length %zu is more than EXS_MSG_MAX, %zu", length, (size_t)EXS_MSG_MAX);
}
