/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs_libevent.h - an event queue as an event of libevent [ours]. This header is all of it: link with
 * -levent_core.
 *
 *   static void events_cb(exs_libevent *w, exs_event_t *events, int count) { ... }
 *
 *   exs_libevent w;
 *   exs_libevent_assign(&w, base, queue, events_cb);
 *   exs_libevent_add(&w);
 *
 * The struct is the user's, with a data member. Its callback gets the events that are there, never none of
 * them. Inside it is safe to delete and free the struct, to close sockets and to delete the queue (once
 * exs_libevent_del was called).
 */
#ifndef EXS_LIBEVENT_H
#define EXS_LIBEVENT_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <exs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EXS_LIBEVENT_BATCH 64 /* most events of one callback */

typedef struct exs_libevent {
    struct event io; /* private */
    void (*cb)(struct exs_libevent *w, exs_event_t *events, int count);
    void *data; /* the user's */
    exs_qhandle_t queue;
    int *stopped; /* private: a flag of the callback that is running, if one is */
} exs_libevent;

typedef void (*exs_libevent_cb)(exs_libevent *w, exs_event_t *events, int count);

static inline int exs_libevent_del(exs_libevent *w)
{
    if (event_pending(&w->io, EV_READ, NULL))
        exs_qprepare(w->queue);
    if (w->stopped) {
        *w->stopped = 1;
        w->stopped = NULL;
    }
    return event_del(&w->io);
}

/* private: busy polling goes on after a callback only if no other event of the base is active. */
static inline void exs_libevent__ready(evutil_socket_t fd, short what, void *arg)
{
    exs_libevent *w = (exs_libevent *)arg;
    struct event_base *base = event_get_base(&w->io);
    exs_event_t events[EXS_LIBEVENT_BATCH];
    int count, stopped = 0;

    (void)fd;
    (void)what;
    while ((count = exs_qpoll(w->queue, events, EXS_LIBEVENT_BATCH, EXS_LOOP_BUDGET)) > 0) {
        w->stopped = &stopped;
        w->cb(w, events, count);
        if (stopped)
            return; /* w may have been freed */
        w->stopped = NULL;
        if (event_base_get_num_events(base, EVENT_BASE_COUNT_ACTIVE) > 0)
            break;
    }
    if (count < 0)
        exs_libevent_del(w); /* the queue was deleted, or this is a forked child */
    else
        exs_qprepare(w->queue);
}

/* Initialise it; data is left as it is. 0; -1: queue is none, or libevent refuses. */
static inline int exs_libevent_assign(exs_libevent *w, struct event_base *base, exs_qhandle_t queue,
                                      exs_libevent_cb cb)
{
    int fd = exs_qfd(queue);

    if (fd == -1)
        return -1;
    w->cb = cb;
    w->queue = queue;
    w->stopped = NULL;
    return event_assign(&w->io, base, fd, EV_READ | EV_PERSIST, exs_libevent__ready, w);
}

static inline int exs_libevent_add(exs_libevent *w)
{
    return event_add(&w->io, NULL);
}

#ifdef __cplusplus
}
#endif
#endif
