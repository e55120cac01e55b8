/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest_turn.c - a host's pass over its guests (guest.c). Its epoll tells which of them have work; the others are not
 * polled.
 */
#include "core/base/clock.h"
#include "queue.h"
#include "upcalls.h"

#define READY_MAX 64 /* sources handled in one pass */

struct ready {
    struct queue *homes[READY_MAX];
    int count;
};

/* ---- Finding the queues that have work ------------------------------------------------------------------- */

/* Add a queue once per round, with a reference. Called with events_lock. */
static void take_ready(struct guest *guest, struct ready *ready)
{
    if (guest->round == guest->host->rounds || ready->count == READY_MAX)
        return;
    guest->round = guest->host->rounds;
    guest->stuck = false;
    xs_queue_ref(guest->home);
    ready->homes[ready->count++] = guest->home;
}

/* If the timer has expired, mark the attachments that are polled by timer. */
static void note_looks(struct queue *host)
{
    struct guest *guest;

    if (host->look.at == NEVER_NS || now_ns() < host->look.at)
        return;
    doorbell_time(&host->look, NEVER_NS);
    LIST_FOREACH (guest, &host->guests, of_host) {
        if (guest->on_standby || guest->unwatched)
            guest->stuck = host->has_stuck = true;
    }
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

/* Used if epoll_wait() fails. */
static void take_all(struct queue *host, struct ready *ready)
{
    struct guest *guest;

    LIST_FOREACH (guest, &host->guests, of_host) {
        take_ready(guest, ready);
    }
}

/* Find the attached queues that have work. Returns whether the host has idle attachments. */
static bool find_ready(struct queue *host, struct ready *ready, struct turn *turn)
{
    struct epoll_event events[READY_MAX];

    ready->count = 0;
    mutex_lock(&host->events_lock);
    host->rounds++;
    note_looks(host);
    if (host->has_stuck)
        take_stuck(host, ready);
    int count = atomic_load(&host->guest_count) > host->lines ? epoll_wait(host->fd, events, READY_MAX, 0) : 0;

    if (count < 0)
        take_all(host, ready);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr != NULL) /* NULL: a source of the host itself */
            take_ready(events[i].data.ptr, ready);
    }
    turn->left = turn->left || count == READY_MAX || ready->count == READY_MAX;
    bool has_idle = xs_has_idle_guests(host);

    mutex_unlock(&host->events_lock);
    return has_idle;
}

/* ---- Polling them ---------------------------------------------------------------------------------------- */

/* Called with the lock of `home`. */
static void note_stuck(struct queue *host, const struct queue *home)
{
    mutex_lock(&host->events_lock);
    struct guest *guest = xs_queue_guest(host, home);

    if (guest != NULL)
        guest->stuck = host->has_stuck = true;
    mutex_unlock(&host->events_lock);
}

/* The host has polled `home`; `found`: there were CM events or timers. */
static void note_visit(struct queue *host, struct queue *home, bool found)
{
    struct guest *guest = xs_queue_guest(host, home);

    if (guest != NULL && guest->on_standby)
        xs_standby_polled(home, guest, found);
    else if (guest != NULL)
        guest->visit = ++home->visits;
    if (guest != NULL && guest->unwatched)
        xs_guest_watch_again(guest);
    if (guest != NULL && host->drives_sends && !xs_progress_is_needed(home))
        xs_guest_unuse(guest);
}

static void turn_guest(struct queue *host, struct queue *home, struct turn *turn)
{
    struct turn own = {.watched = turn->watched};

    mutex_lock(&home->lock);
    xs_turn_home(home, &own);
    note_visit(host, home, own.others > 0);
    xs_queue_rest(home); /* no other thread would flush its devices */
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
    bool has_idle = find_ready(host, &ready, turn);

    for (int i = 0; i < ready.count; i++)
        turn_guest(host, ready.homes[i], turn);
    if (has_idle)
        xs_detach_idle_guests(host);
}
