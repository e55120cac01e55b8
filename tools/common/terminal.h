/* SPDX-License-Identifier: BSD-2-Clause */
/* terminal.h - makes text from another process safe to show on a terminal. */
#ifndef COMMON_TERMINAL_H
#define COMMON_TERMINAL_H

#include <stdio.h>

/* Filters text like the library's messages: core/base/text.h says which bytes become '?'. Returns text. */
char *terminal_filter(char *text);
/* Prints the filtered text as a JSON string with its quotes; "" if there is no memory. Does not change text. */
void terminal_json(FILE *out, const char *text);

#endif
