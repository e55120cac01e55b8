/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doorbell.h - a descriptor that wakes a thread or an event loop when it becomes readable: an eventfd, or a timerfd,
 * which also becomes readable when a time has been reached.
 *
 * A doorbell is used in one of two ways:
 *   level   doorbell_set() keeps the descriptor readable while there is something to do. The state is cached in `up`,
 *           so that only a change costs a system call. The owner's lock guards the struct; a thread that sleeps on
 *           the descriptor needs no lock.
 *   signal  doorbell_signal() makes the descriptor readable until doorbell_drain(). Any thread may call it, without
 *           a lock.
 */
#ifndef XS_DOORBELL_H
#define XS_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>
#include "clock.h"

enum doorbell_kind {
    DOORBELL_PLAIN, /* an eventfd that the application never gets */
    DOORBELL_TIMED, /* a timerfd; doorbell_signal() must not be used */
    DOORBELL_SHOWN  /* an eventfd that the application gets: blocking, unless the application sets O_NONBLOCK */
};

/* Owned by the struct that contains it. Before doorbell_make() and after doorbell_close() there is no descriptor, and
 * the functions only record the state. */
struct doorbell {
    int fd; /* -1: none */
    enum doorbell_kind kind;
    bool up;     /* doorbell_set() or doorbell_retrigger() has made the descriptor readable */
    uint64_t at; /* when a timerfd becomes readable, ns (clock.h); NEVER_NS: no time is set */
};

#define DOORBELL_INIT(kind_)                                                                                   \
    {                                                                                                          \
        .fd = -1, .kind = (kind_), .at = NEVER_NS                                                              \
    }

/* Makes the descriptor, with the recorded state. Returns 0, or -1 and errno. */
int doorbell_make(struct doorbell *wakefd);
/* Closes the descriptor, if there is one. Keeps errno. */
void doorbell_close(struct doorbell *wakefd);
/* Makes the descriptor readable (`up`) or not readable. If the system call fails, the next call tries again. */
void doorbell_set(struct doorbell *wakefd, bool up);
/* Sets the time (ns) when a timerfd becomes readable, NEVER_NS for none. A timerfd that is readable because its
 * previous time has passed stops being readable. */
void doorbell_time(struct doorbell *wakefd, uint64_t at);
/* Makes the descriptor readable, with a new edge for edge-triggered watchers even if it was readable before. */
void doorbell_retrigger(struct doorbell *wakefd);

/* Makes the descriptor readable until doorbell_drain(). May be called by any thread; does nothing if there is no
 * descriptor. */
void doorbell_signal(const struct doorbell *wakefd);
/* Consumes all signals so far: the descriptor is no longer readable. */
void doorbell_drain(const struct doorbell *wakefd);

#endif
