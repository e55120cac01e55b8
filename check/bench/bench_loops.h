/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_loops.h - the event loops that exs_bench can use, each with its adapter. A process has one queue and one
 * loop. */
#ifndef BENCH_LOOPS_H
#define BENCH_LOOPS_H

#include <exs.h>

struct bench_loop {
    const char *name;
    /* Makes the loop call `handle` with the events of the queue. Returns 0, or -1 and errno. */
    int (*open)(exs_qhandle_t queue, void (*handle)(exs_event_t *events, int count));
    void (*run)(void); /* until leave() */
    void (*leave)(void);
    void (*close)(void);
};

extern const struct bench_loop bench_loop_ev, bench_loop_uv, bench_loop_glib, bench_loop_libevent,
    bench_loop_uring;
/* The loops whose libraries were available at build time, terminated by NULL; the first one is libev. */
extern const struct bench_loop *const bench_loops[];

#endif
