/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading UTF-8, and what of it is only text. See terminal.h. */
#include "terminal.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Bytes of the character that begins here, at most 4, and its number; 0: it is none. Stops at the string's end.
 */
static int read_character(const char *at, uint32_t *number)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)*at;
    int length = first < 0x80   ? 1
                 : first < 0xc0 ? 0
                 : first < 0xe0 ? 2
                 : first < 0xf0 ? 3
                 : first < 0xf8 ? 4
                                : 0;

    *number = length == 1 ? first : first & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if (!is_continuation(at[i]))
            return 0;
        *number = *number << 6 | ((unsigned char)at[i] & 0x3f);
    }
    return length > 0 && *number >= least[length] && *number <= 0x10ffff ? length : 0;
}

static bool is_text(uint32_t number)
{
    if (number < 0x20 || (number >= 0x7f && number < 0xa0)) /* control */
        return false;
    if (number >= 0xd800 && number < 0xe000) /* surrogates */
        return false;
    return number != 0x061c && number != 0x200e && number != 0x200f && /* direction */
           (number < 0x2028 || number > 0x202e) && (number < 0x2066 || number > 0x2069);
}

char *terminal_filter(char *text)
{
    char *out = text;

    for (const char *at = text; *at != '\0';) {
        uint32_t number;
        int length = read_character(at, &number);

        if (length > 0 && is_text(number)) {
            for (int i = 0; i < length; i++)
                *out++ = *at++;
        } else {
            *out++ = '?';
            at += length > 0 ? length : 1;
        }
    }
    *out = '\0';
    return text;
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
