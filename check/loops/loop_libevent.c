/* SPDX-License-Identifier: BSD-2-Clause */
/* loop_libevent.c - libevent, through exs_libevent.h. */
#include "loops.h"

#include <exs_libevent.h>

struct world {
    struct event_base *base;
    struct event besides[BESIDES];
    int count;
};

static void *libevent_open(void)
{
    struct world *world = calloc(1, sizeof(*world));

    ck_assert_ptr_nonnull(world);
    world->base = event_base_new();
    ck_assert_ptr_nonnull(world->base);
    return world;
}

static void libevent_close(void *loop)
{
    struct world *world = loop;

    for (int i = 0; i < world->count; i++)
        event_del(&world->besides[i]);
    event_base_free(world->base);
    free(world);
}

static void libevent_turn(void *loop)
{
    must(event_base_loop(((struct world *)loop)->base, EVLOOP_ONCE));
}

static void events_cb(exs_libevent *event, exs_event_t *events, int count)
{
    struct watch *w = event->data;

    ck_assert(count >= 1 && count <= EXS_LIBEVENT_BATCH);
    w->cb(w, events, count);
}

static void libevent_make(void *loop, struct watch *w)
{
    exs_libevent *event = new_buffer(sizeof(*event));

    event->data = w;
    must(exs_libevent_assign(event, ((struct world *)loop)->base, w->queue, events_cb));
    w->own = event;
}

static void libevent_start(struct watch *w)
{
    must(exs_libevent_add(w->own));
}

static void libevent_stop(struct watch *w)
{
    must(exs_libevent_del(w->own));
}

static void libevent_drop(struct watch *w)
{
    libevent_stop(w);
    free(w->own);
}

static void beside_cb(evutil_socket_t fd, short what, void *arg)
{
    struct beside *b = arg;

    (void)fd;
    (void)what;
    b->cb(b);
}

static void libevent_beside(void *loop, struct beside *b)
{
    struct world *world = loop;
    struct event *event = &world->besides[world->count++];

    must(event_assign(event, world->base, b->fd, EV_READ | EV_PERSIST, beside_cb, b));
    must(event_add(event, NULL));
}

const struct loop_kind loop_of_libevent = {
    .name = "libevent",
    .open = libevent_open,
    .close = libevent_close,
    .turn = libevent_turn,
    .make = libevent_make,
    .start = libevent_start,
    .stop = libevent_stop,
    .drop = libevent_drop,
    .beside = libevent_beside,
    .allowed = NULL,
    .restarts_in_callback = true,
    .stops_behind_delete = false,
};
