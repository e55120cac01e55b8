/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs_libevent.h - an event queue as an event of libevent [ours]. The header has no library: link with
 * -levent_core.
 *
 *   static void events_cb(exs_libevent *w, exs_event_t *events, int count) { ... }
 *
 *   exs_libevent w;
 *   exs_libevent_assign(&w, base, queue, events_cb);
 *   exs_libevent_add(&w);
 *
 * The application owns the struct, which has a data member. Its callback gets one event or more. The callback may
 * call exs_libevent_del, and then free the struct and delete the queue; it may also close sockets.
 */
#ifndef EXS_LIBEVENT_H
#define EXS_LIBEVENT_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <exs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EXS_LIBEVENT_BATCH 64 /* maximum number of events that one callback gets */

typedef struct exs_libevent {
    struct event io; /* private */
    void (*cb)(struct exs_libevent *w, exs_event_t *events, int count);
    void *data; /* for the application */
    exs_qhandle_t queue;
    int *stopped; /* private: a flag of the callback that is running; or NULL */
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

/* private: after a callback it continues to busy-poll only if no other event of the base is active. */
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

/* Initializes the struct, except its data member. Returns 0; or -1: queue is not valid, or libevent refuses. */
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
