/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * attach.c - attaches one queue, the home of sockets, to another, the host. The host then drives these sockets, because
 * an operation on one of them named the host. attach_poll.c has a host's pass over its attached queues, detach.c the
 * end of an attachment that is not used any more.
 *
 * A host's epoll contains all descriptors of its attached queues; the event's data pointer is the struct attachment. An
 * attachment is in a list of the host, guarded by the host's events.lock, and in a list of the home, guarded by the
 * home's lock. Both locks are held to make or free it. A host ends its attachments before it is freed, so an attachment
 * in a home's list always has a live host.
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

struct attachment *xs_queue_attachment(const struct queue *host, const struct queue *home)
{
    struct attachment *attachment;

    LIST_FOREACH (attachment, &home->hosts.list, of_home) {
        if (attachment->host == host)
            return attachment;
    }
    TAILQ_FOREACH (attachment, &home->hosts.standby, behind) {
        if (attachment->host == host)
            return attachment;
    }
    return NULL;
}

/* ---- Watching ------------------------------------------------------------------------------------------- */

int xs_attachment_watch(struct attachment *attachment, const struct source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = attachment};

    return fds_watch(attachment->host->fd, source->fd, &event);
}

void xs_attachment_unwatch(const struct attachment *attachment, const struct source *source)
{
    fds_unwatch(attachment->host->fd, source->fd);
}

/* Unregister the sources before `end`, or all if it is NULL. */
static void unwatch_until(const struct attachment *attachment, const struct source *end)
{
    struct source *source;

    LIST_FOREACH (source, &attachment->home->channels.sources, link) {
        if (source == end)
            return;
        xs_attachment_unwatch(attachment, source);
    }
}

/* Register all sources of the attached queue. Returns 0; or -1 and errno, with none registered. */
static int watch_all(struct attachment *attachment)
{
    struct source *source;

    LIST_FOREACH (source, &attachment->home->channels.sources, link) {
        if (xs_attachment_watch(attachment, source) == 0)
            continue;
        int saved = errno;

        unwatch_until(attachment, source);
        errno = saved;
        return -1;
    }
    return 0;
}

/* ---- Polling on a timer --------------------------------------------------------------------------------- */

/* The next five functions are called with both locks. */

static void set_look(struct attachment *attachment)
{
    uint64_t wait = LOOK_NS + (uint64_t)attachment->home->hosts.standby_count * APART_NS,
             at = ns_after(now_ns(), wait);

    if (at < attachment->host->attached.poll_timer.at)
        doorbell_time(&attachment->host->attached.poll_timer, at);
}

static void begin_by_clock(struct attachment *attachment)
{
    attachment->host->attached.unwatched++;
    set_look(attachment);
}

static void end_by_clock(const struct attachment *attachment)
{
    if (--attachment->host->attached.unwatched == 0)
        doorbell_time(&attachment->host->attached.poll_timer, NEVER_NS);
}

static void enter_standby(struct attachment *attachment)
{
    attachment->on_standby = true;
    TAILQ_INSERT_TAIL(&attachment->home->hosts.standby, attachment, behind);
    attachment->home->hosts.standby_count++;
    begin_by_clock(attachment);
}

static void leave_standby(struct attachment *attachment)
{
    attachment->on_standby = false;
    TAILQ_REMOVE(&attachment->home->hosts.standby, attachment, behind);
    attachment->home->hosts.standby_count--;
    end_by_clock(attachment);
}

void xs_queue_look_again(struct attachment *attachment)
{
    mutex_lock(&attachment->host->events.lock);
    set_look(attachment);
    mutex_unlock(&attachment->host->events.lock);
}

/* ---- Starting and stopping to watch --------------------------------------------------------------------- */

/* Called with both locks, after xs_queue_show() made descriptors for the sources of `home`, or failed to
 * (`unwatched`). 0, or -1 and errno. */
static int begin_to_watch(struct attachment *attachment)
{
    if (attachment->unwatched) {
        xs_log("no descriptor is left for a queue to watch a connection: it polls the connection %d times a "
               "second",
               (int)(NS_PER_S / LOOK_NS));
        begin_by_clock(attachment);
    } else if (watch_all(attachment) < 0) {
        return -1;
    }
    attachment->visit = ++attachment->home->hosts.visits;
    LIST_INSERT_HEAD(&attachment->home->hosts.list, attachment, of_home);
    atomic_fetch_add_explicit(&attachment->home->others, 1, memory_order_relaxed);
    return 0;
}

/* Called with both locks. */
static void end_to_watch(struct attachment *attachment)
{
    if (attachment->unwatched)
        end_by_clock(attachment);
    else
        unwatch_until(attachment, NULL);
    LIST_REMOVE(attachment, of_home);
    atomic_fetch_sub_explicit(&attachment->home->others, 1, memory_order_relaxed);
    attachment->unwatched = false;
}

void xs_attachment_watch_again(struct attachment *attachment)
{
    if (xs_queue_show(attachment->home) < 0 || watch_all(attachment) < 0) {
        xs_queue_look_again(attachment);
        return;
    }
    mutex_lock(&attachment->host->events.lock);
    attachment->unwatched = false;
    end_by_clock(attachment);
    mutex_unlock(&attachment->host->events.lock);
}

void xs_queue_demote(struct attachment *attachment)
{
    mutex_lock(&attachment->host->events.lock);
    end_to_watch(attachment);
    enter_standby(attachment);
    mutex_unlock(&attachment->host->events.lock);
}

