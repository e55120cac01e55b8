/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs_ev.h - an event queue as a libev watcher [ours].
 *
 *   static void events_cb (EV_P_ exs_ev *w, exs_event_t *events, int count) { ... }
 *
 *   exs_ev w;
 *   exs_ev_init (&w, events_cb, queue);
 *   exs_ev_start (EV_A_ &w);
 *
 * The watcher is a plain struct of the user's, with a data member, as libev's own are. Its callback
 * gets the events that are there, never none of them. Inside the callback it is safe to stop the
 * watcher, to close sockets and to delete the queue (once the watcher is stopped).
 * Priority (exs_ev_set_priority) is libev's, and so are ev_ref and ev_unref around a started watcher.
 */
#ifndef EXS_EV_H
#define EXS_EV_H

#include <ev.h>
#include <exs.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define EXS_EV_BATCH 64 /* most events of one callback */

typedef struct exs_ev {
    ev_io io; /* private */
    void (*cb)(EV_P_ struct exs_ev *w, exs_event_t *events, int count);
    void *data; /* the user's */
    exs_qhandle_t queue;
} exs_ev;

/* Set the queue of a stopped watcher. */
void exs_ev_set(exs_ev *w, exs_qhandle_t queue);
void exs_ev_start(EV_P_ exs_ev *w);
void exs_ev_stop(EV_P_ exs_ev *w);

/* Initialise a watcher; data is left as it is. */
#define exs_ev_init(w, callback, q)                                                                            \
    do {                                                                                                       \
        ev_init(&(w)->io, 0);                                                                                  \
        (w)->cb = (callback);                                                                                  \
        exs_ev_set((w), (q));                                                                                  \
    } while (0)

#define exs_ev_is_active(w) ev_is_active(&(w)->io)
#define exs_ev_priority(w) ev_priority(&(w)->io)
#define exs_ev_set_priority(w, pri) ev_set_priority(&(w)->io, (pri))

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
