/* SPDX-License-Identifier: BSD-2-Clause */
/* say.c - prints lines; see say.h. Each line is a single stdio call, so that the lines of threads are not mixed. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include "tools/common/lines.h"

enum { LINE = 1024 };

int say_debug;
bool say_quiet;

static bool limited;
static struct lines lines[2]; /* of standard output and standard error */

void say_limited(void)
{
    limited = true;
    lines[0] = lines[1] = lines_begin();
}

static void say_suppressed(unsigned long out, unsigned long error)
{
    if (out > 0 && !say_quiet)
        printf("exstest: %lu more lines suppressed\n", out);
    if (error > 0)
        fprintf(stderr, "exstest: %lu more lines suppressed\n", error);
}

void say_second(void)
{
    say_suppressed(lines_second(&lines[0]), lines_second(&lines[1]));
}

void say_end(void)
{
    say_suppressed(lines_end(&lines[0]), lines_end(&lines[1]));
    limited = false;
}

static void print_line(FILE *to, const char *prefix, const char *format, va_list arguments)
{
    char line[LINE];

    vsnprintf(line, sizeof(line), format, arguments);
    fprintf(to, "%s%s\n", prefix, line);
}

static void print_limited(FILE *to, const char *prefix, const char *format, va_list arguments)
{
    if (!limited || lines_take(&lines[to == stderr]))
        print_line(to, prefix, format, arguments);
}

void say(const char *format, ...)
{
    va_list arguments;

    if (say_quiet)
        return;
    va_start(arguments, format);
    print_limited(stdout, "", format, arguments);
    va_end(arguments);
}

void complain(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_limited(stderr, "exstest: ", format, arguments);
    va_end(arguments);
}

void trace(int level, const char *format, ...)
{
    va_list arguments;

    if (say_debug < level)
        return;
    va_start(arguments, format);
    print_line(stderr, "debug: ", format, arguments);
    va_end(arguments);
}
