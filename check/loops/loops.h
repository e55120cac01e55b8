/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loops.h - every loop that an event queue has an adapter for, in the same few words, so that one test does the
 * same to each. What fails in a loop fails the test.
 */
#ifndef CHECK_LOOPS_H
#define CHECK_LOOPS_H

#include "check/support/support.h"

struct watch { /* a queue in a loop; owned by the loop's thread */
    exs_qhandle_t queue;
    void (*cb)(struct watch *w, exs_event_t *events, int count);
    void *data; /* the test's */
    const struct loop_kind *kind;
    void *own; /* the adapter's struct, on the heap from make to drop */
};

struct beside { /* another descriptor in the same loop, watched for reading, level-triggered, to the loop's end
                 */
    int fd;
    void (*cb)(struct beside *b);
    void *data; /* the test's */
};
enum { BESIDES = 2 }; /* of one loop */

struct loop_kind {
    const char *name;
    void *(*open)(void);
    void (*close)(void *loop);
    void (*turn)(void *loop); /* one, which sleeps until something is ready */
    void (*make)(void *loop, struct watch *w);
    void (*start)(struct watch *w);
    void (*stop)(struct watch *w);
    void (*drop)(struct watch *w); /* stop it, and free what is the adapter's as soon as its manual allows */
    void (*beside)(void *loop, struct beside *b);
    bool (*allowed)(void); /* by this kernel; NULL: by every one */
    /* What this adapter's manual allows: */
    bool restarts_in_callback; /* to start a watcher that the same callback has stopped */
    bool stops_behind_delete;  /* to stop a watcher whose queue was deleted before */
};

extern const struct loop_kind loop_of_ev, loop_of_uv, loop_of_glib, loop_of_libevent, loop_of_uring;

#endif
