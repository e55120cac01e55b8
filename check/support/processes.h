/* SPDX-License-Identifier: BSD-2-Clause */
/* processes.h - other processes that a test began: how they say that they are ready, stand still, and end. */
#ifndef CHECK_PROCESSES_H
#define CHECK_PROCESSES_H

#include <sys/types.h>

/* Until a byte comes, by which another process says that it has got so far. */
void await_byte(int fd);
/* When this returns it stands still, until it is sent SIGCONT. */
void process_stop(pid_t pid);
/* When this returns it is gone, with all that the kernel closes for it. */
void process_kill(pid_t pid);
/* It has come to its end by itself, with status 0. */
void process_join(pid_t pid);

#endif
