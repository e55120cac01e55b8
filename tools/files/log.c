/* SPDX-License-Identifier: BSD-2-Clause */
/* log.c - prints lines with the local time and its offset from UTC. See log.h. */
#include "log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { LINE = 2048, TIME_MAX = 32 }; /* bytes */

/* Whether this is the journal: systemd sets JOURNAL_STREAM to the device and inode of the stream to its journal. */
static bool is_journal(FILE *to)
{
    const char *journal = getenv("JOURNAL_STREAM");
    struct stat status;
    char text[64];

    if (journal == NULL || fstat(fileno(to), &status) == -1)
        return false;
    snprintf(text, sizeof(text), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    return strcmp(text, journal) == 0;
}

static const char *time_text(char out[TIME_MAX])
{
    time_t now = time(NULL);
    struct tm local;

    if (localtime_r(&now, &local) == NULL || strftime(out, TIME_MAX, "%Y-%m-%dT%H:%M:%S%z ", &local) == 0)
        out[0] = '\0';
    return out;
}

void log_line(FILE *to, const char *format, ...)
{
    char line[LINE], now[TIME_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fprintf(to, "%sexs-serve: %s\n", is_journal(to) ? "" : time_text(now), line);
}
