/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doorbell.h - a descriptor that wakes a thread or an event loop when it becomes readable: an eventfd, or a timerfd,
 * which also becomes readable when a time has been reached.
 *
 * There are two ways to use it. As a level (doorbell_set): readable while there is something to do. The state is
 * cached in `up`, so that only a change costs a system call; the owner's lock guards it, but a thread that sleeps on
 * the descriptor needs no lock. Or as a signal (doorbell_signal), from any thread and without a lock, which stays until
 * doorbell_drain().
 */
#ifndef XS_DOORBELL_H
#define XS_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>
#include "clock.h"

enum doorbell_kind {
    DOORBELL_PLAIN,
    DOORBELL_TIMED, /* a timerfd; can't be signaled by doorbell_signal() */
    /* the application gets the descriptor, so that it is blocking unless the application sets O_NONBLOCK */
    DOORBELL_SHOWN
};

/* Owned by the struct that contains it. Before doorbell_make() and after doorbell_close() there is no descriptor, and
 * functions only record the state. */
struct doorbell {
    int fd; /* -1: none */
    enum doorbell_kind kind;
    bool up;     /* the descriptor is readable as doorbell_set() has made it */
    uint64_t at; /* ns, clock.h; NEVER_NS: no time is set */
};

#define DOORBELL_INIT(kind_)                                                                                   \
    {                                                                                                          \
        .fd = -1, .kind = (kind_), .at = NEVER_NS                                                              \
    }

/* Makes the descriptor, with the recorded state. Returns 0, or -1 and errno. */
int doorbell_make(struct doorbell *wakefd);
void doorbell_close(struct doorbell *wakefd);
/* Makes the descriptor readable, or not. If the system call fails, the next call tries again. */
void doorbell_set(struct doorbell *wakefd, bool up);
/* Sets the time when a timerfd becomes readable, NEVER_NS for none. If the previous time made it readable, it is not
 * any more. */
void doorbell_time(struct doorbell *wakefd, uint64_t at);
/* Makes the descriptor readable, with a new edge for edge-triggered watchers even if it was readable before. */
void doorbell_retrigger(struct doorbell *wakefd);

/* Signals. May be called by any thread; does nothing if there is no descriptor. */
void doorbell_signal(const struct doorbell *wakefd);
/* Consumes all signals so far, so that the descriptor is not readable. */
void doorbell_drain(const struct doorbell *wakefd);

#endif
