/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs_glib.h - an event queue as a GSource, for GLib's main loop [ours]. The header has no library: link with
 * GLib.
 *
 *   static gboolean events_cb(exs_qhandle_t queue, exs_event_t *events, int count, gpointer data) { ... }
 *
 *   exs_glib_add(queue, events_cb, data);
 *
 * For another context or priority, call exs_glib_source_new, exs_glib_set_callback and g_source_attach instead.
 * The callback gets one event or more. It returns G_SOURCE_CONTINUE or G_SOURCE_REMOVE. It may destroy the source,
 * and then delete the queue; it may also close sockets.
 */
#ifndef EXS_GLIB_H
#define EXS_GLIB_H

#include <exs.h>
#include <glib-unix.h>

G_BEGIN_DECLS

#define EXS_GLIB_BATCH 64 /* maximum number of events that one callback gets */

typedef gboolean (*exs_glib_cb)(exs_qhandle_t queue, exs_event_t *events, int count, gpointer data);

/* private */
struct exs_glib__source {
    GSource source;
    exs_qhandle_t queue;
};

/* private */
static inline gboolean exs_glib__ready(GSource *source, GSourceFunc callback, gpointer data)
{
    exs_qhandle_t queue = ((struct exs_glib__source *)source)->queue;
    exs_event_t events[EXS_GLIB_BATCH];
    gboolean result = G_SOURCE_CONTINUE;
    int count = 0;

    if (callback == NULL)
        return G_SOURCE_REMOVE; /* the queue keeps its events */
    while (result == G_SOURCE_CONTINUE &&
           (count = exs_qpoll(queue, events, EXS_GLIB_BATCH, EXS_LOOP_BUDGET)) > 0) {
        result = ((exs_glib_cb)(void (*)(void))callback)(queue, events, count, data);
        if (g_source_is_destroyed(source)) {
            exs_qprepare(queue); /* fails if the queue was deleted, too */
            return G_SOURCE_REMOVE;
        }
    }
    if (count < 0)
        return G_SOURCE_REMOVE; /* the queue was deleted, or this is a forked child */
    exs_qprepare(queue);
    return result;
}

/* Returns a source that is not attached. The caller releases it with g_source_unref. NULL and errno: queue is
 * not valid. */
static inline GSource *exs_glib_source_new(exs_qhandle_t queue)
{
    static GSourceFuncs funcs = {NULL, NULL, exs_glib__ready, NULL, NULL, NULL};
    int fd = exs_qfd(queue);

    if (fd == -1)
        return NULL;
    GSource *source = g_source_new(&funcs, sizeof(struct exs_glib__source));

    ((struct exs_glib__source *)source)->queue = queue;
    g_source_add_unix_fd(source, fd, G_IO_IN);
    return source;
}

static inline void exs_glib_set_callback(GSource *source, exs_glib_cb cb, gpointer data, GDestroyNotify notify)
{
    g_source_set_callback(source, (GSourceFunc)(void (*)(void))cb, data, notify);
}

/* Attaches a source to the default context, with the default priority. Returns its number, for g_source_remove; 0
 * and errno: queue is not valid. */
static inline guint exs_glib_add(exs_qhandle_t queue, exs_glib_cb cb, gpointer data)
{
    GSource *source = exs_glib_source_new(queue);

    if (source == NULL)
        return 0;
    exs_glib_set_callback(source, cb, data, NULL);
    guint id = g_source_attach(source, NULL);

    g_source_unref(source);
    return id;
}

G_END_DECLS
#endif
