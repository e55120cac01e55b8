/* SPDX-License-Identifier: BSD-2-Clause */
/* runner.c - runs a test in a separate process, with a timeout. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trial.h"

bool row_applies(const struct row *row, bool nonblocking)
{
    return (row->modes & (nonblocking ? NONBLOCKING : BLOCKING)) != 0;
}

static void run_body(const struct options *options, const struct group *group, const struct row *row,
                     struct verdict *verdict)
{
    struct rlimit no_core = {0};
    struct trial trial = {
        .options = options,
        .group = group,
        .row = row,
        .verdict = verdict,
        .flags = options->nonblocking ? 0 : EXS_BLOCK,
        .type = SOCK_STREAM,
        .fd = -1,
        .peer = -1,
    };

    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    row->body(&trial);
    verdict->passed = verdict->reported;
    _exit(0);
}

static void fail(struct verdict *verdict, const char *reason)
{
    verdict->passed = false;
    snprintf(verdict->reason, sizeof(verdict->reason), "%s", reason);
}

/* Fails the verdict if the process has exceeded its time, was killed, exited with an error, or reported nothing. */
static void judge_end(struct verdict *verdict, bool in_time, int status)
{
    char reason[100];

    if (!in_time) {
        fail(verdict, "Time Out");
    } else if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS)) {
        fail(verdict, "SEGFAULT");
    } else if (WIFSIGNALED(status)) {
        snprintf(reason, sizeof(reason), "killed by signal %d", WTERMSIG(status));
        fail(verdict, reason);
    } else if (WEXITSTATUS(status) != 0) {
        snprintf(reason, sizeof(reason), "exit status %d", WEXITSTATUS(status));
        fail(verdict, reason);
    } else if (!verdict->reported) {
        fail(verdict, "the test reported nothing");
    }
}

/* Waits until the process has exited, which closes its end of the pipe. Returns false on a timeout. */
static bool ended(int pipe_end, int seconds)
{
    struct pollfd end = {.fd = pipe_end, .events = POLLIN};
    int ready;

    do
        ready = poll(&end, 1, seconds * 1000);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

static void run_process(const struct options *options, const struct group *group, const struct row *row,
                        struct verdict *verdict)
{
    int life[2], status = 0;

    if (pipe(life) < 0) {
        fail(verdict, "pipe failed: no descriptor left");
        return;
    }
    pid_t pid = fork();

    if (pid == 0) {
        setpgid(0, 0);
        close(life[0]);
        run_body(options, group, row, verdict);
    }
    close(life[1]);
    if (pid < 0) {
        fail(verdict, "fork failed: raise ulimit -u");
    } else {
        setpgid(pid, pid);
        bool in_time = ended(life[0], options->limit);

        if (!in_time)
            kill(-pid, SIGKILL);
        waitpid(pid, &status, 0);
        judge_end(verdict, in_time, status);
    }
    close(life[0]);
}

void run_row(const struct options *options, const struct group *group, const struct row *row,
             struct verdict *verdict)
{
    struct verdict *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    memset(verdict, 0, sizeof(*verdict));
    if (shared == MAP_FAILED) {
        fail(verdict, "mmap failed: no memory");
        return;
    }
    run_process(options, group, row, shared);
    *verdict = *shared;
    munmap(shared, sizeof(*shared));
}
