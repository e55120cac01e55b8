/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files.c - the file of a device. The embedded one has none, but some programs (UCX) leave out a device whose
 * file in /dev/infiniband isn't there. They are told what they would be of a file that everybody may use.
 *
 * Only where the system itself has found none: so nothing else changes, and a bad pointer is EFAULT as ever.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "preload.h"

#define FOLDER "/dev/infiniband/"
#define STAND_IN "/dev/null"

/* True: the call on `path` that has just failed is to be made on STAND_IN. */
static bool is_our_file(const char *path)
{
    return errno == ENOENT && strncmp(path, FOLDER, sizeof FOLDER - 1) == 0 &&
           strcmp(path + sizeof FOLDER - 1, soft_the_device()->dev_name) == 0;
}

EXPORT int stat(const char *path, struct stat *buffer)
{
    int error = real(stat)(path, buffer);

    return error == -1 && is_our_file(path) ? real(stat)(STAND_IN, buffer) : error;
}

EXPORT int access(const char *path, int mode)
{
    int error = real(access)(path, mode);

    return error == -1 && is_our_file(path) ? real(access)(STAND_IN, mode) : error;
}
