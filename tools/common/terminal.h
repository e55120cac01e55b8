/* SPDX-License-Identifier: BSD-2-Clause */
/* terminal.h - text from another process, made fit to be shown on a terminal. */
#ifndef COMMON_TERMINAL_H
#define COMMON_TERMINAL_H

#include <stdio.h>

/* As the library's messages are filtered: core/text.h has what becomes '?'. Returns text. */
char *terminal_filter(char *text);
/* The same as a string of JSON, quotes and all; "" where there is no memory. text stays as it is. */
void terminal_json(FILE *out, const char *text);

#endif
