/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest.c - attachments of one queue, the guest, to another, the host. The host drives the guest's sockets, because
 * an operation on one of them named the host. guest_turn.c has how a host drives its guests, detach.c when an
 * attachment ends.
 *
 * A host's epoll contains all descriptors of its guests; the event's data pointer is the attachment. An attachment is
 * in a list of the host, guarded by the host's events_lock, and in a list of the home (the attached queue), guarded
 * by the home's lock. It is made and ended with both locks held. A host ends its attachments before it is freed, so
 * an attachment in a home's list always has a live host.
 *
 * A host on the home's standby list watches no descriptor. Its timer makes it poll the home, so that connections are
 * accepted even if all queues that watch the home are busy. The interval grows with the length of the list, so the
 * total rate of polls is about the same however long it is.
 */
#include <errno.h>
#include <stdlib.h>
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "core/base/log.h"
#include "queue.h"

#define LOOK_NS (NS_PER_S / 10)   /* interval between two polls by a queue on the standby list, ns, */
#define APART_NS (NS_PER_S / 100) /* and what each queue on that list adds to the interval, ns */

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

/* Unregister the sources before `end`, or all if it is NULL. */
static void unwatch_until(const struct guest *guest, const struct source *end)
{
    struct source *source;

    LIST_FOREACH (source, &guest->home->sources, link) {
        if (source == end)
            return;
        xs_guest_unwatch(guest, source);
    }
}

/* Register all sources of the attached queue (`home`). Returns 0, or -1 and errno with none registered. */
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

/* ---- By the clock --------------------------------------------------------------------------------------- */

/* The next five functions are called with both locks. */

static void set_look(struct guest *guest)
{
    uint64_t wait = LOOK_NS + (uint64_t)guest->home->standby_count * APART_NS, at = ns_after(now_ns(), wait);

    if (at < guest->host->look.at)
        doorbell_time(&guest->host->look, at);
}

static void begin_by_clock(struct guest *guest)
{
    guest->host->lines++;
    set_look(guest);
}

static void end_by_clock(const struct guest *guest)
{
    if (--guest->host->lines == 0)
        doorbell_time(&guest->host->look, NEVER_NS);
}

static void enter_standby(struct guest *guest)
{
    guest->on_standby = true;
    TAILQ_INSERT_TAIL(&guest->home->line, guest, behind);
    guest->home->standby_count++;
    begin_by_clock(guest);
}

static void leave_standby(struct guest *guest)
{
    guest->on_standby = false;
    TAILQ_REMOVE(&guest->home->line, guest, behind);
    guest->home->standby_count--;
    end_by_clock(guest);
}

void xs_queue_look_again(struct guest *guest)
{
    mutex_lock(&guest->host->events_lock);
    set_look(guest);
    mutex_unlock(&guest->host->events_lock);
}

/* ---- Beginning and ending to watch ---------------------------------------------------------------------- */

/* Called with both locks, after xs_queue_show() made descriptors for the sources of `home`, or failed to
 * (`unwatched`). 0, or -1 and errno. */
static int begin_to_watch(struct guest *guest)
{
    if (guest->unwatched) {
        xs_log("no descriptor is left for a queue to watch a connection: it polls the connection %d times a "
               "second",
               (int)(NS_PER_S / LOOK_NS));
        begin_by_clock(guest);
    } else if (watch_all(guest) < 0) {
        return -1;
    }
    guest->visit = ++guest->home->visits;
    LIST_INSERT_HEAD(&guest->home->hosts, guest, of_home);
    atomic_fetch_add_explicit(&guest->home->others, 1, memory_order_relaxed);
    return 0;
}

/* Called with both locks. */
static void end_to_watch(struct guest *guest)
{
    if (guest->unwatched)
        end_by_clock(guest);
    else
        unwatch_until(guest, NULL);
    LIST_REMOVE(guest, of_home);
    atomic_fetch_sub_explicit(&guest->home->others, 1, memory_order_relaxed);
    guest->unwatched = false;
}

void xs_guest_watch_again(struct guest *guest)
{
    if (xs_queue_show(guest->home) < 0 || watch_all(guest) < 0) {
        xs_queue_look_again(guest);
        return;
    }
    mutex_lock(&guest->host->events_lock);
    guest->unwatched = false;
    end_by_clock(guest);
    mutex_unlock(&guest->host->events_lock);
}

void xs_queue_demote(struct guest *guest)
{
    mutex_lock(&guest->host->events_lock);
    end_to_watch(guest);
    enter_standby(guest);
    mutex_unlock(&guest->host->events_lock);
}

