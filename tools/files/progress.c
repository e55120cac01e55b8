/* SPDX-License-Identifier: BSD-2-Clause */
/* Drawing the bar. */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/clock.h"
#include "tools/common/terminal.h"

#define WIDTH 30        /* characters of the bar */
#define INTERVAL 0.1    /* seconds between two drawings */
#define WIPE "\r\x1b[K" /* to the start of the line, and clear it */

/* Between two characters. */
static void cut(char *name)
{
    size_t length = PROGRESS_NAME;

    if (strlen(name) <= length)
        return;
    while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
        length--;
    name[length] = '\0';
}

void progress_start(struct progress *progress, const char *name, uint64_t size, bool quiet)
{
    progress->shown = !quiet && isatty(STDERR_FILENO) == 1;
    snprintf(progress->name, sizeof(progress->name), "%s", name);
    terminal_filter(progress->name);
    cut(progress->name);
    progress->size = size;
    progress->from = 0;
    progress->started = progress->since = progress->drawn = clock_seconds();
}

void progress_skip(struct progress *progress, uint64_t from)
{
    progress->from = from;
    progress->since = clock_seconds();
}

void progress_update(struct progress *progress, uint64_t done)
{
    static const char full[] = "##############################", empty[] = "..............................";
    double now = clock_seconds();

    if (!progress->shown || progress->size == 0 || now - progress->drawn < INTERVAL)
        return;
    progress->drawn = now;
    int filled = (int)(done * WIDTH / progress->size);
    uint64_t moved = done > progress->from ? done - progress->from : 0;
    double seconds = now > progress->since ? now - progress->since : INTERVAL;

    fprintf(stderr, WIPE "%s [%.*s%.*s] %3d%% %.2f GB/s", progress->name, filled, full, WIDTH - filled, empty,
            (int)(done * 100 / progress->size), (double)moved / 1e9 / seconds);
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs(WIPE, stderr);
}
