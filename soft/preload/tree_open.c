/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tree_open.c - descriptors of the tree's files and directories. Each is a memfd that is sealed against writing. It
 * contains the file's text; for a directory it is empty. Its name in /proc contains the path of the file or directory,
 * so no list of open descriptors is needed.
 */
#undef _FORTIFY_SOURCE /* it makes open inline */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "core/base/fsize_guard.h"
#include "preload.h"
#include "tree.h"

#define MARK "exs:" /* before the path, in the name of the memfd */
#define SHOWN "/memfd:" MARK
#define GONE " (deleted)" /* the kernel appends this, because the memfd is in no directory */
#define LINK 32           /* bytes of /proc/self/fd/2147483647 */

/* 0, or the errno with which open(2) fails for these flags. */
static int open_errno(const struct tree_place *place, int flags)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY;

    if (place->kind == TREE_FOLDER)
        return writes ? EISDIR : 0;
    if (flags & O_DIRECTORY)
        return ENOTDIR;
    return writes ? EACCES : 0;
}

/* Writes the text. The program's RLIMIT_FSIZE limits this file, too: the write then fails with EFBIG, without the
 * signal. */
static bool write_text(int fd, const char *text, size_t length)
{
    struct fsize_guard fsize_guard;

    fsize_guard_begin(&fsize_guard);
    ssize_t written = pwrite(fd, text, length, 0);
    bool good = written == (ssize_t)length;

    if (!good && written >= 0) /* the limit allowed only a part */
        errno = EFBIG;
    fsize_guard_end(&fsize_guard, good ? 0 : errno);
    return good;
}

int tree_open(const struct tree_place *place, int flags)
{
    char name[sizeof MARK + TREE_PATH], text[TREE_TEXT];
    size_t length = place->kind == TREE_FILE ? tree_read(place, text) : 0;
    int fd, error;

    if (place->kind == TREE_OTHER) /* the system's file may be a symbolic link; must not create one */
        return real(open)(place->other, flags & ~(O_CREAT | O_NOFOLLOW), 0);
    error = open_errno(place, flags);
    if (error != 0) {
        errno = error;
        return -1;
    }
    snprintf(name, sizeof name, MARK "%s", place->path);
    fd = memfd_create(name, MFD_ALLOW_SEALING | (flags & O_CLOEXEC ? MFD_CLOEXEC : 0));
    if (fd == -1)
        return -1;
    if (write_text(fd, text, length) &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Keeps errno. */
bool tree_path_of(char path[TREE_PATH], int fd)
{
    int error = errno;
    char name[LINK], link[sizeof SHOWN + TREE_PATH + sizeof GONE];
    ssize_t length;

    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    length = real(readlink)(name, link, sizeof link - 1);
    errno = error;
    if (length < 0 || length == sizeof link - 1)
        return false;
    link[length] = '\0';
    if (strncmp(link, SHOWN, strlen(SHOWN)) != 0)
        return snprintf(path, TREE_PATH, "%s", link) < TREE_PATH;
    if ((size_t)length > strlen(GONE) && strcmp(link + length - strlen(GONE), GONE) == 0)
        link[(size_t)length - strlen(GONE)] = '\0';
    return snprintf(path, TREE_PATH, "%s", link + strlen(SHOWN)) < TREE_PATH;
}

bool tree_opened(struct tree_place *place, int fd)
{
    int error = errno;
    bool ours = fcntl(fd, F_GET_SEALS) >= F_SEAL_SEAL;
    char path[TREE_PATH];

    errno = error;
    return ours && tree_path_of(path, fd) && tree_find(place, "", path);
}

bool tree_stands_in(struct tree_place *place, int folder, const char *path)
{
    char name[TREE_PATH] = "";

    if ((errno != ENOENT && errno != ENOTDIR) || path[0] == '\0')
        return false;
    if (path[0] != '/' && (folder == AT_FDCWD || !tree_path_of(name, folder)))
        return false;
    return tree_find(place, name, path);
}
