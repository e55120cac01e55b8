/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files.c - the files of a device. The embedded one has none, but some programs leave out a device whose file
 * in /dev/infiniband isn't there (UCX), or want to know by /sys/class/infiniband which network interfaces it is
 * on (rdma-core's tests): it is on all of them. They are told what they would be of other files that are there.
 *
 * Only where the system itself has found none: so nothing else changes, and a bad pointer is EFAULT as ever.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "preload.h"

#define FOLDER "/dev/infiniband/"
#define SYSFS "/sys/class/infiniband/"
#define NETWORKS "/device/net"
#define INTERFACES                                                                                             \
    "/proc/self/net/dev_snmp6/" /* those of the process's own network, which /sys may not be of */

/* The rest of a path behind what it begins with, or NULL. */
static const char *behind(const char *path, const char *beginning)
{
    size_t length = strlen(beginning);

    return strncmp(path, beginning, length) == 0 ? path + length : NULL;
}

/* What to look at in place of `path`, on which a call has just failed; NULL: it stays so. */
static const char *stand_in(const char *path)
{
    const char *name = soft_the_device()->dev_name, *rest;

    if (errno != ENOENT)
        return NULL;
    if ((rest = behind(path, FOLDER)) != NULL)
        return strcmp(rest, name) == 0 ? "/dev/null" : NULL;
    if ((rest = behind(path, SYSFS)) == NULL || (rest = behind(rest, name)) == NULL ||
        (rest = behind(rest, NETWORKS)) == NULL)
        return NULL;
    return *rest == '\0' || strcmp(rest, "/") == 0 ? INTERFACES : NULL;
}

EXPORT int stat(const char *path, struct stat *buffer)
{
    int error = real(stat)(path, buffer);
    const char *other = error == -1 ? stand_in(path) : NULL;

    return other == NULL ? error : real(stat)(other, buffer);
}

/* The same where files may be large. */
EXPORT int stat64(const char *path, struct stat64 *buffer)
{
    int error = real(stat64)(path, buffer);
    const char *other = error == -1 ? stand_in(path) : NULL;

    return other == NULL ? error : real(stat64)(other, buffer);
}

EXPORT int statx(int folder, const char *path, int flags, unsigned mask, struct statx *buffer)
{
    int error = real(statx)(folder, path, flags, mask, buffer);
    const char *other = error == -1 ? stand_in(path) : NULL;

    return other == NULL ? error : real(statx)(folder, other, flags, mask, buffer);
}

EXPORT int access(const char *path, int mode)
{
    int error = real(access)(path, mode);
    const char *other = error == -1 ? stand_in(path) : NULL;

    return other == NULL ? error : real(access)(other, mode);
}

EXPORT DIR *opendir(const char *path)
{
    DIR *opened = real(opendir)(path);
    const char *other = opened == NULL ? stand_in(path) : NULL;

    return other == NULL ? opened : real(opendir)(other);
}
