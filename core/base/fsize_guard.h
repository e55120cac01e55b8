/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fsize_guard.h - makes a write beyond RLIMIT_FSIZE fail with EFBIG without the signal SIGXFSZ, which would end the
 * program. Checking the limit before is not enough: another thread or another program may lower it in between.
 */
#ifndef XS_FSIZE_GUARD_H
#define XS_FSIZE_GUARD_H

#include <signal.h>
#include <stdbool.h>

/* State of one thread between the two calls. */
struct fsize_guard {
    sigset_t before; /* the thread's signal mask */
    bool is_awaited; /* the signal was pending and blocked by the program, and must stay so */
};

/* Blocks the signal in this thread. */
void fsize_guard_begin(struct fsize_guard *fsize_guard);
/* Discards the signal if a call since then failed with it (`error` is its errno, or 0), and restores the mask. Keeps
 * errno. */
void fsize_guard_end(const struct fsize_guard *fsize_guard, int error);

#endif
