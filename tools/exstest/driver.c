/* SPDX-License-Identifier: BSD-2-Clause */
/* driver.c - event queues and their loop; see driver.h. */
#include "driver.h"

#include <errno.h>
#include <stdlib.h>
#include "counters.h"
#include "link.h"

enum { DEPTH = 512, BATCH = 64, ROUNDS = 1024 };

static void give_out(exs_event_t *events, int count)
{
    for (int i = 0; i < count; i++)
        if (events[i].exs_evt_ahandle != NULL)
            link_event(events[i].exs_evt_ahandle, &events[i]);
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)loop, (void)w;
    give_out(events, count);
}

static int open_lane(struct driver *driver)
{
    struct lane *lane = &driver->lanes[driver->count];

    lane->queue = exs_qcreate(DEPTH);
    if (lane->queue == EXS_QHANDLE_INVALID)
        return -1;
    exs_ev_init(&lane->watcher, events_cb, lane->queue);
    exs_ev_start(driver->loop, &lane->watcher);
    driver->count++;
    return 0;
}

int driver_open(struct driver *driver, int queues, bool polling)
{
    *driver = (struct driver){.polling = polling, .loop = ev_loop_new(EVFLAG_AUTO)};
    driver->lanes = calloc((size_t)queues, sizeof(*driver->lanes));
    if (driver->loop == NULL || driver->lanes == NULL) {
        driver_close(driver);
        errno = ENOMEM;
        return -1;
    }
    while (driver->count < queues) {
        if (open_lane(driver) == -1) {
            int error = errno;

            driver_close(driver);
            errno = error;
            return -1;
        }
    }
    return 0;
}

int driver_close(struct driver *driver)
{
    int result = 0;

    while (driver->count > 0) {
        struct lane *lane = &driver->lanes[--driver->count];

        exs_ev_stop(driver->loop, &lane->watcher);
        if (exs_qdelete(lane->queue) == -1)
            result = -1;
    }
    free(driver->lanes);
    if (driver->loop != NULL)
        ev_loop_destroy(driver->loop);
    return result;
}

void driver_count(const struct driver *driver, exs_stats_t *sum)
{
    for (int i = 0; i < driver->count; i++)
        counters_add(sum, driver->lanes[i].queue);
}

static void poll_round(struct driver *driver)
{
    const struct timeval now = {0};
    exs_event_t events[BATCH];

    for (int i = 0; i < driver->count && !driver->stop; i++)
        give_out(events, exs_qdequeue(driver->lanes[i].queue, events, BATCH, &now));
}

void driver_run(struct driver *driver)
{
    driver->stop = false;
    while (!driver->stop) {
        if (!driver->polling) {
            ev_run(driver->loop, EVRUN_ONCE);
            continue;
        }
        for (int i = 0; i < ROUNDS && !driver->stop; i++)
            poll_round(driver);
        ev_run(driver->loop, EVRUN_NOWAIT); /* runs timers that have expired */
    }
}

void driver_stop(struct driver *driver)
{
    driver->stop = true;
}
