/* SPDX-License-Identifier: BSD-2-Clause */
/* Drawing the bar. */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "tools/common/clock.h"
#include "tools/common/terminal.h"

#define WIDTH 30        /* characters of the bar */
#define INTERVAL 0.1    /* seconds between two drawings */
#define WIPE "\r\x1b[K" /* to the start of the line, and clear it */

void progress_start(struct progress *progress, const char *name, uint64_t size, bool quiet)
{
    progress->shown = !quiet && isatty(STDERR_FILENO) == 1;
    snprintf(progress->name, sizeof(progress->name), "%s", name);
    terminal_filter(progress->name);
    progress->size = size;
    progress->started = progress->drawn = clock_seconds();
}

void progress_update(struct progress *progress, uint64_t done)
{
    static const char full[] = "##############################", empty[] = "..............................";
    double now = clock_seconds();

    if (!progress->shown || progress->size == 0 || now - progress->drawn < INTERVAL)
        return;
    progress->drawn = now;
    int filled = (int)(done * WIDTH / progress->size);
    fprintf(stderr, WIPE "%.40s [%.*s%.*s] %3d%% %.2f GB/s", progress->name, filled, full, WIDTH - filled,
            empty, (int)(done * 100 / progress->size), (double)done / 1e9 / (now - progress->started));
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs(WIPE, stderr);
}
