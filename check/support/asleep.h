/* SPDX-License-Identifier: BSD-2-Clause */
/* asleep.h - waits until another thread sleeps in a system call. */
#ifndef CHECK_ASLEEP_H
#define CHECK_ASLEEP_H

#include <sys/types.h>

/* Returns when the thread whose ID is in *tid sleeps in the kernel. The thread stores its ID itself; until then *tid is
 * 0. */
void await_sleep(const _Atomic pid_t *tid);

#endif