/* ---- Attaching and detaching ---------------------------------------------------------------------------- */

static struct attachment *new_attachment(struct queue *host, struct queue *home)
{
    struct attachment *attachment = calloc(1, sizeof(*attachment));

    if (attachment == NULL)
        return NULL;
    attachment->host = host;
    attachment->home = home;
    return attachment;
}

/* Add the attachment to the host's lists; its use count is still 0. Called with both locks. */
static void join_host(struct attachment *attachment)
{
    struct queue *host = attachment->host;

    LIST_INSERT_HEAD(&host->attached.list, attachment, of_host);
    atomic_fetch_add(&host->attachment_count, 1);
    attachment->idle_since = now_ns();
    TAILQ_INSERT_TAIL(&host->attached.idle, attachment, of_idle);
    xs_queue_ref(attachment->home);
}

int xs_queue_add_standby(struct queue *host, struct queue *home)
{
    struct attachment *attachment = new_attachment(host, home);

    if (attachment == NULL)
        return -1;
    mutex_lock(&host->events.lock);
    enter_standby(attachment);
    join_host(attachment);
    mutex_unlock(&host->events.lock);
    return 0;
}

/* Register a new attachment's sources, or those of one that is promoted from the standby list. 0, or -1 and
 * errno. */
static int watch_home(struct attachment *attachment)
{
    struct queue *host = attachment->host;

    /* After a failure xs_queue_hide() closes the descriptors that were made. */
    attachment->unwatched = xs_queue_show(attachment->home) < 0;
    mutex_lock(&host->events.lock);
    int result = begin_to_watch(attachment);

    if (result == 0 && attachment->on_standby)
        leave_standby(attachment);
    else if (result == 0)
        join_host(attachment);
    mutex_unlock(&host->events.lock);
    if (result < 0)
        attachment->unwatched = false;
    return result;
}

/* The kernel returns these errors if it allows no more epoll sets to watch the same descriptor or each
 * other. */
static bool is_limit(int error)
{
    return error == EINVAL || error == ELOOP;
}

/* Attach the home to the host. First detach it from hosts that have not used it for a while, and, if the kernel's limit
 * is reached, from all that do not use it now. 0, or -1 and errno. */
static int find_room(struct attachment *attachment)
{
    xs_detach_idle_hosts(attachment->home, false);
    int result = watch_home(attachment);

    if (result < 0 && is_limit(errno) && xs_detach_idle_hosts(attachment->home, true))
        result = watch_home(attachment);
    if (result < 0 && is_limit(errno))
        xs_explain(
            ENOSPC,
            "more loops than the kernel allows would watch one connection: see \"many loops\" in exs(7)");
    return result;
}

int xs_queue_host(struct queue *host, struct queue *home)
{
    struct attachment *attachment;

    if (host == home)
        return 0;
    attachment = xs_queue_attachment(host, home);
    if (attachment != NULL && !attachment->on_standby)
        return 0;
    bool is_new = attachment == NULL;

    if (is_new && (attachment = new_attachment(host, home)) == NULL)
        return -1;
    if (find_room(attachment) < 0) {
        if (is_new)
            free(attachment); /* free() preserves errno */
        return -1;
    }
    xs_queue_set_timer(home); /* no thread needed the timer so far */
    /* A busy-polling thread may have left the devices in polling mode, in which they would not wake the
     * host. */
    xs_queue_prepare_sleep(home);
    return 0;
}

void xs_queue_unhost(struct attachment *attachment)
{
    struct queue *host = attachment->host, *home = attachment->home;

    mutex_lock(&host->events.lock);
    if (attachment->on_standby)
        leave_standby(attachment);
    else
        end_to_watch(attachment);
    if (attachment->uses == 0)
        TAILQ_REMOVE(&host->attached.idle, attachment, of_idle);
    LIST_REMOVE(attachment, of_host);
    atomic_fetch_sub(&host->attachment_count, 1);
    mutex_unlock(&host->events.lock);
    free(attachment);
    if (home->fd < 0 && LIST_EMPTY(&home->hosts.list))
        xs_queue_hide(home);
    xs_queue_unref(home);
}

void xs_queue_leave_hosts(struct queue *home)
{
    struct attachment *attachment;

    while ((attachment = LIST_FIRST(&home->hosts.list)) != NULL ||
           (attachment = TAILQ_FIRST(&home->hosts.standby)) != NULL)
        xs_queue_unhost(attachment);
}

/* Returns any queue that is attached to the host, with a reference. NULL: there is none. */
static struct queue *some_home(struct queue *host)
{
    mutex_lock(&host->events.lock);
    struct attachment *attachment = LIST_FIRST(&host->attached.list);
    struct queue *home = attachment != NULL ? attachment->home : NULL;

    if (home != NULL)
        xs_queue_ref(home);
    mutex_unlock(&host->events.lock);
    return home;
}

void xs_queue_release_attachments(struct queue *host)
{
    struct queue *home;

    while ((home = some_home(host)) != NULL) {
        mutex_lock(&home->lock);
        struct attachment *attachment = xs_queue_attachment(host, home);

        if (attachment != NULL) /* another thread may have detached it before the lock was taken */
            xs_queue_unhost(attachment);
        xs_queue_unlock(home);
        xs_queue_unref(home);
    }
}
