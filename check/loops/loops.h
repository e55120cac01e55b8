/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loops.h - one interface to every loop for which an event queue has an adapter, so that one test runs on each.
 * An error in a loop fails the test.
 */
#ifndef CHECK_LOOPS_H
#define CHECK_LOOPS_H

#include "check/support/support.h"

struct watch { /* a queue in a loop; owned by the loop's thread */
    exs_qhandle_t queue;
    void (*cb)(struct watch *w, exs_event_t *events, int count);
    void *data; /* the test's data */
    const struct loop_kind *kind;
    void *own; /* the adapter's struct, on the heap from make to drop */
};

/* another descriptor in the same loop: watched for reading, level-triggered, until the loop ends */
struct beside {
    int fd;
    void (*cb)(struct beside *b);
    void *data; /* the test's data */
};
enum { BESIDES = 2 }; /* in one loop */

struct loop_kind {
    const char *name;
    void *(*open)(void);
    void (*close)(void *loop);
    void (*turn)(void *loop); /* one iteration, which sleeps until something is ready */
    void (*make)(void *loop, struct watch *w);
    void (*start)(struct watch *w);
    void (*stop)(struct watch *w);
    void (*drop)(struct watch *w); /* stops it, and frees the adapter's struct as soon as the manual allows */
    void (*beside)(void *loop, struct beside *b);
    bool (*allowed)(void); /* does this kernel allow it? NULL: each kernel does */
    /* What this adapter's manual allows: */
    bool restarts_in_callback; /* start a watcher that the same callback has stopped */
    bool stops_behind_delete;  /* stop a watcher whose queue has been deleted */
};

extern const struct loop_kind loop_of_ev, loop_of_uv, loop_of_glib, loop_of_libevent, loop_of_uring;

#endif
