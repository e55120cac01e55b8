/* SPDX-License-Identifier: BSD-2-Clause */
/* events.c - checks the events of a queue: a certain event, or none. */
#include <poll.h>
#include <stdio.h>
#include "trial.h"

exs_event_t ok_event(struct trial *trial, exs_qhandle_t queue, int type, void *ahandle)
{
    struct timeval patience = {.tv_sec = PATIENCE};
    exs_event_t event;
    char what[120];
    int count = exs_qdequeue(queue, &event, 1, &patience);

    if (count < 0)
        broken(trial, "exs_qdequeue");
    snprintf(what, sizeof(what), "no %s came", exs_strevent(type));
    require(trial, count == 1, what);
    snprintf(what, sizeof(what), "%s came, %s was owed", exs_strevent(event.exs_evt_type), exs_strevent(type));
    require(trial, event.exs_evt_type == type, what);
    require(trial, event.exs_evt_ahandle == ahandle, "the event has another ahandle");
    return event;
}

/* Whether the queue's descriptor is readable. Internal traffic may make it readable until the next exs_qdequeue(). */
static bool readable(struct trial *trial, exs_qhandle_t queue)
{
    struct pollfd watched = {.fd = exs_qfd(queue), .events = POLLIN};

    require(trial, watched.fd >= 0, "exs_qfd failed");
    return poll(&watched, 1, 0) != 0;
}

void no_event(struct trial *trial, exs_qhandle_t queue)
{
    struct timeval at_once = {0};
    exs_event_t event;
    int turns = 0;

    do {
        require(trial, exs_qdequeue(queue, &event, 1, &at_once) == 0, "an event was posted");
        require(trial, turns++ < 1000, "exs_qfd stays readable though there is no event");
    } while (readable(trial, queue));
}

ssize_t moved(struct trial *trial, ssize_t result, int type)
{
    if (trial->flags & EXS_BLOCK || result < 0)
        return result;
    require(trial, result == 0, "a call that does not block must return 0 when it started");
    exs_event_t event = ok_event(trial, trial->queue, type, trial);

    trial->other_call = true;
    require(trial, event.exs_evt_socket == trial->fd, "the event is another socket's");
    no_event(trial, trial->queue);
    if (exs_event_result(&event) < 0) {
        errno = (int)-exs_event_result(&event);
        return -1;
    }
    trial->event_flags = exs_event_flags(&event);
    return exs_event_result(&event);
}

int done(struct trial *trial, ssize_t result, int type)
{
    require(trial, result <= 0, "a call that moves no bytes must return 0 or -1");
    return moved(trial, result, type) < 0 ? -1 : 0;
}
