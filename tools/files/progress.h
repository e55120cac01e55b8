/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h - a progress bar, with the bytes, the rate and the time that is left, on standard error, if that is a terminal and the user did not ask for quiet. */
#ifndef FILES_PROGRESS_H
#define FILES_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { PROGRESS_NAME = 28 }; /* bytes of a name that are shown: the bar must fit a line of 80 columns */

struct progress {
    bool shown;
    char name[128];               /* filtered and truncated */
    uint64_t size, from;          /* bytes; from: those of an earlier attempt, not part of the rate */
    double started, since, drawn; /* seconds of the monotonic clock; since: of the rate */
};

void progress_start(struct progress *progress, const char *name, uint64_t size, bool quiet);
/* The first `from` bytes were there already, and have been read. */
void progress_skip(struct progress *progress, uint64_t from);
/* Draws at most ten times a second. */
void progress_update(struct progress *progress, uint64_t done);
/* Draws, in place of a bar, how many of many small files are done. name: of the last one. bytes: of those done. */
void progress_count(struct progress *progress, const char *name, uint64_t done, uint64_t all, uint64_t bytes);
/* Wipes the bar. */
void progress_end(struct progress *progress);

#endif
