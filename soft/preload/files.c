/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files.c - the C library's functions that open and examine files (open(), stat(), access() ...), with the device's
 * files (tree.h). The software device has no files in the system, but some programs ignore a device without a file in
 * /dev/infiniband (UCX), or search for devices only in /sys/class/infiniband (ibstat, Open MPI, scripts).
 *
 * Each function calls the C library's first, and answers for the tree only if that finds no file. Therefore nothing
 * else changes for the program.
 */
#undef _FORTIFY_SOURCE /* it makes open and realpath inline */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "preload.h"
#include "tree.h"

#define PAGE 4096 /* the size that stat() reports for a file in sysfs */
#define ANYBODY_READS (S_IRUSR | S_IRGRP | S_IROTH)
#define ANYBODY_ENTERS (S_IXUSR | S_IXGRP | S_IXOTH)

static_assert(sizeof(struct stat) == sizeof(struct stat64), "files are large throughout");

/* ---- stat() and its variants --------------------------------------------------------------------------- */

static mode_t mode_of(const struct tree_place *place)
{
    return place->kind == TREE_FOLDER ? S_IFDIR | ANYBODY_READS | ANYBODY_ENTERS : S_IFREG | ANYBODY_READS;
}

/* A directory has one link, too; programs then do not derive the number of subdirectories from it. */
static void fill_stat(const struct tree_place *place, struct stat *buffer)
{
    *buffer = (struct stat){
        .st_ino = tree_number(place),
        .st_mode = mode_of(place),
        .st_nlink = 1,
        .st_size = place->kind == TREE_FILE ? PAGE : 0,
        .st_blksize = PAGE,
    };
}

static void describe_more(const struct tree_place *place, struct statx *buffer)
{
    *buffer = (struct statx){
        .stx_mask = STATX_BASIC_STATS,
        .stx_ino = tree_number(place),
        .stx_mode = (uint16_t)mode_of(place),
        .stx_nlink = 1,
        .stx_size = place->kind == TREE_FILE ? PAGE : 0,
        .stx_blksize = PAGE,
    };
}

/* Called after the C library's function has returned `result`: answers for the tree if it has failed. */
static int stat_failed(int result, int folder, const char *path, struct stat *buffer)
{
    struct tree_place place;

    if (result == 0 || !tree_stands_in(&place, folder, path))
        return result;
    if (place.kind == TREE_OTHER)
        return real(stat)(place.other, buffer);
    fill_stat(&place, buffer);
    return 0;
}

EXPORT int stat(const char *path, struct stat *buffer)
{
    return stat_failed(real(stat)(path, buffer), AT_FDCWD, path, buffer);
}

EXPORT int lstat(const char *path, struct stat *buffer)
{
    return stat_failed(real(lstat)(path, buffer), AT_FDCWD, path, buffer);
}

/* If the descriptor is of a file of the tree, describes that file instead of the memfd, which has no link. */
static void stat_opened(int fd, struct stat *buffer)
{
    struct tree_place place;

    if (S_ISREG(buffer->st_mode) && buffer->st_nlink == 0 && tree_opened(&place, fd))
        fill_stat(&place, buffer);
}

EXPORT int fstat(int fd, struct stat *buffer)
{
    int result = real(fstat)(fd, buffer);

    if (result == 0)
        stat_opened(fd, buffer);
    return result;
}

EXPORT int fstatat(int folder, const char *path, struct stat *buffer, int flags)
{
    int result = real(fstatat)(folder, path, buffer, flags);

    if (result == 0 && flags & AT_EMPTY_PATH) /* there may be no path, not even "" */
        stat_opened(folder, buffer);
    return stat_failed(result, folder, path, buffer);
}

/* The variants for large files. */
EXPORT int stat64(const char *path, struct stat64 *buffer)
{
    return stat(path, (struct stat *)(void *)buffer);
}

EXPORT int lstat64(const char *path, struct stat64 *buffer)
{
    return lstat(path, (struct stat *)(void *)buffer);
}

EXPORT int fstatat64(int folder, const char *path, struct stat64 *buffer, int flags)
{
    return fstatat(folder, path, (struct stat *)(void *)buffer, flags);
}

EXPORT int fstat64(int fd, struct stat64 *buffer)
{
    return fstat(fd, (struct stat *)(void *)buffer);
}

