/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h - a progress bar on standard error, where that is a terminal and nobody asked for quiet; else
 * nothing. */
#ifndef FILES_PROGRESS_H
#define FILES_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown;
    char name[128]; /* as much of it as may be shown */
    uint64_t size;         /* bytes */
    double started, drawn; /* seconds, of the monotonic clock */
};

void progress_start(struct progress *progress, const char *name, uint64_t size, bool quiet);
/* Draws at most ten times a second. */
void progress_update(struct progress *progress, uint64_t done);
/* Wipes the bar. */
void progress_end(struct progress *progress);

#endif
