/* SPDX-License-Identifier: BSD-2-Clause */
/* asleep.h - to know that another thread sleeps in a system call, without sleeping oneself. */
#ifndef CHECK_ASLEEP_H
#define CHECK_ASLEEP_H

#include <sys/types.h>

/* Until the thread that writes its number there, 0 before, sleeps in the kernel. */
void await_sleep(const _Atomic pid_t *tid);

#endif
