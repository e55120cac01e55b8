/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doorbell.h - a descriptor that is made readable so that somebody looks: an eventfd, or a timerfd, which rings
 * by itself as well when its time has come.
 *
 * It is used in two ways. As a flag, up while there is something to see: what it is stays written here, so
 * that only a change is a system call. Its owner's lock guards that; who sleeps on the descriptor needs none.
 * Or as a call, doorbell_ring, from any thread without a lock, until doorbell_hear.
 */
#ifndef XS_DOORBELL_H
#define XS_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>
#include "clock.h"

enum doorbell_kind {
    DOORBELL_PLAIN,
    DOORBELL_TIMED, /* with a time; no call */
    DOORBELL_SHOWN  /* to programs, whose O_NONBLOCK on it says whether they wait: it comes without */
};

/* Its owner's. Before doorbell_make and after doorbell_close it has no descriptor, and only takes note. */
struct doorbell {
    int fd; /* -1: none */
    enum doorbell_kind kind;
    bool up;
    uint64_t at; /* by clock.h */
};

#define DOORBELL_INIT(kind_)                                                                                   \
    {                                                                                                          \
        .fd = -1, .kind = (kind_), .at = NEVER_NS                                                              \
    }

/* The descriptor, for what was noted so far. 0, or -1 and errno. */
int doorbell_make(struct doorbell *bell);
void doorbell_close(struct doorbell *bell);
/* What the kernel refuses is tried again by the next call. */
void doorbell_set(struct doorbell *bell, bool up);
/* Ring at this time at the latest, NEVER_NS for none; what has rung by itself is quiet again. */
void doorbell_time(struct doorbell *bell, uint64_t at);
/* Up, and once more if it was: whoever watches it by edge sees one. */
void doorbell_again(struct doorbell *bell);

/* Any thread; does nothing where there is no descriptor. */
void doorbell_ring(const struct doorbell *bell);
/* Whatever was rung so far: quiet again. */
void doorbell_hear(const struct doorbell *bell);

#endif
