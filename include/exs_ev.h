/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs_ev.h - an event queue as a libev watcher [ours]. The header has no library: link with -lev.
 *
 *   static void events_cb (EV_P_ exs_ev *w, exs_event_t *events, int count) { ... }
 *
 *   exs_ev w;
 *   exs_ev_init (&w, events_cb, queue);
 *   exs_ev_start (EV_A_ &w);
 *
 * The watcher is a plain struct that the application owns, with a data member, like libev's watchers. Its
 * callback gets one event or more. The callback may stop the watcher, and then free it and delete the queue;
 * it may also close sockets. exs_ev_set_priority sets the priority as ev_set_priority does, and ev_ref and
 * ev_unref work as with libev's watchers.
 */
#ifndef EXS_EV_H
#define EXS_EV_H

#include <ev.h>
#include <exs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EXS_EV_BATCH 64 /* maximum number of events that one callback gets */

typedef struct exs_ev {
    ev_io io; /* private; its data is NULL, or the flag of the callback that is running, an int */
    void (*cb)(EV_P_ struct exs_ev *w, exs_event_t *events, int count);
    void *data; /* for the application */
    exs_qhandle_t queue;
} exs_ev;

static inline void exs_ev_stop(EV_P_ exs_ev *w)
{
    if (!ev_is_active(&w->io))
        return;
    ev_io_stop(EV_A_ & w->io);
    exs_qprepare(w->queue);
    if (w->io.data) {
        *(int *)w->io.data = 1;
        w->io.data = NULL;
    }
}

/* private: returns 0 if the callback has stopped the watcher, which may have been freed then. A callback may run the
 * loop, which may call this watcher again. */
static inline int exs_ev__call(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    int stopped = 0, *outer = (int *)w->io.data;

    w->io.data = &stopped;
    w->cb(EV_A_ w, events, count);
    if (!stopped)
        w->io.data = outer;
    else if (outer)
        *outer = 1;
    return !stopped;
}

/* private: after a callback it continues to busy-poll only if no other watcher is pending. */
static inline void exs_ev__ready(EV_P_ ev_io *io, int revents)
{
    exs_ev *w = (exs_ev *)io; /* its first member */
    exs_event_t events[EXS_EV_BATCH];
    int count;

    (void)revents;
    while ((count = exs_qpoll(w->queue, events, EXS_EV_BATCH, EXS_LOOP_BUDGET)) > 0) {
        if (!exs_ev__call(EV_A_ w, events, count))
            return;
        if (ev_pending_count(EV_A) > 0)
            break;
    }
    if (count < 0)
        exs_ev_stop(EV_A_ w); /* the queue was deleted, or this is a forked child */
    else
        exs_qprepare(w->queue);
}

/* Sets the queue of a watcher, which must be stopped. */
static inline void exs_ev_set(exs_ev *w, exs_qhandle_t queue)
{
    w->queue = queue;
    w->io.data = NULL;
    ev_set_cb(&w->io, exs_ev__ready);
    ev_io_set(&w->io, exs_qfd(queue), EV_READ);
}

static inline void exs_ev_start(EV_P_ exs_ev *w)
{
    if (w->io.fd >= 0)
        ev_io_start(EV_A_ & w->io);
}

/* Initializes a watcher, except its data member. */
#define exs_ev_init(w, callback, q)                                                                            \
    do {                                                                                                       \
        ev_init(&(w)->io, 0);                                                                                  \
        (w)->cb = (callback);                                                                                  \
        exs_ev_set((w), (q));                                                                                  \
    } while (0)

#define exs_ev_is_active(w) ev_is_active(&(w)->io)
#define exs_ev_priority(w) ev_priority(&(w)->io)
#define exs_ev_set_priority(w, pri) ev_set_priority(&(w)->io, (pri))

#ifdef __cplusplus
}
#endif
#endif
