/* SPDX-License-Identifier: BSD-2-Clause */
/* slow_close.c - the queue of connections to close, and the thread that closes them: slow_close.h. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include "core/base/fds.h"
#include "core/base/threads.h"
#include "shm_pass.h"
#include "slow_close.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#define MOST 64 /* connections in the queue, for new ones to be accepted */

struct guest {
    int fd;
    STAILQ_ENTRY(guest) link;
};

/* All guarded by the lock. */
static struct {
    pthread_mutex_t lock;
    STAILQ_HEAD(, guest) line;
    unsigned count; /* in the queue, or being closed */
    bool runs;      /* the thread runs */
    bool guards;    /* the kernel forbids descriptors (SO_PASSRIGHTS) */
} out = {.lock = PTHREAD_MUTEX_INITIALIZER, .line = STAILQ_HEAD_INITIALIZER(out.line)};

static void *run_refusals(void *arg)
{
    struct guest *guest;

    pthread_setname_np(pthread_self(), "exs-close");
    pthread_mutex_lock(&out.lock);
    while ((guest = STAILQ_FIRST(&out.line)) != NULL) {
        STAILQ_REMOVE_HEAD(&out.line, link);
        pthread_mutex_unlock(&out.lock);
        fds_close(guest->fd);
        free(guest);
        pthread_mutex_lock(&out.lock);
        out.count--;
    }
    out.runs = false;
    pthread_mutex_unlock(&out.lock);
    return arg;
}

bool slow_close_has_room(void)
{
    pthread_mutex_lock(&out.lock);

    bool has_room = out.count < MOST;

    pthread_mutex_unlock(&out.lock);
    return has_room;
}

/* If the thread can't be started, they stay in the queue until a later call can start it. */
void slow_close(int fd)
{
    struct guest *guest = malloc(sizeof *guest);

    if (guest == NULL) {
        fds_close(fd);
        return;
    }
    guest->fd = fd;
    pthread_mutex_lock(&out.lock);
    STAILQ_INSERT_TAIL(&out.line, guest, link);
    out.count++;
    if (!out.runs)
        out.runs = threads_start(NULL, run_refusals) == 0;
    pthread_mutex_unlock(&out.lock);
}

void slow_close_guard(int listener)
{
    int left = 1;
    socklen_t length = sizeof left;
    bool guards = fds_set_option(listener, SOL_SOCKET, SO_PASSRIGHTS, 0) == 0 &&
                  getsockopt(listener, SOL_SOCKET, SO_PASSRIGHTS, &left, &length) == 0 && left == 0;

    pthread_mutex_lock(&out.lock);
    out.guards = guards;
    pthread_mutex_unlock(&out.lock);
}

static bool is_guarding(void)
{
    pthread_mutex_lock(&out.lock);

    bool guards = out.guards;

    pthread_mutex_unlock(&out.lock);
    return guards;
}

bool slow_close_guard_has_room(void)
{
    return is_guarding() || slow_close_has_room();
}

void slow_close_guarded(int guest)
{
    if (is_guarding())
        fds_close(guest);
    else
        slow_close(guest);
}

/* After shutdown() no client can connect, so this loop ends. */
void slow_close_listener(int listener)
{
    int guest;

    (void)shutdown(listener, SHUT_RDWR);
    while ((guest = fds_own(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK))) != -1) {
        if (shm_pass_is_ours(guest))
            fds_close(guest);
        else
            slow_close(guest);
    }
    fds_close(listener);
}

void slow_close_forget(void)
{
    pthread_mutex_init(&out.lock, NULL);
    STAILQ_INIT(&out.line);
    out.count = 0;
    out.runs = false;
}
