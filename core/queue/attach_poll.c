/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * attach_poll.c - a host's pass over its attached queues (attach.c). The host's epoll reports which of them have work;
 * the others are not polled.
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

/* Add the attached queue, with a reference, unless this round has added it. Called with the host's events.lock, as are
 * the next three functions. */
static void take_ready(struct attachment *attachment, struct ready *ready)
{
    if (attachment->round == attachment->host->attached.rounds || ready->count == READY_MAX)
        return;
    attachment->round = attachment->host->attached.rounds;
    attachment->stuck = false;
    xs_queue_ref(attachment->home);
    ready->homes[ready->count++] = attachment->home;
}

/* If the timer has expired, mark the attachments that are polled by timer. */
static void note_looks(struct queue *host)
{
    struct attachment *attachment;

    if (host->attached.poll_timer.at == NEVER_NS || now_ns() < host->attached.poll_timer.at)
        return;
    doorbell_time(&host->attached.poll_timer, NEVER_NS);
    LIST_FOREACH (attachment, &host->attached.list, of_host) {
        if (attachment->on_standby || attachment->unwatched)
            attachment->stuck = host->attached.has_stuck = true;
    }
}

static void take_stuck(struct queue *host, struct ready *ready)
{
    struct attachment *attachment;

    host->attached.has_stuck = false;
    LIST_FOREACH (attachment, &host->attached.list, of_host) {
        if (attachment->stuck)
            take_ready(attachment, ready);
        host->attached.has_stuck = host->attached.has_stuck || attachment->stuck;
    }
}

/* Used if epoll_wait() fails. */
static void take_all(struct queue *host, struct ready *ready)
{
    struct attachment *attachment;

    LIST_FOREACH (attachment, &host->attached.list, of_host) {
        take_ready(attachment, ready);
    }
}

/* Find the attached queues that have work. Returns whether the host has idle attachments. */
static bool find_ready(struct queue *host, struct ready *ready, struct turn *turn)
{
    struct epoll_event events[READY_MAX];

    ready->count = 0;
    mutex_lock(&host->events.lock);
    host->attached.rounds++;
    note_looks(host);
    if (host->attached.has_stuck)
        take_stuck(host, ready);
    int count = atomic_load(&host->attachment_count) > host->attached.unwatched
                    ? epoll_wait(host->fd, events, READY_MAX, 0)
                    : 0;

    if (count < 0)
        take_all(host, ready);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr != NULL) /* NULL: a source of the host itself */
            take_ready(events[i].data.ptr, ready);
    }
    turn->left = turn->left || count == READY_MAX || ready->count == READY_MAX;
    bool has_idle = xs_has_idle_attachments(host);

    mutex_unlock(&host->events.lock);
    return has_idle;
}

/* ---- Polling them ---------------------------------------------------------------------------------------- */

/* Called with the lock of `home`. */
static void note_stuck(struct queue *host, const struct queue *home)
{
    mutex_lock(&host->events.lock);
    struct attachment *attachment = xs_queue_attachment(host, home);

    if (attachment != NULL)
        attachment->stuck = host->attached.has_stuck = true;
    mutex_unlock(&host->events.lock);
}

/* The host has polled `home`; `found`: there were CM events or timers. */
static void note_visit(struct queue *host, struct queue *home, bool found)
{
    struct attachment *attachment = xs_queue_attachment(host, home);

    if (attachment != NULL && attachment->on_standby)
        xs_standby_polled(home, attachment, found);
    else if (attachment != NULL)
        attachment->visit = ++home->hosts.visits;
    if (attachment != NULL && attachment->unwatched)
        xs_attachment_watch_again(attachment);
    if (attachment != NULL && host->drives_sends && !xs_progress_is_needed(home))
        xs_attachment_unuse(attachment);
}

static void turn_attachment(struct queue *host, struct queue *home, struct turn *turn)
{
    struct turn own = {.watched = turn->watched};

    mutex_lock(&home->lock);
    xs_turn_home(home, &own);
    note_visit(host, home, own.others > 0);
    xs_queue_prepare_sleep(home); /* no other thread would flush its devices */
    if (own.stuck)
        note_stuck(host, home);
    xs_queue_unlock(home);
    xs_queue_unref(home);
    turn->left = turn->left || own.left;
    turn->stuck = turn->stuck || own.stuck;
}

void xs_turn_attachments(struct queue *host, struct turn *turn)
{
    struct ready ready;

    if (atomic_load(&host->attachment_count) == 0)
        return;
    bool has_idle = find_ready(host, &ready, turn);

    for (int i = 0; i < ready.count; i++)
        turn_attachment(host, ready.homes[i], turn);
    if (has_idle)
        xs_detach_idle_attachments(host);
}
