/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest.c - hosts and guests: queues that drive sockets of other queues, since an operation there named them.
 *
 * A host's epoll watches all sources of its guests, and tells of each whose it is: so a turn finds the guests
 * that have something to do without asking the others. A hosting is in a list of the host, guarded by its
 * events_lock, and in one of the home, guarded by the home's lock; it is made and ended with both. Whoever is
 * in the second list is there: a host ends its hostings before it ends itself.
 */
#include <errno.h>
#include <stdlib.h>
#include "core.h"
#include "fds.h"
#include "queue.h"

#define READY_MAX 64 /* sources looked at in a turn */

struct ready {
    struct queue *homes[READY_MAX];
    int count;
};

struct guest *xs_queue_guest(const struct queue *host, const struct queue *home)
{
    struct guest *guest;

    LIST_FOREACH (guest, &home->hosts, of_home) {
        if (guest->host == host)
            return guest;
    }
    return NULL;
}

int xs_guest_watch(struct guest *guest, const struct source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = guest};

    return fds_watch(guest->host->fd, source->fd, &event);
}

void xs_guest_unwatch(const struct guest *guest, const struct source *source)
{
    fds_unwatch(guest->host->fd, source->fd);
}

/* The sources before `end`, or all when it is NULL. */
static void unwatch_until(const struct guest *guest, const struct source *end)
{
    struct source *source;

    LIST_FOREACH (source, &guest->home->sources, link) {
        if (source == end)
            return;
        xs_guest_unwatch(guest, source);
    }
}

static int watch_all(struct guest *guest)
{
    struct source *source;

    LIST_FOREACH (source, &guest->home->sources, link) {
        if (xs_guest_watch(guest, source) == 0)
            continue;
        int saved = errno;

        unwatch_until(guest, source);
        errno = saved;
        return -1;
    }
    return 0;
}

int xs_queue_host(struct queue *host, struct queue *home)
{
    struct guest *guest;

    if (host == home || xs_queue_guest(host, home) != NULL)
        return 0;
    guest = calloc(1, sizeof(*guest));
    if (guest == NULL)
        return -1;
    guest->host = host;
    guest->home = home;
    guest->unwatched = xs_queue_show(home) < 0; /* it is to be closed all the same */
    mutex_lock(&host->events_lock);
    int result = guest->unwatched ? 0 : watch_all(guest);

    if (result == 0) {
        if (guest->unwatched) {
            guest->stuck = host->has_stuck = true;
            doorbell_again(&host->raise);
        }
        LIST_INSERT_HEAD(&host->guests, guest, of_host);
        LIST_INSERT_HEAD(&home->hosts, guest, of_home);
        atomic_fetch_add(&host->guest_count, 1);
        xs_queue_ref(home);
    } else {
        free(guest);
    }
    mutex_unlock(&host->events_lock);
    if (result == 0)
        xs_queue_set_timer(home); /* which nobody needed so far */
    return result;
}

void xs_queue_unhost(struct guest *guest)
{
    struct queue *host = guest->host, *home = guest->home;

    mutex_lock(&host->events_lock);
    unwatch_until(guest, NULL);
    LIST_REMOVE(guest, of_host);
    LIST_REMOVE(guest, of_home);
    atomic_fetch_sub(&host->guest_count, 1);
    mutex_unlock(&host->events_lock);
    free(guest);
    xs_queue_unref(home);
}

void xs_queue_leave_hosts(struct queue *home)
{
    struct guest *guest;

    while ((guest = LIST_FIRST(&home->hosts)) != NULL)
        xs_queue_unhost(guest);
}

/* The home of any guest, with a reference. NULL: there are none. */
static struct queue *some_home(struct queue *host)
{
    mutex_lock(&host->events_lock);
    struct guest *guest = LIST_FIRST(&host->guests);
    struct queue *home = guest != NULL ? guest->home : NULL;

    if (home != NULL)
        xs_queue_ref(home);
    mutex_unlock(&host->events_lock);
    return home;
}

void xs_queue_release_guests(struct queue *host)
{
    struct queue *home;

    while ((home = some_home(host)) != NULL) {
        mutex_lock(&home->lock);
        struct guest *guest = xs_queue_guest(host, home);

        if (guest != NULL) /* nobody else has ended it meanwhile */
            xs_queue_unhost(guest);
        xs_queue_unlock(home);
        xs_queue_unref(home);
    }
}

/* Once in a round, with a reference. Called with events_lock. */
static void take_ready(struct guest *guest, struct ready *ready)
{
    if (guest->round == guest->host->rounds || ready->count == READY_MAX)
        return;
    guest->round = guest->host->rounds;
    guest->stuck = false;
    xs_queue_ref(guest->home);
    ready->homes[ready->count++] = guest->home;
}

static void take_stuck(struct queue *host, struct ready *ready)
{
    struct guest *guest;

    host->has_stuck = false;
    LIST_FOREACH (guest, &host->guests, of_host) {
        if (guest->stuck)
            take_ready(guest, ready);
        host->has_stuck = host->has_stuck || guest->stuck;
    }
}

/* Where the epoll can't tell. */
static void take_all(struct queue *host, struct ready *ready)
{
    struct guest *guest;

    LIST_FOREACH (guest, &host->guests, of_host) {
        take_ready(guest, ready);
    }
}

/* The homes that have something to do. */
static void find_ready(struct queue *host, struct ready *ready, struct turn *turn)
{
    struct epoll_event events[READY_MAX];

    ready->count = 0;
    mutex_lock(&host->events_lock);
    host->rounds++;
    if (host->has_stuck)
        take_stuck(host, ready);
    int count = epoll_wait(host->fd, events, READY_MAX, 0);

    if (count < 0)
        take_all(host, ready);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr != NULL) /* else a source of the host's own */
            take_ready(events[i].data.ptr, ready);
    }
    turn->left = turn->left || count == READY_MAX || ready->count == READY_MAX;
    mutex_unlock(&host->events_lock);
}

/* Called with the home's lock. */
static void note_stuck(struct queue *host, const struct queue *home)
{
    mutex_lock(&host->events_lock);
    struct guest *guest = xs_queue_guest(host, home);

    if (guest != NULL)
        guest->stuck = host->has_stuck = true;
    mutex_unlock(&host->events_lock);
}

/* Called with the home's lock. False: no descriptor tells of it. */
static bool is_watched(struct queue *host, struct queue *home)
{
    struct guest *guest = xs_queue_guest(host, home);

    if (guest != NULL && guest->unwatched)
        guest->unwatched = xs_queue_show(home) < 0 || watch_all(guest) < 0;
    return guest == NULL || !guest->unwatched;
}

static void turn_guest(struct queue *host, struct queue *home, struct turn *turn)
{
    struct turn own = {.watched = turn->watched};

    mutex_lock(&home->lock);
    xs_turn_home(home, &own);
    own.stuck = own.stuck || !is_watched(host, home);
    xs_queue_rest(home); /* nobody else says when */
    if (own.stuck)
        note_stuck(host, home);
    xs_queue_unlock(home);
    xs_queue_unref(home);
    turn->left = turn->left || own.left;
    turn->stuck = turn->stuck || own.stuck;
}

void xs_turn_guests(struct queue *host, struct turn *turn)
{
    struct ready ready;

    if (atomic_load(&host->guest_count) == 0)
        return;
    find_ready(host, &ready, turn);
    for (int i = 0; i < ready.count; i++)
        turn_guest(host, ready.homes[i], turn);
}
