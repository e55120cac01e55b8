/* SPDX-License-Identifier: BSD-2-Clause */
/* lines.c - counts lines; see lines.h. */
#include "lines.h"

struct lines lines_begin(void)
{
    return (struct lines){.left = LINES_BURST};
}

bool lines_take(struct lines *lines)
{
    if (lines->left == 0) {
        lines->suppressed++;
        return false;
    }
    lines->left--;
    return true;
}

unsigned long lines_end(struct lines *lines)
{
    unsigned long suppressed = lines->suppressed;

    lines->suppressed = 0;
    lines->seconds = 0;
    return suppressed;
}

unsigned long lines_second(struct lines *lines)
{
    if (lines->left < LINES_BURST)
        lines->left++;
    if (lines->suppressed == 0 || ++lines->seconds < LINES_PERIOD)
        return 0;
    return lines_end(lines);
}
