/* SPDX-License-Identifier: BSD-2-Clause */
/* processes.h - other processes that a test started: waiting for them, stopping and killing them. */
#ifndef CHECK_PROCESSES_H
#define CHECK_PROCESSES_H

#include <sys/types.h>

/* Waits for a byte, by which another process reports its progress. */
void await_byte(int fd);
/* Stops the process with SIGSTOP. When this returns it does not run, until it gets SIGCONT. */
void process_stop(pid_t pid);
/* Kills the process. When this returns the kernel has closed its descriptors. */
void process_kill(pid_t pid);
/* Waits until the process exits, with status 0. */
void process_join(pid_t pid);

#endif
