/* SPDX-License-Identifier: BSD-2-Clause */
/* loop_ev.c - libev, through exs_ev.h. The other adapters must do the same. */
#include "loops.h"

#include <exs_ev.h>

struct world {
    struct ev_loop *loop;
    ev_io besides[BESIDES];
    int count;
};

struct own {
    exs_ev ev;
    struct ev_loop *loop;
};

static void *ev_open(void)
{
    struct world *world = calloc(1, sizeof(*world));

    ck_assert_ptr_nonnull(world);
    world->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    ck_assert_ptr_nonnull(world->loop);
    return world;
}

static void ev_close(void *loop)
{
    struct world *world = loop;

    ev_loop_destroy(world->loop);
    free(world);
}

static void ev_turn(void *loop)
{
    ev_run(((struct world *)loop)->loop, EVRUN_ONCE);
}

static void events_cb(EV_P_ exs_ev *ev, exs_event_t *events, int count)
{
    struct watch *w = ev->data;

    (void)loop;
    ck_assert(count >= 1 && count <= EXS_EV_BATCH);
    w->cb(w, events, count);
}

static void ev_make(void *loop, struct watch *w)
{
    struct own *own = new_buffer(sizeof(*own));

    own->loop = ((struct world *)loop)->loop;
    own->ev.data = w;
    exs_ev_init(&own->ev, events_cb, w->queue);
    w->own = own;
}

static void ev_start(struct watch *w)
{
    struct own *own = w->own;

    exs_ev_start(own->loop, &own->ev);
}

static void ev_stop(struct watch *w)
{
    struct own *own = w->own;

    exs_ev_stop(own->loop, &own->ev);
}

static void ev_drop(struct watch *w)
{
    ev_stop(w);
    free(w->own);
}

static void beside_cb(EV_P_ ev_io *io, int revents)
{
    struct beside *b = io->data;

    (void)loop;
    (void)revents;
    b->cb(b);
}

static void ev_beside(void *loop, struct beside *b)
{
    struct world *world = loop;
    ev_io *io = &world->besides[world->count++];

    io->data = b;
    ev_io_init(io, beside_cb, b->fd, EV_READ);
    ev_io_start(world->loop, io);
}

const struct loop_kind loop_of_ev = {
    .name = "libev",
    .open = ev_open,
    .close = ev_close,
    .turn = ev_turn,
    .make = ev_make,
    .start = ev_start,
    .stop = ev_stop,
    .drop = ev_drop,
    .beside = ev_beside,
    .allowed = NULL,
    .restarts_in_callback = true,
    .stops_behind_delete = true,
};
