/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_wakefd.c - the list of the peers' eventfds, by the kernel's number: shm_wakefd.h. */
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
#include "shm_wakefd.h"

static struct {
    pthread_mutex_t lock;
    LIST_HEAD(, shm_wakefd) list; /* those whose number is known */
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether a peer's descriptor can be used as an eventfd. A write must not block, nor raise a signal as a pipe can. A
 * descriptor without a file type is an eventfd, or can't be written. False and errno. */
static bool is_wakefd(int fd)
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

/* The kernel's number of an eventfd, in /proc since Linux 5.2. -1: there is none, or no /proc, or no free descriptor to
 * read it with. (locked, so that no thread is cancelled inside) */
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
static struct shm_wakefd *find_wakefd(int number)
{
    struct shm_wakefd *wakefd;

    LIST_FOREACH (wakefd, &known.list, wakefds)
        if (wakefd->number == number)
            return wakefd;
    return NULL;
}

/* Makes a struct for this descriptor. NULL: no memory. (locked) */
static struct shm_wakefd *new_wakefd(int fd, int number)
{
    struct shm_wakefd *wakefd = malloc(sizeof *wakefd);

    if (wakefd == NULL)
        return NULL;
    *wakefd = (struct shm_wakefd){.fd = fd, .number = number};
    if (number != -1)
        LIST_INSERT_HEAD(&known.list, wakefd, wakefds);
    return wakefd;
}

struct shm_wakefd *shm_wakefd_take(int fd)
{
    struct shm_wakefd *wakefd;
    int number;

    if (!is_wakefd(fd))
        return NULL;
    soft_mutex_lock(&known.lock);
    number = number_of(fd);
    wakefd = number == -1 ? NULL : find_wakefd(number);
    if (wakefd != NULL)
        fds_close(fd);
    else
        wakefd = new_wakefd(fd, number);
    if (wakefd != NULL)
        wakefd->users++;
    soft_mutex_unlock(&known.lock);
    return wakefd;
}

void shm_wakefd_give_back(struct shm_wakefd *wakefd)
{
    soft_mutex_lock(&known.lock);
    bool is_last = --wakefd->users == 0;

    if (is_last && wakefd->number != -1)
        LIST_REMOVE(wakefd, wakefds);
    soft_mutex_unlock(&known.lock);
    if (!is_last)
        return;
    fds_close(wakefd->fd);
    free(wakefd);
}

void shm_wakefd_ring(int fd)
{
    (void)fds_flag(fd, true); /* it fails only if the counter is at its maximum: readable anyway */
}

void shm_wakefd_forget(void)
{
    struct shm_wakefd *wakefd;

    pthread_mutex_init(&known.lock, NULL);
    LIST_FOREACH (wakefd, &known.list, wakefds)
        wakefd->number = -1;
    LIST_INIT(&known.list);
}
