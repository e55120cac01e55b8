/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_bell.c - the list of the peers' eventfds, by the kernel's number: shm_bell.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "core/base/fds.h"
#include "soft/lock.h"
#include "shm_bell.h"

static struct {
    pthread_mutex_t lock;
    LIST_HEAD(, shm_bell) list; /* those whose number is known */
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether a peer's descriptor can be used as an eventfd. A write must not block, nor raise a signal as a pipe can. A
 * descriptor without a file type is an eventfd, or can't be written. False and errno. */
static bool is_bell(int fd)
{
    struct stat info;
    int flags = fcntl(fd, F_GETFL);

    if (flags == -1 || fstat(fd, &info) == -1) {
        if (errno != ENOMEM && errno != EMFILE) /* but report a shortage as it is */
            errno = EPROTO;
        return false;
    }
    errno = EPROTO;
    return (flags & O_NONBLOCK) != 0 && (info.st_mode & S_IFMT) == 0;
}

/* The kernel's number of an eventfd, in /proc since Linux 5.2. -1: there is none, or no /proc, or no descriptor left
 * to read it. (locked, so that no thread is cancelled inside) */
static int number_of(int fd)
{
    static const char label[] = "eventfd-id:";
    char path[64], text[512];

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    fds_read_text(path, text, sizeof text);

    const char *at = strstr(text, label);
    long number = at != NULL ? strtol(at + sizeof label - 1, NULL, 10) : -1;

    return number >= 0 ? (int)number : -1; /* the kernel may have had no number for it */
}

/* (locked) */
static struct shm_bell *find(int number)
{
    struct shm_bell *bell;

    LIST_FOREACH (bell, &known.list, bells)
        if (bell->number == number)
            return bell;
    return NULL;
}

/* Makes a struct for this descriptor. NULL: no memory. (locked) */
static struct shm_bell *hang(int fd, int number)
{
    struct shm_bell *bell = malloc(sizeof *bell);

    if (bell == NULL)
        return NULL;
    *bell = (struct shm_bell){.fd = fd, .number = number};
    if (number != -1)
        LIST_INSERT_HEAD(&known.list, bell, bells);
    return bell;
}

struct shm_bell *shm_bell_take(int fd)
{
    struct shm_bell *bell;
    int number;

    if (!is_bell(fd))
        return NULL;
    soft_mutex_lock(&known.lock);
    number = number_of(fd);
    bell = number == -1 ? NULL : find(number);
    if (bell != NULL)
        fds_close(fd);
    else
        bell = hang(fd, number);
    if (bell != NULL)
        bell->users++;
    soft_mutex_unlock(&known.lock);
    return bell;
}

void shm_bell_give_back(struct shm_bell *bell)
{
    soft_mutex_lock(&known.lock);
    bool is_last = --bell->users == 0;

    if (is_last && bell->number != -1)
        LIST_REMOVE(bell, bells);
    soft_mutex_unlock(&known.lock);
    if (!is_last)
        return;
    fds_close(bell->fd);
    free(bell);
}

void shm_bell_ring(int fd)
{
    (void)fds_flag(fd, true); /* it fails only if the counter is at its maximum: readable anyway */
}

void shm_bell_forget(void)
{
    struct shm_bell *bell;

    pthread_mutex_init(&known.lock, NULL);
    LIST_FOREACH (bell, &known.list, bells)
        bell->number = -1;
    LIST_INIT(&known.list);
}
