/* SPDX-License-Identifier: BSD-2-Clause */
/* folders.c - opens paths with one openat() for each component. See folders.h. */
#include "folders.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfer.h"

static int open_folder(int in, const char *folder)
{
    return openat(in, folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_or_make(int in, const char *folder, uint64_t *may_make)
{
    int fd = open_folder(in, folder);

    if (fd != -1 || errno != ENOENT || may_make == NULL)
        return fd;
    if (*may_make == 0) {
        errno = FOLDERS_ENOUGH;
        return -1;
    }
    if (mkdirat(in, folder, 0777) == 0)
        (*may_make)--;
    else if (errno != EEXIST) /* EEXIST: another process may have created it */
        return -1;
    return open_folder(in, folder);
}

/* Closes the folder, unless it is the directory at which the path begins, which belongs to the caller. */
static void leave_folder(int directory, int folder)
{
    int saved = errno;

    if (folder != directory)
        close(folder);
    errno = saved;
}

/* Opens the folder below `in` whose name ends at `slash`, and leaves `in`. */
static int open_below(int directory, int in, const char *name, const char *slash, uint64_t *may_make)
{
    char folder[TRANSFER_NAME_MAX + 1];
    size_t length = (size_t)(slash - name);

    memcpy(folder, name, length);
    folder[length] = '\0';
    int next = open_or_make(in, folder, may_make);

    leave_folder(directory, in);
    return next;
}

int folders_open(int directory, const char *name, const char **last, uint64_t *may_make)
{
    int in = directory;
    const char *slash;

    for (; in != -1 && (slash = strchr(name, '/')) != NULL; name = slash + 1)
        in = open_below(directory, in, name, slash, may_make);
    *last = name;
    return in == directory ? open_folder(directory, ".") : in;
}

int folders_reach(int directory, const char *name, const char **rest)
{
    char folder[TRANSFER_NAME_MAX + 1];
    int in = directory, next;
    const char *slash;

    for (*rest = name; in != -1 && (slash = strchr(*rest, '/')) != NULL; *rest = slash + 1) {
        memcpy(folder, *rest, (size_t)(slash - *rest));
        folder[slash - *rest] = '\0';
        next = open_folder(in, folder);
        if (next == -1 && errno == ENOENT)
            break;
        leave_folder(directory, in);
        in = next;
    }
    return in == directory ? open_folder(directory, ".") : in;
}

int folders_check_last(int folder, const char *last)
{
    struct stat status;

    if (fstatat(folder, last, &status, AT_SYMLINK_NOFOLLOW) == -1)
        return errno == ENOENT ? 0 : -1;
    if (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode))
        return 0;
    errno = S_ISDIR(status.st_mode) ? EISDIR : ENODEV;
    return -1;
}

int folders_open_file(int folder, const char *name, struct stat *status)
{
    if (fstatat(folder, name, status, AT_SYMLINK_NOFOLLOW) == -1)
        return -1;
    if (S_ISDIR(status->st_mode) || !S_ISREG(status->st_mode)) {
        errno = S_ISDIR(status->st_mode) ? EISDIR : ENOENT;
        return -1;
    }
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd == -1)
        return -1;
    if (fstat(fd, status) == 0 && S_ISREG(status->st_mode))
        return fd;
    close(fd); /* the name now belongs to another file */
    errno = ENOENT;
    return -1;
}

/* `folder` may be O_PATH, for which fsync() fails; therefore the folder is opened again. */
static int sync_folder(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = fd == -1 ? -1 : fsync(fd), saved = errno;

    if (fd != -1)
        close(fd);
    errno = saved;
    return result;
}

int folders_sync(int directory, const char *name)
{
    int in = directory, result = -1;
    const char *slash;

    while (in != -1 && (result = sync_folder(in)) == 0 && (slash = strchr(name, '/')) != NULL) {
        in = open_below(directory, in, name, slash, NULL);
        name = slash + 1;
        result = -1;
    }
    if (in != -1)
        leave_folder(directory, in);
    return result;
}
