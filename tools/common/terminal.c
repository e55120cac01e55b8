/* SPDX-License-Identifier: BSD-2-Clause */
/* Text as it is shown, and as JSON has it. See terminal.h. */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include "core/base/text.h"

char *terminal_filter(char *text)
{
    return text_filter(text);
}

/* JSON is UTF-8, as is what the filter leaves. */
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