/* Programs that were built before glibc 2.33 call these. */
int __xstat(int version, const char *path, struct stat *buffer);
int __lxstat(int version, const char *path, struct stat *buffer);
int __fxstat(int version, int fd, struct stat *buffer);
int __fxstatat(int version, int folder, const char *path, struct stat *buffer, int flags);
int __xstat64(int version, const char *path, struct stat64 *buffer);
int __lxstat64(int version, const char *path, struct stat64 *buffer);
int __fxstat64(int version, int fd, struct stat64 *buffer);
int __fxstatat64(int version, int folder, const char *path, struct stat64 *buffer, int flags);

EXPORT int __xstat(int version, const char *path, struct stat *buffer)
{
    (void)version; /* 64-bit architectures have one version only */
    return stat(path, buffer);
}

EXPORT int __lxstat(int version, const char *path, struct stat *buffer)
{
    (void)version;
    return lstat(path, buffer);
}

EXPORT int __fxstat(int version, int fd, struct stat *buffer)
{
    (void)version;
    return fstat(fd, buffer);
}

EXPORT int __fxstatat(int version, int folder, const char *path, struct stat *buffer, int flags)
{
    (void)version;
    return fstatat(folder, path, buffer, flags);
}

EXPORT int __xstat64(int version, const char *path, struct stat64 *buffer)
{
    (void)version;
    return stat64(path, buffer);
}

EXPORT int __lxstat64(int version, const char *path, struct stat64 *buffer)
{
    (void)version;
    return lstat64(path, buffer);
}

EXPORT int __fxstat64(int version, int fd, struct stat64 *buffer)
{
    (void)version;
    return fstat64(fd, buffer);
}

EXPORT int __fxstatat64(int version, int folder, const char *path, struct stat64 *buffer, int flags)
{
    (void)version;
    return fstatat64(folder, path, buffer, flags);
}

EXPORT int statx(int folder, const char *path, int flags, unsigned mask, struct statx *buffer)
{
    int result = real(statx)(folder, path, flags, mask, buffer);
    struct tree_place place;

    if (result == 0) { /* with AT_EMPTY_PATH `path` may be NULL; a memfd has no link */
        if (flags & AT_EMPTY_PATH && S_ISREG(buffer->stx_mode) && buffer->stx_nlink == 0 &&
            tree_opened(&place, folder))
            describe_more(&place, buffer);
        return result;
    }
    if (!tree_stands_in(&place, folder, path))
        return result;
    if (place.kind == TREE_OTHER)
        return real(statx)(AT_FDCWD, place.other, flags, mask, buffer);
    describe_more(&place, buffer);
    return 0;
}

/* ---- Access rights, links, attributes ------------------------------------------------------------------ */

EXPORT int faccessat(int folder, const char *path, int mode, int flags)
{
    int result = real(faccessat)(folder, path, mode, flags);
    struct tree_place place;

    if (result == 0 || !tree_stands_in(&place, folder, path))
        return result;
    if (place.kind == TREE_OTHER)
        return real(access)(place.other, mode);
    if (!(mode & W_OK) && (!(mode & X_OK) || place.kind == TREE_FOLDER))
        return 0;
    errno = EACCES;
    return -1;
}

EXPORT int access(const char *path, int mode)
{
    return faccessat(AT_FDCWD, path, mode, 0);
}

static ssize_t readlink_failed(ssize_t result, int folder, const char *path, char *buffer, size_t room)
{
    struct tree_place place;

    if (result != -1 || !tree_stands_in(&place, folder, path))
        return result;
    if (place.kind == TREE_OTHER)
        return real(readlink)(place.other, buffer, room);
    errno = EINVAL; /* it is no link */
    return -1;
}

EXPORT ssize_t readlink(const char *restrict path, char *restrict buffer, size_t room)
{
    return readlink_failed(real(readlink)(path, buffer, room), AT_FDCWD, path, buffer, room);
}

EXPORT ssize_t readlinkat(int folder, const char *restrict path, char *restrict buffer, size_t room)
{
    return readlink_failed(real(readlinkat)(folder, path, buffer, room), folder, path, buffer, room);
}

/* Extended attributes, which ls -l reads. The tree's files have none. */
static ssize_t attribute_failed(ssize_t result, const char *path)
{
    struct tree_place place;

    if (result == -1 && tree_stands_in(&place, AT_FDCWD, path))
        errno = ENOTSUP;
    return result;
}

EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t room)
{
    return attribute_failed(real(getxattr)(path, name, value, room), path);
}

EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t room)
{
    return attribute_failed(real(lgetxattr)(path, name, value, room), path);
}

EXPORT char *realpath(const char *restrict path, char *restrict resolved)
{
    char *result = real(realpath)(path, resolved);
    struct tree_place place;

    if (result != NULL || path == NULL || !tree_stands_in(&place, AT_FDCWD, path))
        return result;
    if (place.kind == TREE_OTHER && real(access)(place.other, F_OK) == -1)
        return NULL;
    if (resolved == NULL)
        return strdup(place.path);
    return memcpy(resolved, place.path, strlen(place.path) + 1);
}

/* Programs that were built with _FORTIFY_SOURCE call this. */
EXPORT char *__realpath_chk(const char *path, char *resolved, size_t room);
EXPORT char *__realpath_chk(const char *path, char *resolved, size_t room)
{
    if (room < PATH_MAX)
        abort();
    return realpath(path, resolved);
}

/* ---- Opening ------------------------------------------------------------------------------------------- */

static int open_any(int folder, const char *path, int flags, mode_t mode)
{
    int fd = real(openat)(folder, path, flags, mode);
    struct tree_place place;

    return fd != -1 || !tree_stands_in(&place, folder, path) ? fd : tree_open(&place, flags);
}

/* The argument behind `flags`, which exists only if the call may create a file. */
#define MODE(flags)                                                                                            \
    ({                                                                                                         \
        mode_t mode_ = 0;                                                                                      \
        if ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE) {                                             \
            va_list rest_;                                                                                     \
            va_start(rest_, flags);                                                                            \
            mode_ = va_arg(rest_, mode_t);                                                                     \
            va_end(rest_);                                                                                     \
        }                                                                                                      \
        mode_;                                                                                                 \
    })

EXPORT int open(const char *path, int flags, ...)
{
    return open_any(AT_FDCWD, path, flags, MODE(flags));
}

EXPORT int open64(const char *path, int flags, ...)
{
    return open_any(AT_FDCWD, path, flags | O_LARGEFILE, MODE(flags));
}

EXPORT int openat(int folder, const char *path, int flags, ...)
{
    return open_any(folder, path, flags, MODE(flags));
}

EXPORT int openat64(int folder, const char *path, int flags, ...)
{
    return open_any(folder, path, flags | O_LARGEFILE, MODE(flags));
}

/* Programs that were built with _FORTIFY_SOURCE call these. They create no file. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open64_2(const char *path, int flags);
EXPORT int __openat_2(int folder, const char *path, int flags);
EXPORT int __openat64_2(int folder, const char *path, int flags);

EXPORT int __open_2(const char *path, int flags)
{
    return open_any(AT_FDCWD, path, flags, 0);
}

EXPORT int __open64_2(const char *path, int flags)
{
    return open_any(AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

EXPORT int __openat_2(int folder, const char *path, int flags)
{
    return open_any(folder, path, flags, 0);
}

EXPORT int __openat64_2(int folder, const char *path, int flags)
{
    return open_any(folder, path, flags | O_LARGEFILE, 0);
}

static FILE *fopen_failed(const char *path, const char *mode)
{
    struct tree_place place;
    int fd, flags = mode[0] == 'r' && strchr(mode, '+') == NULL ? O_RDONLY : O_RDWR;
    FILE *file;

    if (!tree_stands_in(&place, AT_FDCWD, path))
        return NULL;
    fd = tree_open(&place, strchr(mode, 'e') != NULL ? flags | O_CLOEXEC : flags);
    file = fd == -1 ? NULL : fdopen(fd, mode);
    if (file == NULL && fd != -1)
        close(fd);
    return file;
}

EXPORT FILE *fopen(const char *restrict path, const char *restrict mode)
{
    FILE *file = real(fopen)(path, mode);

    return file != NULL ? file : fopen_failed(path, mode);
}

EXPORT FILE *fopen64(const char *restrict path, const char *restrict mode)
{
    FILE *file = real(fopen64)(path, mode);

    return file != NULL ? file : fopen_failed(path, mode);
}
