/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_glib.c - the loop of GLib, by exs_glib.h. */
#include <exs_glib.h>

#include "bench_loops.h"

static GMainLoop *main_loop;
static guint source;
static void (*handle_events)(exs_event_t *events, int count);

static gboolean events_cb(exs_qhandle_t queue, exs_event_t *events, int count, gpointer data)
{
    (void)queue;
    (void)data;
    handle_events(events, count);
    return G_SOURCE_CONTINUE;
}

static int glib_open(exs_qhandle_t queue, void (*handle)(exs_event_t *events, int count))
{
    handle_events = handle;
    main_loop = g_main_loop_new(NULL, FALSE);
    source = exs_glib_add(queue, events_cb, NULL);
    return source != 0 ? 0 : -1;
}

static void glib_run(void)
{
    g_main_loop_run(main_loop);
}

static void glib_leave(void)
{
    g_main_loop_quit(main_loop);
}

static void glib_close(void)
{
    g_source_remove(source);
    g_main_loop_unref(main_loop);
}

const struct bench_loop bench_loop_glib = {"glib", glib_open, glib_run, glib_leave, glib_close};
