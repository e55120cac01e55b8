/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll_state.h - variables by which a device and the threads that poll it inform each other. Each context of the device
 * has one struct poll_state, which is valid as long as the context is open.
 *
 * All members are advisory: any thread reads and writes them, with relaxed order. A value that is read late costs one
 * needless poll or wake-up, and loses no event.
 */
#ifndef XS_POLL_STATE_H
#define XS_POLL_STATE_H

#include <stdatomic.h>

struct poll_state {
    /* Set by the device: before a thread sleeps, it must call the device's stop_polling() with `sleeps`, because the
     * device holds back packets or has a timer. Pairs with nothing. */
    atomic_bool flush_wanted;
    /* Incremented by the device when a poll has found packets of a connection's peer but no completion: completions
     * will probably follow soon. Pairs with nothing. */
    atomic_uint activity;
    /* Set by the device's user: a thread sleeps on the context's wait sets, so that packets wake it, and it wakes up at
     * the latest at the time that stop_polling() has returned. Pairs with nothing. */
    atomic_bool asleep;
    /* Written by the device's user before each post: the thread that posts is handling events, and will poll the
     * context again or call stop_polling() when it has handled them. Until then the device may hold back the packets of
     * posted requests, to send them together with later ones. Pairs with nothing. */
    atomic_bool polls_again;
};

#endif
