/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * folders.c - the C library's functions that list directories (opendir(), readdir(), scandir(), glob() ...), with the
 * device's files (tree.h). If the system has the directory, too, its entries are listed first, so that the software
 * device appears next to the kernel's devices.
 *
 * A DIR of this library is a struct folder. It begins with a mark that tells it from the C library's DIR, whose first
 * word is a descriptor or a position in the directory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "preload.h"
#include "tree.h"

#define MARK UINT64_C(0xe85f01de85f01de8)
#define DOTS 2 /* "." and ".." */

struct folder { /* used by one thread at a time, as any DIR */
    uint64_t mark;
    DIR *theirs;   /* the system's directory, or NULL */
    int fd;        /* -1: dirfd() was not called yet */
    int count, at; /* number of `names`; position among them, counting "." and ".." if `theirs` is NULL */
    struct tree_place place;
    struct dirent entry;
    char names[TREE_NAMES][TREE_NAME];
};

static struct folder *own_folder(DIR *stream)
{
    struct folder *folder = (struct folder *)(void *)stream;

    return folder != NULL && folder->mark == MARK ? folder : NULL;
}

/* Whether a path is one of the tree's. Only absolute paths: a relative one depends on the process's working
 * directory. */
static bool leads_there(struct tree_place *place, const char *path)
{
    return path[0] == '/' && tree_find(place, "", path);
}

