/* SPDX-License-Identifier: BSD-2-Clause */
/* text.h - decoding UTF-8, and making text from untrusted sources safe to print. */
#ifndef XS_TEXT_H
#define XS_TEXT_H

#include <stdbool.h>
#include <stdint.h>

static inline bool text_continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Returns the length in bytes, 1 to 4, of the character at `at`, and its code point in *number; 0 if it is not valid.
 * Does not read beyond the string's end. */
static inline int text_character(const char *at, uint32_t *number)
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
        if (!text_continues(at[i]))
            return 0;
        *number = *number << 6 | ((unsigned char)at[i] & 0x3f);
    }
    return length > 0 && *number >= least[length] && *number <= 0x10ffff ? length : 0;
}

static inline bool text_is_plain(uint32_t number)
{
    if (number < 0x20 || (number >= 0x7f && number < 0xa0)) /* control */
        return false;
    if (number >= 0xd800 && number < 0xe000) /* surrogates */
        return false;
    return number != 0x061c && number != 0x200e && number != 0x200f && /* direction */
           (number < 0x2028 || number > 0x202e) && (number < 0x2066 || number > 0x2069);
}

/* Replaces by '?' each control character (in one byte or in UTF-8), which a terminal could take for a command, each
 * character that changes the direction of writing, and each byte that is not UTF-8. Returns `text`. */
static inline char *text_filter(char *text)
{
    char *out = text;

    for (const char *at = text; *at != '\0';) {
        uint32_t number;
        int length = text_character(at, &number);

        if (length > 0 && text_is_plain(number)) {
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

#endif
