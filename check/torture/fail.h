/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fail.h - a preloaded library that makes calls of libexs fail.
 *
 *   EXS_TORTURE="calloc 12 ENOMEM once"   the 12th calloc() of libexs fails; "for-good": and all later ones
 *   EXS_TORTURE_SECONDS=30                after this time the process prints where it hangs, and exits
 *   EXS_TORTURE_CONTROL=5                 a byte on this descriptor ends the failures, and is returned on the
 *                                         next descriptor; the process reports when it exits
 *
 * Calls that the program, libev, or the C library itself make are not affected. libexs's memory is counted by
 * the addresses of its calls; memory that libexs frees is overwritten.
 */
#ifndef TORTURE_FAIL_H
#define TORTURE_FAIL_H

#include <stdbool.h>
#include <stddef.h>

/* For a program that may also run without the preloaded library: NULL then. */
#pragma weak torture_disarm
#pragma weak torture_fired
#pragma weak torture_report
#pragma GCC visibility push(default)
void torture_disarm(void);    /* ends the failures */
unsigned torture_fired(void); /* number of calls that were made to fail */
void torture_report(void);    /* prints the current resources to standard error */
#pragma GCC visibility pop

/* ---- Internal -------------------------------------------------------------------------------------- */

bool fail_by_libexs(const void *place);
void fail_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* account.c: libexs's memory */
void account_add(const void *pointer, size_t size, const void *place);
bool account_remove(const void *pointer, size_t *size);
void account_report(const char *base);

#endif
