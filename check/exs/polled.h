/* SPDX-License-Identifier: BSD-2-Clause */
/* polled.h - shared by the tests of exs_poll: the readiness of a descriptor, and threads that sleep in a poll. */
#ifndef CHECK_POLLED_H
#define CHECK_POLLED_H

#include "check/support/support.h"

#define LENGTH (300 * KIB) /* more than the peer's ring buffer */
#define SHORT_US 50000

static const struct timeval at_once = {0}, shortly = {.tv_usec = SHORT_US};

/* The current readiness of one descriptor. */
static inline int ready_now(int fd, int events)
{
    exs_pollfd_t poll = {.exs_fd = fd, .exs_events = (short)events, .exs_revents = -1};
    int ready = exs_poll(&poll, 1, EXS_BLOCK, &at_once, NULL, NULL);

    must(ready);
    ck_assert_int_eq(ready, poll.exs_revents != 0);
    return poll.exs_revents;
}

/* Waits until the descriptor is ready, and checks for what. */
static inline void becomes_ready(int fd, int events, int revents)
{
    exs_pollfd_t poll = {.exs_fd = fd, .exs_events = (short)events};

    ck_assert_int_eq(exs_poll(&poll, 1, EXS_BLOCK, NULL, NULL, NULL), 1);
    ck_assert_int_eq(poll.exs_revents, revents);
}

/* A thread, and the descriptor that it waits for. */
struct sleeping {
    _Atomic pid_t tid;
    int end, asking; /* the element that the thread polls */
};

#endif
