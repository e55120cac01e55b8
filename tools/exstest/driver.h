/* SPDX-License-Identifier: BSD-2-Clause */
/* driver.h - the event queues of one thread of a client, and the loop that processes them: libev, or polling. */
#ifndef EXSTEST_DRIVER_H
#define EXSTEST_DRIVER_H

#include <exs_ev.h>
#include <stdbool.h>

struct lane {
    exs_ev watcher;
    exs_qhandle_t queue;
};

struct driver { /* owned and used by one thread */
    struct ev_loop *loop;
    struct lane *lanes;
    int count;
    bool polling;
    bool stop;
};

/* Creates this number of queues. Returns 0, or -1 and errno. */
int driver_open(struct driver *driver, int queues, bool polling);
/* Deletes the queues; their sockets must be closed. Returns 0, or -1 and errno. */
int driver_close(struct driver *driver);
/* Adds the library's counters of the queues to `sum`. */
void driver_count(const struct driver *driver, exs_stats_t *sum);
/* Passes events to their links until driver_stop(). */
void driver_run(struct driver *driver);
void driver_stop(struct driver *driver);

#endif
