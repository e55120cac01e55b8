/* SPDX-License-Identifier: BSD-2-Clause */
/* special.c - creates a link under a temporary name and renames it; creates folders in place. See special.h. */
#include "special.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folders.h"
#include "leftovers.h"
#include "permits.h"

enum { NAMES_MAX = 10000 }; /* maximum temporary names that are tried */

static void keep_time(int folder, const char *name, const struct transfer_header *header)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT},
                                     {.tv_sec = (time_t)header->seconds, .tv_nsec = header->nanoseconds}};

    utimensat(folder, name, times, AT_SYMLINK_NOFOLLOW);
}

static int make_temporary(int folder, const char *target, char temporary[LEFTOVERS_NAME])
{
    for (unsigned number = 0; number < NAMES_MAX; number++) {
        leftovers_name(temporary, number);
        if (symlinkat(target, folder, temporary) == 0)
            return 0;
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

static int make_link(int folder, const char *last, const struct transfer_header *header, const char *target)
{
    char temporary[LEFTOVERS_NAME];

    if (folders_check_last(folder, last) == -1 || make_temporary(folder, target, temporary) == -1)
        return -1;
    keep_time(folder, temporary, header);
    if (renameat(folder, temporary, folder, last) == 0)
        return 0;
    int saved = errno;

    unlinkat(folder, temporary, 0);
    errno = saved;
    return -1;
}

int special_make_link(int directory, const char *name, const struct transfer_header *header, const char *target,
                      uint64_t *may_make)
{
    const char *last;
    int folder = folders_open(directory, name, &last, may_make);

    if (folder == -1)
        return -1;
    int result = make_link(folder, last, header, target), saved = errno;

    close(folder);
    errno = saved;
    return result;
}

/* `folder` may be O_PATH, for which fchmod() fails. The set-group-ID and sticky bits stay: a folder may have inherited
 * the former from its parent. */
static int set_details(int folder, const struct transfer_header *header, mode_t permitted)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat status;

    if (fd == -1)
        return -1;
    if (fstat(fd, &status) == 0)
        fchmod(fd, (header->mode & permitted) | S_IRWXU | (status.st_mode & (S_ISGID | S_ISVTX)));
    close(fd);
    keep_time(folder, ".", header);
    return 0;
}

int special_make_folder(int directory, const char *name, const struct transfer_header *header, mode_t mask,
                        uint64_t *may_make)
{
    char path[TRANSFER_PATH_MAX + 2];
    const char *last;

    snprintf(path, sizeof(path), "%s/", name);
    int folder = folders_open(directory, path, &last, may_make);

    if (folder == -1)
        return -1;
    int result = set_details(folder, header, permits_in(folder, mask)), saved = errno;

    close(folder);
    errno = saved;
    return result;
}
