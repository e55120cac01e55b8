/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h - a progress bar on standard error, where that is a terminal and nobody asked for quiet; else
 * nothing. */
#ifndef FILES_PROGRESS_H
#define FILES_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { PROGRESS_NAME = 28 }; /* bytes of a name that are shown: the bar has to fit a line of 80 */

struct progress {
    bool shown;
    char name[128];      /* as much of it as may be shown */
    uint64_t size, from; /* bytes; of those, what was there before, and does not count as fast */
    double started, since, drawn; /* seconds, of the monotonic clock; since: bytes behind `from` are done */
};

void progress_start(struct progress *progress, const char *name, uint64_t size, bool quiet);
/* So much was there already, and has been looked at. */
void progress_skip(struct progress *progress, uint64_t from);
/* Draws at most ten times a second. */
void progress_update(struct progress *progress, uint64_t done);
/* Wipes the bar. */
void progress_end(struct progress *progress);

#endif
