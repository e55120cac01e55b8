/* SPDX-License-Identifier: BSD-2-Clause */
/* What exstest prints; see say.h. A line is one call of stdio, so that threads don't mix theirs. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE = 1024 };

int say_debug;
bool say_quiet;

static void print(FILE *to, const char *prefix, const char *format, va_list arguments)
{
    char line[LINE];

    vsnprintf(line, sizeof(line), format, arguments);
    fprintf(to, "%s%s\n", prefix, line);
}

void say(const char *format, ...)
{
    va_list arguments;

    if (say_quiet)
        return;
    va_start(arguments, format);
    print(stdout, "", format, arguments);
    va_end(arguments);
}

void complain(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print(stderr, "exstest: ", format, arguments);
    va_end(arguments);
}

void trace(int level, const char *format, ...)
{
    va_list arguments;

    if (say_debug < level)
        return;
    va_start(arguments, format);
    print(stderr, "debug: ", format, arguments);
    va_end(arguments);
}
