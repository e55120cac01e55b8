/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * overlong.h - makes a write beyond RLIMIT_FSIZE fail with EFBIG without the signal SIGXFSZ, which would end the
 * program. Checking the limit before is not enough: another thread or another program may lower it in between.
 */
#ifndef XS_OVERLONG_H
#define XS_OVERLONG_H

#include <signal.h>
#include <stdbool.h>

/* State of one thread between the two calls. */
struct overlong {
    sigset_t before; /* the thread's signal mask */
    bool is_awaited; /* the signal was pending and blocked by the program, and must stay so */
};

/* Blocks the signal in this thread. */
void overlong_begin(struct overlong *overlong);
/* Discards the signal if a call since then failed with it (`error` is its errno, or 0), and restores the mask. Keeps
 * errno. */
void overlong_end(const struct overlong *overlong, int error);

#endif
