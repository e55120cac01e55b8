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
    bool is_awaited; /* before fsize_guard_begin() the signal was blocked and pending; it must stay pending */
};

/* Blocks SIGXFSZ in this thread. */
void fsize_guard_begin(struct fsize_guard *fsize_guard);
/* Restores the thread's signal mask. `error` is the errno of the write since fsize_guard_begin(), or 0. If it is EFBIG,
 * first discards the SIGXFSZ of that write. Keeps errno. */
void fsize_guard_end(const struct fsize_guard *fsize_guard, int error);

#endif
