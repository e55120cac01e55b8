/* SPDX-License-Identifier: BSD-2-Clause */
/* store.c - writes files below one directory, each completely or not at all; see store.h. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "folders.h"
#include "kept.h"
#include "permits.h"
#include "special.h"
#include "sparse.h"

#define RESERVE_MAX (UINT64_C(1) << 30) /* bytes of the disk that stay free for other programs */
#define RESERVE_SHARE 20                /* if less, one part in this number of the free space */

static uint64_t free_bytes(const struct statvfs *status)
{
    uint64_t left = (uint64_t)status->f_bavail * status->f_frsize;
    uint64_t reserve = (uint64_t)status->f_blocks * status->f_frsize / RESERVE_SHARE;

    if (reserve > RESERVE_MAX)
        reserve = RESERVE_MAX;
    return left > reserve ? left - reserve : 0;
}

static int set_limits(struct store *store, const struct store_limits *limits)
{
    struct statvfs status;

    store->limits = *limits;
    store->bytes = store->files = 0;
    if (limits->total == 0) {
        if (fstatvfs(store->directory, &status) == -1)
            return -1;
        store->limits.total = free_bytes(&status);
    }
    return 0;
}

int store_open(struct store *store, const char *path, const struct store_limits *limits)
{
    store->next = 0;
    store->has_below = false;
    STAILQ_INIT(&store->kept);
    store->kept_count = 0;
    recent_init(&store->recent);
    store->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->directory == -1)
        return -1;
    if (flock(store->directory, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK) {
        errno = EBUSY;
        goto failed;
    }
    /* Calls fsync() once at the start: on a file system without fsync() of folders each file would fail. */
    if ((!limits->syncs || fsync(store->directory) == 0) && leftovers_remove(store->directory) == 0 &&
        set_limits(store, limits) == 0)
        return 0;
failed:
    store_close(store);
    return -1;
}

void store_close(struct store *store)
{
    int saved = errno;

    while (kept_drop(store))
        ;
    if (store->has_below)
        leftovers_unmark(store->directory);
    recent_forget(&store->recent);
    close(store->directory);
    store->directory = -1;
    errno = saved;
}

/* Drops kept files until the limits permit this number of further bytes and files. */
static void make_room(struct store *store, uint64_t bytes, uint64_t files)
{
    const struct store_limits *limits = &store->limits;

    while (bytes > limits->total - store->bytes || files > limits->files - store->files)
        if (!kept_drop(store))
            return;
}

const char *store_refuses(const struct store *store, uint64_t size, uint64_t there,
                          char room[TRANSFER_TEXT_MAX])
{
    const struct store_limits *limits = &store->limits;

    if (limits->file != 0 && size > limits->file) {
        snprintf(room, TRANSFER_TEXT_MAX, "a file may have %" PRIu64 " bytes (exs-serve -s)", limits->file);
        return room;
    }
    uint64_t left = limits->total - store->bytes + kept_bytes(store);
    uint64_t files = store->files - (uint64_t)store->kept_count;

    if (size - there > left)
        snprintf(room, TRANSFER_TEXT_MAX,
                 "%" PRIu64 " bytes are left of what the server may take (exs-serve -S)", left);
    else if (there == 0 && files >= limits->files)
        snprintf(room, TRANSFER_TEXT_MAX,
                 "the server has taken %" PRIu64 " files, and may no more (exs-serve -n)", files);
    else
        return NULL;
    return room;
}

