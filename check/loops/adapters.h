/* SPDX-License-Identifier: BSD-2-Clause */
/* adapters.h - shared by the cases of test_adapters: the loops whose libraries are available, a watched queue,
 * a timer. */
#ifndef CHECK_ADAPTERS_H
#define CHECK_ADAPTERS_H

#include "loops.h"

extern const struct loop_kind *kinds_here[];
extern int kinds_count;

/* Fills kinds_here, and prints a line for each loop whose library configure did not find. Returns the number of
 * these. */
int find_kinds(void);

/* Creates and starts a watcher of a queue in a loop. */
void watch_open(struct watch *w, int kind, void *loop, exs_qhandle_t queue,
                void (*cb)(struct watch *, exs_event_t *, int), void *data);

struct timer { /* another descriptor in the loop */
    struct beside beside;
    bool over;
};

void timer_open(struct timer *timer, int kind, void *loop);
/* Runs the loop for `ms` milliseconds. Returns the number of its iterations. */
int turns_for(struct timer *timer, int kind, void *loop, int ms);

/* Test cases: what a callback may do, and in which order a watcher and its queue may end. */
void add_callback_tests(TCase *tcase);
void add_order_tests(TCase *tcase);

#endif
