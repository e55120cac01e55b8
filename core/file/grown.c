/* SPDX-License-Identifier: BSD-2-Clause */
/* grown.c - tracks the length of files that are received into. See grown.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/base/log.h"
#include "grown.h"

struct grown {
    LIST_ENTRY(grown) link;
    dev_t device;
    ino_t inode;
    unsigned receives;
    /* bytes: the file's length when the first receive began, or up to the last byte received */
    uint64_t length;
    uint64_t made; /* bytes: length to which a window extended the file; 0: none did */
};

/* Guards the list and its entries. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, grown) all = LIST_HEAD_INITIALIZER(all);

static struct grown *find_grown(const struct stat *status)
{
    struct grown *grown;

    LIST_FOREACH (grown, &all, link) {
        if (grown->device == status->st_dev && grown->inode == status->st_ino)
            return grown;
    }
    return NULL;
}

static struct grown *new_grown(const struct stat *status)
{
    struct grown *grown = calloc(1, sizeof *grown);

    if (grown == NULL)
        return NULL;
    grown->device = status->st_dev;
    grown->inode = status->st_ino;
    grown->length = (uint64_t)status->st_size;
    LIST_INSERT_HEAD(&all, grown, link);
    return grown;
}

struct grown *grown_join(int fd)
{
    struct grown *grown = NULL;
    struct stat status;

    pthread_mutex_lock(&lock);
    if (fstat(fd, &status) == 0 && (grown = find_grown(&status)) == NULL)
        grown = new_grown(&status);
    if (grown != NULL)
        grown->receives++;
    pthread_mutex_unlock(&lock);
    return grown;
}

static void raise_to(uint64_t *number, uint64_t to)
{
    pthread_mutex_lock(&lock);
    if (*number < to)
        *number = to;
    pthread_mutex_unlock(&lock);
}

void grown_by(struct grown *grown, uint64_t length)
{
    raise_to(&grown->made, length);
}

void grown_keep(struct grown *grown, uint64_t length)
{
    raise_to(&grown->length, length);
}

/* If another process changed the file's length, keep its length. */
static void cut_back(const struct grown *grown, int fd)
{
    struct stat status;

    if (grown->made > grown->length && fstat(fd, &status) == 0 && (uint64_t)status.st_size == grown->made &&
        ftruncate(fd, (off_t)grown->length) < 0)
        xs_log("cannot truncate a file to the bytes received: %s", strerror(errno));
}

void grown_leave(struct grown *grown, int fd)
{
    pthread_mutex_lock(&lock);
    if (--grown->receives == 0) {
        cut_back(grown, fd);
        LIST_REMOVE(grown, link);
        free(grown);
    }
    pthread_mutex_unlock(&lock);
}

void grown_reset(void)
{
    pthread_mutex_init(&lock, NULL);
    LIST_INIT(&all);
}
