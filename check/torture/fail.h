/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fail.h - a preloaded library that lets calls of libexs fail.
 *
 *   EXS_TORTURE="calloc 12 ENOMEM once"   the 12th calloc that libexs makes; "for-good": that one and all later
 *   EXS_TORTURE_SECONDS=30                then the process says where it hangs, and ends
 *   EXS_TORTURE_CONTROL=5                 a letter on this descriptor disarms; it comes back on the next one.
 * The process then reports when it ends
 *
 * Calls that others make - the program, libev, the C library on its own behalf - are left alone. Memory that
 * libexs has is counted by the place that asked for it; what it frees is overwritten.
 */
#ifndef TORTURE_FAIL_H
#define TORTURE_FAIL_H

#include <stdbool.h>
#include <stddef.h>

/* For a program that may be run without the library: NULL then. */
#pragma weak torture_disarm
#pragma weak torture_fired
#pragma weak torture_report
#pragma GCC visibility push(default)
void torture_disarm(void);    /* from now on nothing fails */
unsigned torture_fired(void); /* how many calls were made to fail */
void torture_report(void);    /* what there is now, to standard error */
#pragma GCC visibility pop

/* ---- Within the library ---------------------------------------------------------------------------- */

bool fail_by_libexs(const void *place);
void fail_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* account.c: memory that libexs has. */
void account_add(const void *pointer, size_t size, const void *place);
bool account_remove(const void *pointer, size_t *size);
void account_report(const char *base);

#endif