/* Tries numbers until a name is free: another program may have created files with such names. */
static int open_temporary(struct incoming *file)
{
    struct store *store = file->store;

    do {
        leftovers_name(file->temporary, store->next++);
        file->fd =
            openat(file->folder, file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    } while (file->fd == -1 && errno == EEXIST);
    return file->fd == -1 ? -1 : 0;
}

/* Creates the temporary file in the target folder, or in the last folder on its path that exists. The file then has
 * the group and the ACL of that folder, and is on its file system, so that it can be renamed. */
static int create_temporary(struct incoming *file)
{
    struct store *store = file->store;
    struct stat status;

    if (file->rest > 0 && !store->has_below) {
        leftovers_mark(store->directory);
        store->has_below = true;
    }
    if (open_temporary(file) == -1)
        return -1;
    if (fstat(file->fd, &status) == -1) {
        unlinkat(file->folder, file->temporary, 0);
        close(file->fd);
        file->fd = -1;
        errno = EIO;
        return -1;
    }
    file->device = status.st_dev;
    file->inode = status.st_ino;
    file->permitted = strchr(file->name + file->rest, '/') == NULL
                          ? recent_permits(&store->recent)
                          : permits_in(file->folder, store->recent.mask);
    return 0;
}

static int open_incoming(struct incoming *file)
{
    const char *rest;

    file->folder = recent_reach(&file->store->recent, file->store->directory, file->name, &rest);
    if (file->folder == -1)
        return -1;
    file->rest = (size_t)(rest - file->name);
    if ((strchr(rest, '/') != NULL || folders_check_last(file->folder, rest) == 0) &&
        create_temporary(file) == 0)
        return 0;
    int saved = errno;

    close(file->folder);
    file->folder = -1;
    errno = saved;
    return -1;
}

int store_begin(struct store *store, struct incoming *file, const char *name,
                const struct transfer_header *header)
{
    file->store = store;
    file->written = 0;
    file->fd = file->folder = -1;
    make_room(store, 0, 1);
    if (store->files >= store->limits.files) { /* store_refuses() gives the client the reason */
        errno = EDQUOT;
        return -1;
    }
    memcpy(file->name, name, header->name_length);
    file->name[header->name_length] = '\0';
    file->header = *header;
    if (open_incoming(file) == -1)
        return -1;
    store->files++;
    return 0;
}

int store_special(struct store *store, const char *name, const struct transfer_header *header,
                  const char *target)
{
    uint64_t may_make;
    int result;

    make_room(store, 0, 1);
    if (store->files >= store->limits.files) {
        errno = EDQUOT;
        return -1;
    }
    uint64_t left = may_make = store->limits.files - store->files;

    if (header->kind == TRANSFER_LINK)
        result = special_make_link(store->directory, name, header, target, &may_make);
    else
        result = special_make_folder(store->directory, name, header, store->recent.mask, &may_make);
    store->files += left - may_make;
    if (result == 0 && header->kind == TRANSFER_LINK)
        store->files++;
    return result == 0 && store->limits.syncs ? folders_sync(store->directory, name) : result;
}

/* Starts writing these bytes to the disk, so that fsync() at the end takes less time. */
static void begin_to_sync(const struct incoming *file, uint64_t offset, size_t length)
{
    if (file->store->limits.syncs)
        sync_file_range(file->fd, (off_t)offset, (off_t)length, SYNC_FILE_RANGE_WRITE);
}

/* Whether the disk is full, or the user's quota exceeded. */
static bool is_full(int error)
{
    return error == ENOSPC || error == EDQUOT;
}

int store_write(struct incoming *file, const void *data, size_t length, uint64_t offset)
{
    struct store *store = file->store;
    const char *next = data;

    make_room(store, length, 0);
    if (length >
        store->limits.total - store->bytes) { /* other files were received since the check of this one */
        errno = EDQUOT;
        return -1;
    }
    file->written += length;
    store->bytes += length;
    while (length > 0) {
        ssize_t written = sparse_write(file->fd, next, length, offset);

        if (written == -1 && (errno == EINTR || (is_full(errno) && kept_drop(store))))
            continue;
        if (written == -1)
            return -1;
        begin_to_sync(file, offset, (size_t)written);
        next += written;
        offset += (uint64_t)written;
        length -= (size_t)written;
    }
    return 0;
}

int store_rewind(struct incoming *file)
{
    file->store->bytes -= file->written;
    file->written = 0;
    return ftruncate(file->fd, 0);
}

/* Whether the temporary name belongs to another file: 0 or 1, or -1 and errno. That is so if another server, for
 * example on another host, has opened the same directory, removed this file as a leftover, and used its name again. */
static int is_anothers(const struct incoming *file)
{
    struct stat status;

    if (fstatat(file->folder, file->temporary, &status, AT_SYMLINK_NOFOLLOW) == -1)
        return -1;
    return status.st_dev != file->device || status.st_ino != file->inode;
}

/* Returns 0, or -1 and errno: ESTALE if the temporary name belongs to another file or does not exist. */
static int check_temporary(const struct incoming *file)
{
    int other = is_anothers(file);

    if (other == 1 || (other == -1 && errno == ENOENT))
        errno = ESTALE;
    return other == 0 ? 0 : -1;
}

static void close_folder(struct incoming *file)
{
    int saved = errno;

    if (file->folder != -1)
        close(file->folder);
    file->folder = -1;
    errno = saved;
}

/* Removes the temporary file, and releases its bytes and its place in the limits. */
static void give_back(struct incoming *file)
{
    int saved = errno;

    if (is_anothers(file) != 1)
        unlinkat(file->folder, file->temporary, 0);
    close_folder(file);
    file->store->bytes -= file->written;
    file->store->files--;
    errno = saved;
}

/* Sets the permissions of the client's file, except those that files may not have here, and its time. Errors are
 * ignored: some file systems do not support them. */
static void keep_details(const struct incoming *file)
{
    const struct transfer_header *header = &file->header;
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT},
                                     {.tv_sec = (time_t)header->seconds, .tv_nsec = header->nanoseconds}};

    fchmod(file->fd, (header->version == TRANSFER_PLAIN ? 0666 : header->mode) & file->permitted);
    if (header->version == TRANSFER_PLAIN)
        return; /* version 1 has no time */
    futimens(file->fd, times);
}

/* Renames the file. Returns 0, or -1 and errno. *named: the rename succeeded, also if syncing it failed. */
static int give_name(struct incoming *file, bool *named)
{
    struct store *store = file->store;
    uint64_t left = store->limits.files - store->files, may_make = left;
    const char *last = file->name + file->rest;
    int folder = strchr(last, '/') == NULL ? file->folder : folders_open(file->folder, last, &last, &may_make);

    store->files += left - may_make;
    if (folder == -1)
        return -1;
    int result = folders_check_last(folder, last);

    if (result == 0)
        result = renameat(file->folder, file->temporary, folder, last);
    *named = result == 0;
    if (result == 0 && store->limits.syncs)
        result = folders_sync(store->directory, file->name);
    int saved = errno;

    if (folder != file->folder)
        close(folder);
    errno = saved;
    return result;
}

int store_commit(struct incoming *file)
{
    int fd = file->fd;

    keep_details(file);
    file->fd = -1;
    bool synced = !file->store->limits.syncs || fsync(fd) == 0, named = false;

    /* Some file systems report a failed write only on close. */
    if (close(fd) == 0 && synced && check_temporary(file) == 0 && give_name(file, &named) == 0) {
        close_folder(file);
        return 0;
    }
    if (!named)
        give_back(file);
    close_folder(file);
    return -1;
}

void store_discard(struct incoming *file)
{
    if (file->fd == -1)
        return;
    close(file->fd);
    file->fd = -1;
    give_back(file);
}
