/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failure.c - how a harness fails that uses the tests' own helpers: no test of Check's is running that could.
 *
 * The harnesses are linked with --wrap for two functions of Check's, so every ck_assert and every expect ends
 * here, and libFuzzer keeps the input and prints the way to it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void __wrap__mark_point(const char *file, int line);
_Noreturn void __wrap__ck_assert_failed(const char *file, int line, const char *expression, const char *message,
                                        ...);

_Noreturn void __wrap__ck_assert_failed(const char *file, int line, const char *expression, const char *message,
                                        ...)
{
    va_list arguments;

    fprintf(stderr, "%s:%d: %s: ", file, line, expression);
    va_start(arguments, message);
    if (message != NULL)
        vfprintf(stderr, message, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

/* Check's way to know where a test was last. */
void __wrap__mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}
