/* SPDX-License-Identifier: BSD-2-Clause */
/* terminal.h - makes text from another process safe to print on a terminal. */
#ifndef COMMON_TERMINAL_H
#define COMMON_TERMINAL_H

#include <stdio.h>

/* Replaces unsafe bytes by '?' in place, see core/base/text.h. Returns text. */
char *terminal_filter(char *text);
/* Prints the filtered text as a JSON string with its quotes; "" if memory allocation failed. Does not change text. */
void terminal_json(FILE *out, const char *text);

#endif
