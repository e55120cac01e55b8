/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest.c - hosts and guests: queues that drive sockets of other queues, since an operation there named them.
 * How a host drives them is in guest_turn.c.
 *
 * A host's epoll watches all sources of its guests, and tells of each whose it is. A hosting is in a list of
 * the host, guarded by its events_lock, and in one of the home, guarded by the home's lock; it is made and
 * ended with both. Whoever is in the second list is there: a host ends its hostings before it ends itself.
 *
 * Those in line watch nothing: a time of their own has them look at the home, each at another one, so that what
 * nobody does who watches, since all of them are busy, is not left undone. The longer the line is, the longer
 * that takes; of them together about as many look in a second, however many they are.
 */
#include <errno.h>
#include <stdlib.h>
#include "clock.h"
#include "core.h"
#include "fds.h"
#include "queue.h"
#include "sock.h"

#define LOOK_NS (NS_PER_S / 10)   /* one in line waits so long before it looks, */
#define APART_NS (NS_PER_S / 100) /* and so much longer for each in that line */

struct guest *xs_queue_guest(const struct queue *host, const struct queue *home)
{
    struct guest *guest;

    LIST_FOREACH (guest, &home->hosts, of_home) {
        if (guest->host == host)
            return guest;
    }
    TAILQ_FOREACH (guest, &home->line, behind) {
        if (guest->host == host)
            return guest;
    }
    return NULL;
}

/* ---- Watching ------------------------------------------------------------------------------------------- */

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

int xs_guest_watch_all(struct guest *guest)
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

/* Called with both locks. 0, or -1 and errno. */
static int begin_to_watch(struct guest *guest)
{
    struct queue *host = guest->host;

    if (!guest->unwatched && xs_guest_watch_all(guest) < 0)
        return -1;
    if (guest->unwatched) {
        guest->stuck = host->has_stuck = true;
        doorbell_again(&host->raise);
    }
    guest->visit = ++guest->home->visits;
    LIST_INSERT_HEAD(&guest->home->hosts, guest, of_home);
    atomic_fetch_add_explicit(&guest->home->others, 1, memory_order_relaxed);
    return 0;
}

/* Called with both locks. */
static void end_to_watch(struct guest *guest)
{
    unwatch_until(guest, NULL);
    LIST_REMOVE(guest, of_home);
    atomic_fetch_sub_explicit(&guest->home->others, 1, memory_order_relaxed);
    guest->unwatched = false;
}

/* ---- In line -------------------------------------------------------------------------------------------- */

/* 0, or -1 and errno. Called with the host's events_lock. */
static int have_look(struct queue *host)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    if (host->look.fd >= 0)
        return 0;
    if (doorbell_make(&host->look) < 0)
        return -1;
    if (fds_watch(host->fd, host->look.fd, &event) == 0)
        return 0;
    doorbell_close(&host->look);
    return -1;
}

/* Called with both locks. */
static void set_look(struct guest *guest)
{
    uint64_t wait = LOOK_NS + (uint64_t)guest->home->line_length * APART_NS, at = ns_after(now_ns(), wait);

    if (at < guest->host->look.at)
        doorbell_time(&guest->host->look, at);
}

/* Called with both locks. 0, or -1 and errno. */
static int enter_line(struct guest *guest)
{
    if (have_look(guest->host) < 0)
        return -1;
    guest->in_line = true;
    guest->host->lines++;
    TAILQ_INSERT_TAIL(&guest->home->line, guest, behind);
    guest->home->line_length++;
    set_look(guest);
    return 0;
}

/* Called with both locks. */
static void leave_line(struct guest *guest)
{
    guest->in_line = false;
    TAILQ_REMOVE(&guest->home->line, guest, behind);
    guest->home->line_length--;
    if (--guest->host->lines == 0)
        doorbell_time(&guest->host->look, NEVER_NS);
}

void xs_queue_look_again(struct guest *guest)
{
    mutex_lock(&guest->host->events_lock);
    set_look(guest);
    mutex_unlock(&guest->host->events_lock);
}

int xs_queue_step_back(struct guest *guest)
{
    mutex_lock(&guest->host->events_lock);
    int result = enter_line(guest);

    if (result == 0)
        end_to_watch(guest);
    mutex_unlock(&guest->host->events_lock);
    return result;
}

/* ---- Hosting -------------------------------------------------------------------------------------------- */

/* Called with both locks. */
static void join(struct guest *guest)
{
    LIST_INSERT_HEAD(&guest->host->guests, guest, of_host);
    atomic_fetch_add(&guest->host->guest_count, 1);
    xs_queue_ref(guest->home);
}

/* A new hosting, which watches or stands in line. 0, or -1 and errno. */
static int begin_hosting(struct queue *host, struct queue *home, int (*begin)(struct guest *))
{
    struct guest *guest = calloc(1, sizeof(*guest));

    if (guest == NULL)
        return -1;
    guest->host = host;
    guest->home = home;
    guest->unwatched = begin == begin_to_watch && xs_queue_show(home) < 0; /* to be closed all the same */
    mutex_lock(&host->events_lock);
    int result = begin(guest);

    if (result == 0)
        join(guest);
    mutex_unlock(&host->events_lock);
    if (result < 0)
        free(guest);
    return result;
}

int xs_queue_line_up(struct queue *host, struct queue *home)
{
    return begin_hosting(host, home, enter_line);
}

/* One in line need not wait any longer. 0, or -1 and errno: it does. */
static int step_out(struct guest *guest)
{
    guest->unwatched = xs_queue_show(guest->home) < 0;
    mutex_lock(&guest->host->events_lock);
    int result = begin_to_watch(guest);

    if (result == 0)
        leave_line(guest);
    mutex_unlock(&guest->host->events_lock);
    return result;
}

int xs_queue_host(struct queue *host, struct queue *home)
{
    struct guest *guest;

    if (host == home)
        return 0;
    guest = xs_queue_guest(host, home);
    if (guest != NULL && !guest->in_line)
        return 0;
    if ((guest != NULL ? step_out(guest) : begin_hosting(host, home, begin_to_watch)) < 0)
        return -1;
    xs_queue_set_timer(home); /* which nobody needed so far */
    xs_queue_rest(home);      /* as a wait has left it, nobody would be woken */
    return 0;
}

/* Its user, as if the program had named it. NULL: it is private, or a call's, or deleted, as another thread may
 * be about to do. */
static struct queue *named(struct queue *host)
{
    mutex_lock(&host->events_lock);
    struct queue *queue = host->is_a_calls ? NULL : xs_queue_get(host->handle);

    mutex_unlock(&host->events_lock);
    return queue;
}

struct queue *xs_queue_driver(const struct queue *home)
{
    struct queue *driver = NULL;
    struct guest *guest;

    if (home->handle != NULL)
        return NULL;
    LIST_FOREACH (guest, &home->hosts, of_home) {
        if ((driver = named(guest->host)) != NULL)
            break;
    }
    return driver;
}

void xs_queue_unhost(struct guest *guest)
{
    struct queue *host = guest->host, *home = guest->home;

    mutex_lock(&host->events_lock);
    if (guest->in_line)
        leave_line(guest);
    else
        end_to_watch(guest);
    LIST_REMOVE(guest, of_host);
    atomic_fetch_sub(&host->guest_count, 1);
    mutex_unlock(&host->events_lock);
    free(guest);
    xs_queue_unref(home);
}

void xs_queue_leave_hosts(struct queue *home)
{
    struct guest *guest;

    while ((guest = LIST_FIRST(&home->hosts)) != NULL || (guest = TAILQ_FIRST(&home->line)) != NULL)
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
