/* SPDX-License-Identifier: BSD-2-Clause */
/* calls.c - see calls.h. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include "check/fuzz/calls.h"

#define PATIENCE_MS 5000

static _Thread_local unsigned fails_in; /* not for calls of the service thread */
static _Thread_local int fails_with;

void calls_fail(unsigned nth, int error)
{
    fails_in = nth;
    fails_with = error;
}

bool calls_fails(void)
{
    if (fails_in == 0 || --fails_in > 0)
        return false;
    errno = fails_with;
    return true;
}

unsigned calls_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    if (folder == NULL)
        abort();
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

unsigned calls_descriptors_left(unsigned before)
{
    unsigned count = calls_descriptors();

    /* Not poll(): one of the harnesses wraps it and advances its clock there. */
    for (int tries = 0; count > before && tries < PATIENCE_MS; tries++) {
        ppoll(NULL, 0, &(struct timespec){.tv_nsec = 1000000}, NULL);
        count = calls_descriptors();
    }
    return count;
}
