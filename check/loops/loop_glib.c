/* SPDX-License-Identifier: BSD-2-Clause */
/* loop_glib.c - a GLib main context, through exs_glib.h. A source can be attached once, so each start creates a
 * source. */
#include "loops.h"

#include <exs_glib.h>

struct own {
    GMainContext *context;
    GSource *source; /* NULL: stopped */
};

static void *glib_open(void)
{
    return g_main_context_new();
}

static void glib_close(void *loop)
{
    g_main_context_unref(loop);
}

static void glib_turn(void *loop)
{
    g_main_context_iteration(loop, TRUE);
}

static gboolean events_cb(exs_qhandle_t queue, exs_event_t *events, int count, gpointer data)
{
    struct watch *w = data;

    ck_assert(count >= 1 && count <= EXS_GLIB_BATCH);
    ck_assert(queue == w->queue);
    w->cb(w, events, count);
    return G_SOURCE_CONTINUE;
}

static void glib_make(void *loop, struct watch *w)
{
    struct own *own = new_buffer(sizeof(*own));

    *own = (struct own){.context = loop};
    w->own = own;
}

static void glib_start(struct watch *w)
{
    struct own *own = w->own;

    if (own->source)
        return;
    own->source = exs_glib_source_new(w->queue);
    ck_assert_ptr_nonnull(own->source);
    exs_glib_set_callback(own->source, events_cb, w, NULL);
    ck_assert_uint_ne(g_source_attach(own->source, own->context), 0);
}

static void glib_stop(struct watch *w)
{
    struct own *own = w->own;

    if (own->source == NULL)
        return;
    g_source_destroy(own->source);
    g_source_unref(own->source);
    own->source = NULL;
}

static void glib_drop(struct watch *w)
{
    glib_stop(w);
    free(w->own);
}

static gboolean beside_cb(gint fd, GIOCondition condition, gpointer data)
{
    struct beside *b = data;

    (void)fd;
    (void)condition;
    b->cb(b);
    return G_SOURCE_CONTINUE;
}

static void glib_beside(void *loop, struct beside *b)
{
    GSource *source = g_unix_fd_source_new(b->fd, G_IO_IN);

    g_source_set_callback(source, (GSourceFunc)(void (*)(void))beside_cb, b, NULL);
    g_source_attach(source, loop);
    g_source_unref(source);
}

const struct loop_kind loop_of_glib = {
    .name = "GLib",
    .open = glib_open,
    .close = glib_close,
    .turn = glib_turn,
    .make = glib_make,
    .start = glib_start,
    .stop = glib_stop,
    .drop = glib_drop,
    .beside = glib_beside,
    .allowed = NULL,
    .restarts_in_callback = true,
    .stops_behind_delete = true,
};
