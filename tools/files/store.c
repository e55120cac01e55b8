/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing files into one directory, whole or not at all. */
#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".exs-"
#define SUFFIX ".part"

static int is_temporary(const char *name)
{
    size_t length = strlen(name);

    return length > strlen(PREFIX SUFFIX) && strncmp(name, PREFIX, strlen(PREFIX)) == 0 &&
           strcmp(name + length - strlen(SUFFIX), SUFFIX) == 0;
}

static int remove_leftovers(int directory)
{
    int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy == -1 ? NULL : fdopendir(copy);
    struct dirent *entry;

    if (stream == NULL) {
        if (copy != -1)
            close(copy);
        return -1;
    }
    while ((entry = readdir(stream)) != NULL)
        if (is_temporary(entry->d_name))
            unlinkat(directory, entry->d_name, 0);
    closedir(stream);
    return 0;
}

int store_open(struct store *store, const char *path)
{
    store->next = 0;
    store->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->directory == -1)
        return -1;
    if (flock(store->directory, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK) {
        errno = EBUSY;
        goto failed;
    }
    if (remove_leftovers(store->directory) == 0)
        return 0;
failed:
    store_close(store);
    return -1;
}

void store_close(struct store *store)
{
    int saved = errno;

    close(store->directory);
    store->directory = -1;
    errno = saved;
}

int store_begin(struct store *store, struct incoming *file, const char *name, size_t length)
{
    file->store = store;
    memcpy(file->name, name, length);
    file->name[length] = '\0';
    snprintf(file->temporary, sizeof(file->temporary), PREFIX "%u" SUFFIX, store->next++);
    file->fd =
        openat(store->directory, file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return file->fd == -1 ? -1 : 0;
}

int store_write(struct incoming *file, const void *data, size_t length, uint64_t offset)
{
    const char *next = data;

    while (length > 0) {
        ssize_t written = pwrite(file->fd, next, length, (off_t)offset);

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

int store_commit(struct incoming *file)
{
    int fd = file->fd;

    file->fd = -1;
    /* Some file systems report a failed write only here. */
    if (close(fd) == 0 &&
        renameat(file->store->directory, file->temporary, file->store->directory, file->name) == 0)
        return 0;
    int saved = errno;
    unlinkat(file->store->directory, file->temporary, 0);
    errno = saved;
    return -1;
}

void store_discard(struct incoming *file)
{
    if (file->fd == -1)
        return;
    close(file->fd);
    file->fd = -1;
    unlinkat(file->store->directory, file->temporary, 0);
}
