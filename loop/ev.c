/* SPDX-License-Identifier: BSD-2-Clause */
/* exs_ev: an event queue as a libev watcher. See exs_ev.h. */
#include <exs_ev.h>
#include "core/core.h"

static void ready(EV_P_ ev_io *io, int revents)
{
    exs_ev *w = (exs_ev *)io; /* its first member */
    exs_qhandle_t queue = w->queue;
    exs_event_t events[EXS_EV_BATCH];
    int count;

    (void)revents;
    count = xs_dequeue(queue, events, EXS_EV_BATCH, BY_LEVEL);
    if (count < 0) {
        exs_ev_stop(EV_A_ w); /* the queue was deleted under a started watcher */
        return;
    }
    if (count > 0)
        w->cb(EV_A_ w, events, count); /* may stop the watcher, delete the queue, free w */
    xs_rest(queue, ev_pending_count(EV_A) == 0);
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
}
