/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_libevent.c - the loop libevent, by exs_libevent.h. */
#include <exs_libevent.h>
#include <stddef.h>

#include "bench_loops.h"

static struct event_base *base;
static exs_libevent event_of_queue;
static void (*handle_events)(exs_event_t *events, int count);

static void events_cb(exs_libevent *w, exs_event_t *events, int count)
{
    (void)w;
    handle_events(events, count);
}

static int libevent_open(exs_qhandle_t queue, void (*handle)(exs_event_t *events, int count))
{
    handle_events = handle;
    base = event_base_new();
    if (base == NULL || exs_libevent_assign(&event_of_queue, base, queue, events_cb) != 0)
        return -1;
    return exs_libevent_add(&event_of_queue);
}

static void libevent_run(void)
{
    event_base_dispatch(base);
}

static void libevent_leave(void)
{
    event_base_loopbreak(base);
}

static void libevent_close(void)
{
    exs_libevent_del(&event_of_queue);
    event_base_free(base);
}

const struct bench_loop bench_loop_libevent = {"libevent", libevent_open, libevent_run, libevent_leave,
                                               libevent_close};
