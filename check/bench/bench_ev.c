/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_ev.c - the loop libev, by exs_ev.h; and the list of all loops. */
#include <exs_ev.h>
#include <stddef.h>

#include "bench_loops.h"

static exs_ev watcher;
static void (*handle_events)(exs_event_t *events, int count);

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)loop;
    (void)w;
    handle_events(events, count);
}

static int ev_open(exs_qhandle_t queue, void (*handle)(exs_event_t *events, int count))
{
    handle_events = handle;
    exs_ev_init(&watcher, events_cb, queue);
    exs_ev_start(EV_DEFAULT_ & watcher);
    return 0;
}

static void ev_loop_run(void)
{
    ev_run(EV_DEFAULT_ 0);
}

static void ev_leave(void)
{
    ev_break(EV_DEFAULT_ EVBREAK_ALL);
}

static void ev_close(void)
{
    exs_ev_stop(EV_DEFAULT_ & watcher);
}

const struct bench_loop bench_loop_ev = {"ev", ev_open, ev_loop_run, ev_leave, ev_close};

const struct bench_loop *const bench_loops[] = {
    &bench_loop_ev,
#ifdef WITH_UV
    &bench_loop_uv,
#endif
#ifdef WITH_GLIB
    &bench_loop_glib,
#endif
#ifdef WITH_LIBEVENT
    &bench_loop_libevent,
#endif
#ifdef WITH_URING
    &bench_loop_uring,
#endif
    NULL,
};
