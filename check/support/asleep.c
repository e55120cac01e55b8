/* SPDX-License-Identifier: BSD-2-Clause */
/* asleep.c - see asleep.h. */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "asleep.h"

/* Returns the state letter of a thread: S if it sleeps in the kernel. */
static char thread_state(pid_t tid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    close(fd);
    char *end = length > 0 ? strrchr(line, ')') : NULL;
    return end ? end[2] : '?';
}

void await_sleep(const _Atomic pid_t *tid)
{
    while (*tid == 0 || thread_state(*tid) != 'S')
        sched_yield();
}
