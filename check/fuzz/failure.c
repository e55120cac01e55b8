/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failure.c - lets a harness use the tests' helpers. Check is linked but runs no test, so it cannot report a failure.
 *
 * The harnesses are linked with --wrap for two of Check's functions, so a failed ck_assert or expect ends the program
 * here; libFuzzer then keeps the input and prints a backtrace.
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

/* Check calls this to record the last line that a test has reached. */
void __wrap__mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}
