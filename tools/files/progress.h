/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h - a progress bar with the bytes, the rate and the remaining time, on standard error, if that is a terminal
 * and the user did not ask for quiet. */
#ifndef FILES_PROGRESS_H
#define FILES_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { PROGRESS_NAME = 28 }; /* bytes of a name that are shown, so that the bar fits a line of 80 columns */

struct progress {
    bool shown;
    char name[128];               /* filtered and truncated */
    uint64_t size, from;          /* bytes; from: those of an earlier attempt, not counted in the rate */
    double started, since, drawn; /* seconds of the monotonic clock; since: start of the rate's measurement */
};

void progress_start(struct progress *progress, const char *name, uint64_t size, bool quiet);
/* The first `from` bytes are from an earlier attempt and need not be transferred. */
void progress_skip(struct progress *progress, uint64_t from);
/* Draws at most ten times a second. */
void progress_update(struct progress *progress, uint64_t done);
/* Draws, in place of a bar, the number of small files that are done. name: of the last file. bytes: of the files
 * done. */
void progress_count(struct progress *progress, const char *name, uint64_t done, uint64_t all, uint64_t bytes);
/* Removes the bar from the terminal. */
void progress_end(struct progress *progress);

#endif
