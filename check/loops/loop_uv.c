/* SPDX-License-Identifier: BSD-2-Clause */
/* loop_uv.c - libuv, through exs_uv.h. */
#include "loops.h"

#include <exs_uv.h>

struct world {
    uv_loop_t loop;
    uv_poll_t besides[BESIDES];
    int count;
};

#define fine(call) ck_assert_str_eq((call) < 0 ? #call : "", "")

static void *uv_open(void)
{
    struct world *world = calloc(1, sizeof(*world));

    ck_assert_ptr_nonnull(world);
    fine(uv_loop_init(&world->loop));
    return world;
}

/* uv_loop_close() fails if a handle was not closed. */
static void uv_world_close(void *loop)
{
    struct world *world = loop;

    for (int i = 0; i < world->count; i++)
        uv_close((uv_handle_t *)&world->besides[i], NULL);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    fine(uv_loop_close(&world->loop));
    free(world);
}

static void uv_turn(void *loop)
{
    uv_run(&((struct world *)loop)->loop, UV_RUN_ONCE);
}

static void events_cb(exs_uv_t *handle, exs_event_t *events, int count)
{
    struct watch *w = handle->data;

    ck_assert(count >= 1 && count <= EXS_UV_BATCH);
    w->cb(w, events, count);
}

static void uv_make(void *loop, struct watch *w)
{
    exs_uv_t *handle = new_buffer(sizeof(*handle));

    handle->data = w;
    fine(exs_uv_init(&((struct world *)loop)->loop, handle, w->queue));
    w->own = handle;
}

static void uv_start(struct watch *w)
{
    fine(exs_uv_start(w->own, events_cb));
}

static void uv_stop_it(struct watch *w)
{
    fine(exs_uv_stop(w->own));
}

static void closed_cb(exs_uv_t *handle)
{
    free(handle);
}

static void uv_drop(struct watch *w)
{
    exs_uv_close(w->own, closed_cb);
}

static void beside_cb(uv_poll_t *poll, int status, int revents)
{
    struct beside *b = poll->data;

    ck_assert_int_eq(status, 0);
    (void)revents;
    b->cb(b);
}

static void uv_beside(void *loop, struct beside *b)
{
    struct world *world = loop;
    uv_poll_t *poll = &world->besides[world->count++];

    fine(uv_poll_init(&world->loop, poll, b->fd));
    poll->data = b;
    fine(uv_poll_start(poll, UV_READABLE, beside_cb));
}

const struct loop_kind loop_of_uv = {
    .name = "libuv",
    .open = uv_open,
    .close = uv_world_close,
    .turn = uv_turn,
    .make = uv_make,
    .start = uv_start,
    .stop = uv_stop_it,
    .drop = uv_drop,
    .beside = uv_beside,
    .allowed = NULL,
    .restarts_in_callback = true,
    .stops_behind_delete = true,
};
