/* SPDX-License-Identifier: BSD-2-Clause */
/* ev.c - exs_ev: an event queue as a libev watcher. See exs_ev.h. */
#include <exs_ev.h>
#include "core/api/core.h"

/* The descriptor is readable, or the watcher continues busy polling. After its callback the watcher feeds
 * itself an event (EV_CUSTOM) to poll for the next events. Other pending watchers, and a callback that stops
 * this watcher, are therefore handled before it polls again. */
static void ready(EV_P_ ev_io *io, int revents)
{
    exs_ev *w = (exs_ev *)io; /* io is its first member */
    exs_qhandle_t queue = w->queue;
    exs_event_t events[EXS_EV_BATCH];

    if (xs_enter("exs_ev") < 0) { /* in a forked child the queue and its locks belong to the parent */
        ev_io_stop(EV_A_ io);
        return;
    }
    bool is_alone = ev_pending_count(EV_A) == 0, busy_polls = is_alone;
    int count = revents == EV_CUSTOM ? 0 : xs_loop_dequeue(queue, events, EXS_EV_BATCH, &busy_polls);

    if (count == 0) { /* also without busy polling: the call releases a descriptor that was kept readable */
        busy_polls = busy_polls && is_alone;
        count = xs_loop_busy_poll(queue, events, EXS_EV_BATCH, &busy_polls);
    }
    if (count < 0) {
        exs_ev_stop(EV_A_ w); /* the queue was deleted while the watcher was active */
        return;
    }
    busy_polls = busy_polls && count > 0 && ev_is_active(io);
    if (busy_polls)
        ev_feed_event(EV_A_ io, EV_CUSTOM);
    if (count > 0)
        w->cb(EV_A_ w, events, count); /* may stop the watcher, delete the queue, free w */
    /* If the watcher polls again right away, the loop does not sleep before, so nothing needs to be flushed. */
    if (!busy_polls || ev_pending_count(EV_A) != 1)
        xs_loop_prepare(queue);
}

void exs_ev_set(exs_ev *w, exs_qhandle_t queue)
{
    w->queue = queue;
    ev_set_cb(&w->io, ready);
    ev_io_set(&w->io, exs_qfd(queue), EV_READ);
}

void exs_ev_start(EV_P_ exs_ev *w)
{
    if (w->io.fd >= 0)
        ev_io_start(EV_A_ & w->io);
}

void exs_ev_stop(EV_P_ exs_ev *w)
{
    ev_io_stop(EV_A_ & w->io);
    if (xs_enter(__func__) == 0) /* in a forked child the queue belongs to the parent */
        xs_loop_leave(w->queue);
}
