/* SPDX-License-Identifier: BSD-2-Clause */
/* source.c - opens a file, and detects changes by comparing its status. See source.h. */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "folders.h"
#include "picks.h"
#include "spool.h"

static int open_below(int top, const char *found)
{
    const char *last;
    struct stat status;
    if (strchr(found, '/') == NULL)
        return folders_open_file(top, found, &status);
    int folder = folders_open(top, found, &last, NULL);

    if (folder == -1)
        return -1;
    int fd = folders_open_file(folder, last, &status), saved = errno;

    close(folder);
    errno = saved;
    return fd;
}

/* Another user with write permission on a folder may replace a name after the folder was read. Therefore symbolic links
 * below the path of the command line are not followed, and only regular files are opened. */
static int open_found(const char *path, size_t named)
{
    char *name = strndup(path, named);
    int top = name == NULL ? -1 : open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = top == -1 ? -1 : open_below(top, path + named), saved = errno;

    if (top != -1)
        close(top);
    free(name);
    errno = saved;
    return fd;
}

static bool is_another_one(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EISDIR;
}

/* O_NONBLOCK: open() does not block on a FIFO, which is refused later. */
static int open_file(struct source *source, const char *path, size_t named, struct client *client)
{
    bool is_stdin = strcmp(path, PICKS_STDIN) == 0;

    if (named > 0)
        source->fd = open_found(path, named);
    else
        source->fd = is_stdin ? spool_open() : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (source->fd != -1)
        return 0;
    if (named > 0 && is_another_one(errno))
        return client_failed_text(client, "cannot be sent",
                                  "it was removed or replaced since its folder was read");
    return client_failed(client, is_stdin ? "cannot keep standard input where TMPDIR says" : "cannot open");
}

/* Whether the reported size is meaningless: in /sys it is a page for each file. */
static bool has_made_up_size(const struct source *source)
{
    struct statfs status;

    if (major(source->status.st_dev) != 0) /* on a disk */
        return false;
    return fstatfs(source->fd, &status) == 0 &&
           (status.f_type == SYSFS_MAGIC || status.f_type == DEBUGFS_MAGIC);
}

/* Replaces the file by a copy, which has a known size. `status` keeps the permissions and time of the original. */
static int replace_by_copy(struct source *source, struct client *client)
{
    int copy = spool_copy(source->fd);
    struct stat status;

    if (copy == -1)
        return client_failed(client, "cannot read, or keep a copy where TMPDIR says");
    close(source->fd);
    source->fd = copy;
    if (fstat(copy, &status) == -1)
        return client_failed(client, "cannot open");
    source->is_copy = true;
    source->status.st_size = status.st_size;
    return 0;
}

static int check_size(struct source *source, struct client *client)
{
    int hides_bytes;

    if (has_made_up_size(source))
        return replace_by_copy(source, client);
    hides_bytes = source->status.st_size == 0 ? spool_hides_bytes(source->fd) : 0;
    if (hides_bytes == -1)
        return client_failed(client, "cannot read");
    if (hides_bytes == 1)
        return client_failed_text(client, "cannot be sent",
                                  "its size is 0, and yet it has bytes: exs-put -n NAME - <FILE sends them");
    return 0;
}

int source_open(struct source *source, const char *path, size_t named, struct client *client)
{
    const struct stat *status = &source->status;

    *source = (struct source){.fd = -1};
    if (open_file(source, path, named, client) == -1)
        return -1;
    if (fstat(source->fd, &source->status) == -1)
        return client_failed(client, "cannot open");
    if (S_ISDIR(status->st_mode))
        return client_failed_text(client, "cannot be sent", "it is a folder: exs-put -r sends what is in it");
    if (!S_ISREG(status->st_mode))
        return client_failed_text(client, "cannot be sent", "it is not a regular file");
    if (check_size(source, client) == -1)
        return -1;
    source->size = (uint64_t)status->st_size;
    return 0;
}

void source_close(struct source *source)
{
    if (source->fd != -1)
        close(source->fd);
    source->fd = -1;
}

bool source_is_shorter(const struct source *source)
{
    struct stat now;

    return fstat(source->fd, &now) == 0 && (uint64_t)now.st_size < source->size;
}

bool source_has_changed(const struct source *source, bool may_grow)
{
    const struct stat *then = &source->status;
    struct stat now;

    if (source->is_copy)
        return false;
    if (fstat(source->fd, &now) == -1)
        return true;
    if (may_grow && now.st_size > then->st_size)
        return false;
    return now.st_size != then->st_size || now.st_mtim.tv_sec != then->st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != then->st_mtim.tv_nsec;
}

ssize_t source_target(const char *path, size_t named, char target[TRANSFER_PATH_MAX + 1], struct stat *status)
{
    char *top = strndup(path, named);
    const char *last = path;
    int in = AT_FDCWD;

    if (named > 0) {
        int folder = top == NULL ? -1 : open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);

        in = folder == -1 ? -1 : folders_open(folder, path + named, &last, NULL);
        if (folder != -1)
            close(folder);
    }
    free(top);
    ssize_t length = in == -1 ? -1 : readlinkat(in, last, target, TRANSFER_PATH_MAX);

    if (length != -1 && fstatat(in, last, status, AT_SYMLINK_NOFOLLOW) == -1)
        length = -1;
    if (in >= 0)
        close(in);
    return length;
}
