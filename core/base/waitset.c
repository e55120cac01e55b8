/* SPDX-License-Identifier: BSD-2-Clause */
/* waitset.c - what a thread waits for: a list of descriptors to sleep on, or an epoll. See waitset.h. */
#include <errno.h>
#include "clock.h"
#include "fds.h"
#include "waitset.h"

/* ---- Life ---------------------------------------------------------------------------------------------- */

void waitset_init(struct waitset *set, enum doorbell_kind kind)
{
    *set = (struct waitset){.epoll = -1, .wakefd = DOORBELL_INIT(kind)};
    pthread_mutex_init(&set->lock, NULL);
}

void waitset_end(struct waitset *set)
{
    doorbell_close(&set->wakefd);
    if (set->epoll >= 0)
        fds_close(set->epoll);
    set->epoll = -1;
    pthread_mutex_destroy(&set->lock);
}

/* ---- The epoll ----------------------------------------------------------------------------------------- */

/* The functions in this section are called with the lock. */

static void wake_sleepers(struct waitset *set)
{
    if (set->wake != NULL)
        set->wake(set->sleepers);
}

static int watch_member(int epoll, int fd, uint32_t events, void *tag)
{
    struct epoll_event event = {.events = events, .data.ptr = tag};

    return fds_watch(epoll, fd, &event);
}

/* Returns 0, or -1 and errno. */
static int fill_epoll(const struct waitset *set, int epoll)
{
    if (watch_member(epoll, set->wakefd.fd, EPOLLIN, NULL) < 0)
        return -1;
    for (int i = 0; i < set->count; i++) {
        if (watch_member(epoll, set->members[i].fd, set->members[i].events, set->members[i].tag) < 0)
            return -1;
    }
    return 0;
}

/* The threads that sleep on the list are woken before a member is added that is not on it. */
static int make_epoll(struct waitset *set)
{
    int epoll = fds_epoll();

    if (epoll < 0)
        return -1;
    if (doorbell_make(&set->wakefd) < 0 || fill_epoll(set, epoll) < 0) {
        int saved = errno;

        doorbell_close(&set->wakefd);
        fds_close(epoll);
        errno = saved;
        return -1;
    }
    set->epoll = epoll;
    wake_sleepers(set);
    return 0;
}

static int find_member(const struct waitset *set, int fd)
{
    for (int i = 0; i < set->count; i++) {
        if (set->members[i].fd == fd)
            return i;
    }
    return -1;
}

static int add_member(struct waitset *set, int fd, uint32_t events, void *tag)
{
    bool is_full = set->count == WAITSET_LISTED;

    if (set->epoll < 0 && is_full && make_epoll(set) < 0)
        return errno;
    if (set->epoll >= 0 && watch_member(set->epoll, fd, events, tag) < 0)
        return errno;
    if (is_full) {
        set->unlisted++;
        return 0;
    }
    set->members[set->count].fd = fd;
    set->members[set->count].events = events;
    set->members[set->count++].tag = tag;
    if (set->epoll < 0)
        wake_sleepers(set);
    return 0;
}

/* ---- Members ------------------------------------------------------------------------------------------- */

int waitset_add(struct waitset *set, int fd, uint32_t events, void *tag)
{
    pthread_mutex_lock(&set->lock);
    int error = add_member(set, fd, events, tag);

    pthread_mutex_unlock(&set->lock);
    return error;
}

void waitset_change(struct waitset *set, int fd, uint32_t events, void *tag)
{
    struct epoll_event event = {.events = events, .data.ptr = tag};

    pthread_mutex_lock(&set->lock);
    int i = find_member(set, fd);

    if (set->epoll >= 0)
        fds_rewatch(set->epoll, fd, &event);
    if (i >= 0)
        set->members[i].events = events;
    if (i >= 0 && set->epoll < 0)
        wake_sleepers(set);
    pthread_mutex_unlock(&set->lock);
}

void waitset_remove(struct waitset *set, int fd)
{
    pthread_mutex_lock(&set->lock);
    int i = find_member(set, fd);

    bool was_watched = set->epoll >= 0 && fds_unwatch(set->epoll, fd) == 0;

    if (i >= 0)
        set->members[i] = set->members[--set->count];
    else
        set->unlisted -= was_watched;
    if (i >= 0 && set->epoll < 0)
        wake_sleepers(set); /* the number may soon stand for another file */
    pthread_mutex_unlock(&set->lock);
}

