/* SPDX-License-Identifier: BSD-2-Clause */
/* processes.c - see processes.h. */
#include "processes.h"
#include <check.h>
#include <signal.h>
#include <unistd.h>
#include <sys/wait.h>

void await_byte(int fd)
{
    char byte;

    ck_assert_int_eq(read(fd, &byte, 1), 1);
}

void process_stop(pid_t pid)
{
    int status;

    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert_msg(WIFSTOPPED(status), "process %d is not stopped, but ended with status %#x", (int)pid,
                  (unsigned)status);
}

void process_kill(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

void process_join(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(status == 0, "process %d ended with status %#x", (int)pid, (unsigned)status);
}
