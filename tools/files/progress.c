/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.c - draws the bar; see progress.h. */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/clock.h"
#include "tools/common/terminal.h"

#define WIDTH 10        /* characters of the bar */
#define TEXT 40         /* bytes of a number with its unit */
#define DAYS_MAX 8.64e6 /* seconds: 100 days; a longer estimate is not shown */
#define INTERVAL 0.1    /* seconds between two drawings */
#define WIPE "\r\x1b[K" /* moves to the start of the line and clears it */

/* Truncates the name to PROGRESS_NAME bytes, between two UTF-8 characters. */
static void cut_name(char *name)
{
    size_t length = PROGRESS_NAME;

    if (strlen(name) <= length)
        return;
    while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
        length--;
    name[length] = '\0';
}

static void set_name(struct progress *progress, const char *name)
{
    snprintf(progress->name, sizeof(progress->name), "%s", name);
    terminal_filter(progress->name);
    cut_name(progress->name);
}

static const char *bytes_text(uint64_t bytes, char out[TEXT])
{
    static const char units[] = {'k', 'M', 'G', 'T', 'P', 'E'};
    double value = (double)bytes;
    int unit = -1;

    for (; value >= 1000 && unit < (int)sizeof(units) - 1; unit++)
        value /= 1000;
    if (unit == -1)
        snprintf(out, TEXT, "%d B", (int)bytes);
    else
        snprintf(out, TEXT, "%.*f %cB", value < 10 ? 1 : 0, value, units[unit]);
    return out;
}

/* Writes the remaining time as text, or an empty string if no estimate is possible. rate: units of `left` in a
 * second. */
static const char *left_text(uint64_t left, double rate, char out[TEXT])
{
    double seconds = rate > 0 ? (double)left / rate : DAYS_MAX;

    if (seconds >= DAYS_MAX)
        out[0] = '\0';
    else if (seconds >= 3600)
        snprintf(out, TEXT, " ETA %d:%02d h", (int)seconds / 3600, (int)seconds / 60 % 60);
    else
        snprintf(out, TEXT, " ETA %d:%02d", (int)seconds / 60, (int)seconds % 60);
    return out;
}

void progress_start(struct progress *progress, const char *name, uint64_t size, bool quiet)
{
    progress->shown = !quiet && isatty(STDERR_FILENO) == 1;
    set_name(progress, name);
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
    static const char full[] = "##########", empty[] = "..........";
    double now = clock_seconds();

    if (!progress->shown || progress->size == 0 || now - progress->drawn < INTERVAL)
        return;
    progress->drawn = now;
    int filled = (int)((double)done * WIDTH / (double)progress->size);
    char size[TEXT], left[TEXT];
    uint64_t moved = done > progress->from ? done - progress->from : 0;
    double seconds = now > progress->since ? now - progress->since : INTERVAL;

    double rate = (double)moved / seconds;

    fprintf(stderr, WIPE "%s [%.*s%.*s] %3d%% %s %.2f GB/s%s", progress->name, filled, full, WIDTH - filled,
            empty, (int)((double)done * 100 / (double)progress->size), bytes_text(done, size), rate / 1e9,
            left_text(progress->size - done, rate, left));
}

void progress_count(struct progress *progress, const char *name, uint64_t done, uint64_t all, uint64_t bytes)
{
    double now = clock_seconds();
    char size[TEXT], left[TEXT];

    if (!progress->shown || now - progress->drawn < INTERVAL)
        return;
    progress->drawn = now;
    set_name(progress, name);
    double rate = (double)done / (now > progress->started ? now - progress->started : INTERVAL);

    fprintf(stderr, WIPE "%s, %llu of %llu files, %s%s", progress->name, (unsigned long long)done,
            (unsigned long long)all, bytes_text(bytes, size), left_text(all - done, rate, left));
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs(WIPE, stderr);
}