static __attribute__((noinline)) void change_flag(struct waitset *set, bool up)
{
    pthread_mutex_lock(&set->lock);
    doorbell_set(&set->wakefd, up);
    if (up && set->epoll < 0)
        wake_sleepers(set);
    pthread_mutex_unlock(&set->lock);
}

inline void waitset_flag(struct waitset *set, bool up)
{
    if (set->wakefd.up != up)
        change_flag(set, up);
}

void waitset_time(struct waitset *set, uint64_t at)
{
    pthread_mutex_lock(&set->lock);
    bool sooner = at < set->wakefd.at;

    doorbell_time(&set->wakefd, at);
    if (sooner && set->epoll < 0)
        wake_sleepers(set);
    pthread_mutex_unlock(&set->lock);
}

/* ---- Polling and sleeping
 * ---------------------------------------------------------------------------------- */

/* Find a ready member, each in turn. If poll() fails, make an epoll set, which is used from then on. Called
 * with the lock. */
static bool find_ready(struct waitset *set, struct epoll_event *event)
{
    struct pollfd fds[WAITSET_LISTED];
    int ready;

    *event = (struct epoll_event){.events = EPOLLIN};
    if (set->wakefd.at != NEVER_NS && now_ns() >= set->wakefd.at)
        return true;
    for (int i = 0; i < set->count; i++)
        fds[i] = (struct pollfd){.fd = set->members[i].fd, .events = (short)set->members[i].events};
    ready = set->count > 0 ? poll(fds, (nfds_t)set->count, 0) : 0;
    if (ready < 0 && make_epoll(set) == 0)
        return epoll_wait(set->epoll, event, 1, 0) > 0;
    if (ready <= 0)
        return false;
    for (int i = 0; i < set->count; i++) {
        int at = (set->next + i) % set->count;

        if (fds[at].revents == 0)
            continue;
        set->next = at + 1;
        *event = (struct epoll_event){.events = (uint32_t)fds[at].revents, .data.ptr = set->members[at].tag};
        return true;
    }
    return false;
}

bool waitset_next(struct waitset *set, struct epoll_event *event)
{
    pthread_mutex_lock(&set->lock);
    bool found = set->epoll >= 0 ? epoll_wait(set->epoll, event, 1, 0) > 0 : find_ready(set, event);

    pthread_mutex_unlock(&set->lock);
    return found;
}

int waitset_fd(struct waitset *set)
{
    pthread_mutex_lock(&set->lock);
    int fd = set->epoll >= 0 || make_epoll(set) == 0 ? set->epoll : -1;

    pthread_mutex_unlock(&set->lock);
    return fd;
}

bool waitset_hide(struct waitset *set)
{
    pthread_mutex_lock(&set->lock);
    bool hides = set->epoll >= 0 && set->unlisted == 0;

    if (hides) {
        doorbell_close(&set->wakefd);
        fds_close(set->epoll);
        set->epoll = -1;
        wake_sleepers(set);
    }
    pthread_mutex_unlock(&set->lock);
    return hides;
}

int waitset_list(struct waitset *set, struct pollfd *fds, uint64_t *deadline)
{
    pthread_mutex_lock(&set->lock);
    int count = set->count;

    *deadline = NEVER_NS;
    if (set->epoll >= 0) {
        fds[0] = (struct pollfd){.fd = set->epoll, .events = POLLIN};
        count = 1;
    } else {
        for (int i = 0; i < count; i++)
            fds[i] = (struct pollfd){.fd = set->members[i].fd, .events = (short)set->members[i].events};
        *deadline = set->wakefd.up ? 0 : set->wakefd.at;
    }
    pthread_mutex_unlock(&set->lock);
    return count;
}

void waitset_sleepers(struct waitset *set, void (*wake)(void *sleepers), void *sleepers)
{
    pthread_mutex_lock(&set->lock);
    set->wake = wake;
    set->sleepers = sleepers;
    pthread_mutex_unlock(&set->lock);
}