/* ---- Hosting -------------------------------------------------------------------------------------------- */

static struct guest *new_guest(struct queue *host, struct queue *home)
{
    struct guest *guest = calloc(1, sizeof(*guest));

    if (guest == NULL)
        return NULL;
    guest->host = host;
    guest->home = home;
    return guest;
}

/* Add the attachment to the host's lists; its use count is still 0. Called with both locks. */
static void join(struct guest *guest)
{
    struct queue *host = guest->host;

    LIST_INSERT_HEAD(&host->guests, guest, of_host);
    atomic_fetch_add(&host->guest_count, 1);
    guest->idle_since = now_ns();
    TAILQ_INSERT_TAIL(&host->idle, guest, of_idle);
    xs_queue_ref(guest->home);
}

int xs_queue_add_standby(struct queue *host, struct queue *home)
{
    struct guest *guest = new_guest(host, home);

    if (guest == NULL)
        return -1;
    mutex_lock(&host->events_lock);
    enter_standby(guest);
    join(guest);
    mutex_unlock(&host->events_lock);
    return 0;
}

/* Register a new attachment's sources, or those of one that is promoted from the standby list. 0, or -1 and
 * errno. */
static int watch_home(struct guest *guest)
{
    struct queue *host = guest->host;

    /* After a failure xs_queue_hide() closes the descriptors that were made. */
    guest->unwatched = xs_queue_show(guest->home) < 0;
    mutex_lock(&host->events_lock);
    int result = begin_to_watch(guest);

    if (result == 0 && guest->on_standby)
        leave_standby(guest);
    else if (result == 0)
        join(guest);
    mutex_unlock(&host->events_lock);
    if (result < 0)
        guest->unwatched = false;
    return result;
}

/* The kernel returns these errors if it allows no more epoll sets to watch the same descriptor or each
 * other. */
static bool is_limit(int error)
{
    return error == EINVAL || error == ELOOP;
}

/* Attach; detach hosts that have been idle for a while first, and all idle hosts if the kernel's limit is
 * reached. 0, or -1 and errno. */
static int find_room(struct guest *guest)
{
    xs_detach_idle_hosts(guest->home, false);
    int result = watch_home(guest);

    if (result < 0 && is_limit(errno) && xs_detach_idle_hosts(guest->home, true))
        result = watch_home(guest);
    if (result < 0 && is_limit(errno))
        xs_explain(
            ENOSPC,
            "more loops than the kernel allows would watch one connection: see \"many loops\" in exs(7)");
    return result;
}

int xs_queue_host(struct queue *host, struct queue *home)
{
    struct guest *guest;

    if (host == home)
        return 0;
    guest = xs_queue_guest(host, home);
    if (guest != NULL && !guest->on_standby)
        return 0;
    bool is_new = guest == NULL;

    if (is_new && (guest = new_guest(host, home)) == NULL)
        return -1;
    if (find_room(guest) < 0) {
        if (is_new)
            free(guest); /* free() preserves errno */
        return -1;
    }
    xs_queue_set_timer(home); /* no thread needed the timer so far */
    /* A busy-polling thread may have left the devices in polling mode, in which they would not wake the
     * host. */
    xs_queue_rest(home);
    return 0;
}

void xs_queue_unhost(struct guest *guest)
{
    struct queue *host = guest->host, *home = guest->home;

    mutex_lock(&host->events_lock);
    if (guest->on_standby)
        leave_standby(guest);
    else
        end_to_watch(guest);
    if (guest->uses == 0)
        TAILQ_REMOVE(&host->idle, guest, of_idle);
    LIST_REMOVE(guest, of_host);
    atomic_fetch_sub(&host->guest_count, 1);
    mutex_unlock(&host->events_lock);
    free(guest);
    if (home->fd < 0 && LIST_EMPTY(&home->hosts))
        xs_queue_hide(home);
    xs_queue_unref(home);
}

void xs_queue_leave_hosts(struct queue *home)
{
    struct guest *guest;

    while ((guest = LIST_FIRST(&home->hosts)) != NULL || (guest = TAILQ_FIRST(&home->line)) != NULL)
        xs_queue_unhost(guest);
}

/* The queue of any attachment, with a reference. NULL: there are none. */
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

        if (guest != NULL) /* another thread may have detached it before the lock was taken */
            xs_queue_unhost(guest);
        xs_queue_unlock(home);
        xs_queue_unref(home);
    }
}