/* Removes the names that the system has in the same directory, which it lists itself. */
static void leave_out(struct folder *folder)
{
    struct stat found;
    int kept = 0;

    for (int i = 0; i < folder->count; i++) {
        if (real(fstatat)(real(dirfd)(folder->theirs), folder->names[i], &found, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        memmove(folder->names[kept++], folder->names[i], TREE_NAME);
    }
    folder->count = kept;
}

/* Creates a DIR of this library. NULL: out of memory. */
static DIR *make_folder(const struct tree_place *place, DIR *theirs, int fd)
{
    struct folder *folder = calloc(1, sizeof *folder);

    if (folder == NULL)
        return NULL;
    folder->mark = MARK;
    folder->theirs = theirs;
    folder->fd = fd;
    folder->place = *place;
    folder->count = tree_names(place, folder->names);
    if (theirs != NULL)
        leave_out(folder);
    return (DIR *)folder;
}

/* ---- Opening and closing ------------------------------------------------------------------------------- */

static DIR *append_own_entries(const struct tree_place *place, DIR *theirs)
{
    int error = errno;
    DIR *joined = make_folder(place, theirs, -1);

    errno = error;
    return joined == NULL ? theirs : joined;
}

EXPORT DIR *opendir(const char *path)
{
    DIR *opened = real(opendir)(path);
    struct tree_place place;

    if (opened != NULL)
        return leads_there(&place, path) && tree_is_shared(&place) ? append_own_entries(&place, opened)
                                                                   : opened;
    if (!tree_stands_in(&place, AT_FDCWD, path))
        return NULL;
    if (place.kind == TREE_OTHER)
        return real(opendir)(place.other);
    if (place.kind == TREE_FOLDER)
        return make_folder(&place, NULL, -1);
    errno = ENOTDIR;
    return NULL;
}

EXPORT DIR *fdopendir(int fd)
{
    struct tree_place place;
    char path[TREE_PATH];
    DIR *opened;

    if (tree_opened(&place, fd) && place.kind == TREE_FOLDER)
        return make_folder(&place, NULL, fd);
    opened = real(fdopendir)(fd);
    if (opened != NULL && tree_path_of(path, fd) && tree_find(&place, "", path) && tree_is_shared(&place))
        return append_own_entries(&place, opened);
    return opened;
}

EXPORT int closedir(DIR *stream)
{
    struct folder *folder = own_folder(stream);
    int result = 0;

    if (folder == NULL)
        return real(closedir)(stream);
    if (folder->theirs != NULL)
        result = real(closedir)(folder->theirs);
    if (folder->fd != -1)
        close(folder->fd);
    folder->mark = 0;
    free(folder);
    return result;
}

EXPORT int dirfd(DIR *stream)
{
    struct folder *folder = own_folder(stream);

    if (folder == NULL)
        return real(dirfd)(stream);
    if (folder->theirs != NULL)
        return real(dirfd)(folder->theirs);
    if (folder->fd == -1)
        folder->fd = tree_open(&folder->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder->fd;
}

/* ---- Reading ------------------------------------------------------------------------------------------- */

/* The next of this library's entries; NULL: there are no more. */
static struct dirent *next_entry(struct folder *folder)
{
    struct dirent *entry = &folder->entry;
    int dots = folder->theirs == NULL ? DOTS : 0, at = folder->at;
    const char *name;

    if (at == dots + folder->count)
        return NULL;
    name = at < dots ? &".."[at == 0] : folder->names[at - dots];
    snprintf(entry->d_name, sizeof entry->d_name, "%s", name);
    entry->d_type = at < dots ? DT_DIR : tree_type(&folder->place, name);
    entry->d_ino = tree_number(&folder->place) ^ (uint64_t)(at + 1) << 1; /* not 0, an invalid inode number */
    entry->d_reclen = sizeof *entry;
    entry->d_off = folder->at = at + 1;
    return entry;
}

EXPORT struct dirent *readdir(DIR *stream)
{
    struct folder *folder = own_folder(stream);
    struct dirent *entry = NULL;

    if (folder == NULL)
        return real(readdir)(stream);
    if (folder->theirs != NULL && folder->at == 0)
        entry = real(readdir)(folder->theirs);
    return entry != NULL ? entry : next_entry(folder);
}

/* Called by programs that are older than its deprecation. The C library's function would use the mark as a lock. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
EXPORT int readdir_r(DIR *restrict stream, struct dirent *restrict entry, struct dirent **restrict result)
{
    const struct dirent *found;
    int before = errno, error;

    if (own_folder(stream) == NULL)
        return real(readdir_r)(stream, entry, result);
    errno = 0;
    found = readdir(stream);
    error = found == NULL ? errno : 0;
    errno = before;
    *result = found == NULL ? NULL : entry;
    if (found != NULL)
        memcpy(entry, found, offsetof(struct dirent, d_name) + strlen(found->d_name) + 1);
    return error;
}

/* The variants for large files. */
EXPORT struct dirent64 *readdir64(DIR *stream)
{
    return (struct dirent64 *)(void *)readdir(stream);
}

EXPORT int readdir64_r(DIR *restrict stream, struct dirent64 *restrict entry, struct dirent64 **restrict result)
{
    return readdir_r(stream, (struct dirent *)(void *)entry, (struct dirent **)(void *)result);
}
#pragma GCC diagnostic pop

EXPORT void rewinddir(DIR *stream)
{
    struct folder *folder = own_folder(stream);

    if (folder == NULL) {
        real(rewinddir)(stream);
        return;
    }
    folder->at = 0;
    if (folder->theirs != NULL)
        real(rewinddir)(folder->theirs);
}

/* If the system has the directory, too, positions among this library's entries are negative. */
EXPORT long telldir(DIR *stream)
{
    struct folder *folder = own_folder(stream);

    if (folder == NULL)
        return real(telldir)(stream);
    if (folder->theirs == NULL)
        return folder->at;
    return folder->at == 0 ? real(telldir)(folder->theirs) : -folder->at;
}

EXPORT void seekdir(DIR *stream, long place)
{
    struct folder *folder = own_folder(stream);

    if (folder == NULL)
        real(seekdir)(stream, place);
    else if (folder->theirs == NULL || place < 0)
        folder->at = (int)(place < 0 ? -place : place);
    else {
        folder->at = 0;
        real(seekdir)(folder->theirs, place);
    }
}

/* ---- scandir(): the C library's would call the C library's readdir() ----------------------------------- */

struct list {
    struct dirent **names;
    size_t count;
};

/* False: out of memory. */
static bool append_entry(struct list *list, const struct dirent *entry)
{
    struct dirent **names = realloc(list->names, (list->count + 1) * sizeof names[0]);

    if (names == NULL)
        return false;
    list->names = names;
    names[list->count] = calloc(1, sizeof *entry);
    if (names[list->count] == NULL)
        return false;
    memcpy(names[list->count++], entry, offsetof(struct dirent, d_name) + strlen(entry->d_name) + 1);
    return true;
}

static bool gather_entries(DIR *stream, struct list *list, int (*wanted)(const struct dirent *))
{
    const struct dirent *entry;

    while ((entry = readdir(stream)) != NULL) {
        if ((wanted == NULL || wanted(entry) != 0) && !append_entry(list, entry))
            return false;
    }
    return true;
}

static int list_folder(const char *path, struct dirent ***names, int (*wanted)(const struct dirent *),
                       int (*compare)(const struct dirent **, const struct dirent **))
{
    DIR *stream = opendir(path);
    struct list list = {0};
    bool whole;

    if (stream == NULL)
        return -1;
    whole = gather_entries(stream, &list, wanted);
    closedir(stream);
    if (!whole) {
        while (list.count > 0)
            free(list.names[--list.count]);
        free(list.names);
        errno = ENOMEM;
        return -1;
    }
    if (compare != NULL && list.count > 0)
        qsort(list.names, list.count, sizeof list.names[0], (int (*)(const void *, const void *))compare);
    *names = list.names;
    return (int)list.count;
}

EXPORT int scandir(const char *restrict path, struct dirent ***restrict names,
                   int (*wanted)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **))
{
    struct tree_place place;

    return leads_there(&place, path) ? list_folder(path, names, wanted, compare)
                                     : real(scandir)(path, names, wanted, compare);
}

EXPORT int scandir64(const char *restrict path, struct dirent64 ***restrict names,
                     int (*wanted)(const struct dirent64 *),
                     int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
    struct tree_place place;

    return leads_there(&place, path)
               ? list_folder(path, (struct dirent ***)(void *)names, (int (*)(const struct dirent *))wanted,
                             (int (*)(const struct dirent **, const struct dirent **))compare)
               : real(scandir64)(path, names, wanted, compare);
}

/* ---- Patterns ------------------------------------------------------------------------------------------ */

static void *open_for_glob(const char *path)
{
    return opendir(path);
}

static struct dirent *read_for_glob(void *stream)
{
    return readdir(stream);
}

static void close_for_glob(void *stream)
{
    closedir(stream);
}

/* The C library's glob(), which calls the functions above (GLOB_ALTDIRFUNC). */
EXPORT int glob(const char *restrict pattern, int flags, int (*failed)(const char *, int),
                glob_t *restrict found)
{
    if (flags & GLOB_ALTDIRFUNC || !tree_may_match(pattern))
        return real(glob)(pattern, flags, failed, found);
    found->gl_opendir = open_for_glob;
    found->gl_readdir = read_for_glob;
    found->gl_closedir = close_for_glob;
    found->gl_stat = stat;
    found->gl_lstat = lstat;
    return real(glob)(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
}

EXPORT int glob64(const char *restrict pattern, int flags, int (*failed)(const char *, int),
                  glob64_t *restrict found)
{
    return glob(pattern, flags, failed, (glob_t *)(void *)found);
}
