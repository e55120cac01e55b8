/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * overlong.h - a file that would be longer than the program's may be (RLIMIT_FSIZE) is an error, EFBIG, and not
 * the signal that the kernel sends besides, and that ends a program. To look at the limit before is no help:
 * another thread may lower it in between, or another program.
 */
#ifndef XS_OVERLONG_H
#define XS_OVERLONG_H

#include <signal.h>
#include <stdbool.h>

/* Of one thread, between the two calls. */
struct overlong {
    sigset_t before; /* its mask */
    bool is_awaited; /* the program has the signal waiting for itself */
};

/* From here on a call of this thread that makes a file longer has no signal, */
void overlong_begin(struct overlong *overlong);
/* to here. Of all that was called between, `error` is the errno with which it ended, or 0. Keeps errno. */
void overlong_end(const struct overlong *overlong, int error);

#endif
