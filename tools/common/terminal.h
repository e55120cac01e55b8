/* SPDX-License-Identifier: BSD-2-Clause */
/* terminal.h - text from another process, made fit to be shown on a terminal. */
#ifndef COMMON_TERMINAL_H
#define COMMON_TERMINAL_H

#include <stdio.h>

/* What a terminal could take for more than a character of text becomes '?': control characters, in one byte or
 * in UTF-8, characters that turn the direction of writing, and bytes that are no UTF-8. Returns text. */
char *terminal_filter(char *text);
/* The same as a string of JSON, quotes and all; "" where there is no memory. text stays as it is. */
void terminal_json(FILE *out, const char *text);

#endif
