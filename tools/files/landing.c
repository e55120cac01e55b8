/* SPDX-License-Identifier: BSD-2-Clause */
/* landing.c - temporary files that stay after their process has ended, so that exs-get can resume. See landing.h. */
#include "landing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folders.h"
#include "sparse.h"
#include "special.h"

#define SUFFIX ".exs-part"

enum {
    PART_NAME = TRANSFER_NAME_MAX - sizeof("." SUFFIX) + 1
}; /* bytes of a file's name in that of its part */

/* Locks the part, and checks that it is a regular file of this user with one link, and still has its name. */
static int check_part(const struct landing *landing, struct stat *status)
{
    struct stat named;

    if (fstat(landing->fd, status) == -1)
        return -1;
    if (!S_ISREG(status->st_mode) || status->st_nlink > 1 || status->st_uid != geteuid()) {
        errno = EEXIST;
        return -1;
    }
    if (flock(landing->fd, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK) {
        errno = EBUSY;
        return -1;
    }
    if (fstatat(landing->folder, landing->part, &named, AT_SYMLINK_NOFOLLOW) == -1 ||
        named.st_ino != status->st_ino || named.st_dev != status->st_dev) {
        errno = EBUSY; /* the previous owner of the lock has just completed it */
        return -1;
    }
    return 0;
}

static void close_landing(struct landing *landing)
{
    int saved = errno;

    close(landing->fd);
    landing->fd = -1;
    errno = saved;
}

/* Opens the part of an earlier attempt, if there is one. */
static int open_part(struct landing *landing)
{
    const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat status;

    landing->fd = openat(landing->folder, landing->part, flags);
    if (landing->fd == -1) {
        if (errno == ELOOP || errno == ENXIO || errno == EISDIR)
            errno = EEXIST;
        return errno == ENOENT ? 0 : -1;
    }
    if (check_part(landing, &status) == -1) {
        close_landing(landing);
        return -1;
    }
    landing->there = status.st_size >= LANDING_KEEP ? (uint64_t)status.st_size : 0;
    return 0;
}

int landing_open(struct landing *landing, struct recent *recent, int directory, const char *name)
{
    uint64_t may_make = TRANSFER_FOLDERS_MAX;

    *landing = (struct landing){.fd = -1};
    int folder = recent_open(recent, directory, name, &landing->last, &may_make);

    landing->folder = folder == -1 ? -1 : fcntl(folder, F_DUPFD_CLOEXEC, 0);
    if (landing->folder == -1)
        return -1;
    landing->permitted = recent_permits(recent);
    snprintf(landing->part, sizeof(landing->part), ".%.*s" SUFFIX, (int)PART_NAME, landing->last);
    return folders_check_last(landing->folder, landing->last) == 0 ? open_part(landing) : -1;
}

void landing_open_output(struct landing *landing, int output)
{
    *landing = (struct landing){.folder = -1, .fd = output, .is_output = true};
}

int landing_begin(struct landing *landing, uint64_t from)
{
    struct stat status;

    if (landing->is_output)
        return 0;
    if (landing->fd != -1)
        return ftruncate(landing->fd, (off_t)from);
    landing->fd =
        openat(landing->folder, landing->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (landing->fd == -1)
        return -1;
    if (check_part(landing, &status) == 0)
        return 0;
    close_landing(landing); /* another exs-get has locked it, so this process must not remove it */
    return -1;
}

int landing_write(struct landing *landing, const void *data, size_t length, uint64_t offset)
{
    const char *next = data;

    while (length > 0) {
        ssize_t written = landing->is_output ? write(landing->fd, next, length)
                                             : sparse_write(landing->fd, next, length, offset);

        if (written == -1 && errno == EINTR)
            continue;
        if (written == -1)
            return -1;
        next += written;
        offset += (uint64_t)written;
        length -= (size_t)written;
    }
    return 0;
}

/* Closes a copy of the descriptor before the rename, because some file systems report a failed write only on close. */
static int close_copy(const struct landing *landing)
{
    int copy = fcntl(landing->fd, F_DUPFD_CLOEXEC, 0);

    return copy == -1 ? -1 : close(copy);
}

/* Errors are ignored: some file systems do not support permissions or times. */
static void keep_details(const struct landing *landing, const struct transfer_header *header)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT},
                                     {.tv_sec = (time_t)header->seconds, .tv_nsec = header->nanoseconds}};

    fchmod(landing->fd, header->mode & landing->permitted);
    futimens(landing->fd, times);
}

/* close_copy() may take long, so it comes before keep_details(): if this process were killed between keep_details() and
 * the rename, the part could have permissions with which no later exs-get can resume it. */
int landing_commit(struct landing *landing, const struct transfer_header *header)
{
    if (landing->is_output)
        return 0;
    if (close_copy(landing) == -1)
        return -1;
    keep_details(landing, header);
    if (renameat(landing->folder, landing->part, landing->folder, landing->last) == -1) {
        int saved = errno;

        fchmod(landing->fd, 0600); /* so that a later exs-get can resume it */
        errno = saved;
        return -1;
    }
    close_landing(landing);
    return 0;
}

int landing_link(struct landing *landing, const struct transfer_header *header, const char *target)
{
    if (landing->is_output) {
        errno = ELOOP;
        return -1;
    }
    return special_make_link(landing->folder, landing->last, header, target, NULL);
}

bool landing_is_done(const struct landing *landing, uint64_t size, int64_t seconds, uint32_t nanoseconds)
{
    struct stat status;

    return !landing->is_output && fstatat(landing->folder, landing->last, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(status.st_mode) && (uint64_t)status.st_size == size && status.st_mtim.tv_sec == seconds &&
           status.st_mtim.tv_nsec == (long)nanoseconds;
}

void landing_discard(struct landing *landing)
{
    if (landing->fd == -1 || landing->is_output)
        return;
    unlinkat(landing->folder, landing->part, 0);
    close_landing(landing);
}

/* Closes the part. Returns its bytes, or 0 if it was too short and was removed. */
static uint64_t keep_part(struct landing *landing)
{
    struct stat status = {0};
    bool is_known = fstat(landing->fd, &status) == 0;

    if (is_known && status.st_size < LANDING_KEEP) {
        landing_discard(landing);
        return 0;
    }
    close_landing(landing);
    return (uint64_t)status.st_size;
}

uint64_t landing_end(struct landing *landing)
{
    uint64_t kept = landing->fd != -1 && !landing->is_output ? keep_part(landing) : 0;

    if (landing->folder != -1)
        close(landing->folder);
    landing->folder = -1;
    return kept;
}
