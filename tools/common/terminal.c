/* SPDX-License-Identifier: BSD-2-Clause */
/* terminal.c - filters text for terminals and JSON. See terminal.h. */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include "core/base/text.h"

char *terminal_filter(char *text)
{
    return text_filter(text);
}

/* JSON must be UTF-8; the filtered text is valid UTF-8. */
void terminal_json(FILE *out, const char *text)
{
    char *copy = strdup(text);

    fputc('"', out);
    for (const char *at = copy != NULL ? terminal_filter(copy) : ""; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            fputc('\\', out);
        fputc(*at, out);
    }
    fputc('"', out);
    free(copy);
}
