/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll_state.h - what a device and the threads that poll it tell each other. Each context of the device has one, which
 * is valid as long as the context is open.
 *
 * All members are advisory: any thread reads and writes them, relaxed. A value that is read late costs a poll or a
 * wake-up too many, and loses no event.
 */
#ifndef XS_POLL_STATE_H
#define XS_POLL_STATE_H

#include <stdatomic.h>

struct poll_state {
    /* From the device: a thread that stops polling must call the device's stop_polling() with `sleeps`.
     * Pairs with nothing. */
    atomic_bool flush_wanted;
    /* From the device: counts polls that found packets of a connection's peer but no completion, so that completions
     * may follow soon. Pairs with nothing. */
    atomic_uint activity;
    /* From its user: a thread sleeps on the context's wait sets, so that packets wake it, and wakes up at the time that
     * stop_polling() has returned. Pairs with nothing. */
    atomic_bool asleep;
};

#endif
