/* SPDX-License-Identifier: BSD-2-Clause */
/* run.c - starts and ends a run. Its output goes to a file in memory. A run that hangs exits after a time-out
 * (fail.c); otherwise this program kills it with all processes that it has started. */
#include "run.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include <unistd.h>
#include "calls.h"
#include "core/base/clock.h"

#define SECONDS 30 /* longer than the sum of the library's timeouts */

static const char *const names[] = {
#define CALL(name, lasting, passing) #name,
    TORTURE_CALLS(CALL)
#undef CALL
        NULL};

/* The library to preload, and the directories of LD_LIBRARY_PATH: a path in LD_PRELOAD could not contain spaces. */
static const char library[] = "libfail.so";
static char folders[1000];

bool run_prepare(void)
{
    char here[400];

    if (getcwd(here, sizeof(here)) == NULL)
        return false;
    snprintf(folders, sizeof(folders), "%s/.libs:%s/check/torture/.libs", here, here);
    return access("check/torture/.libs/libfail.so", R_OK) == 0;
}

const char *call_name(int call)
{
    return names[call];
}

void run_aim(const struct attempt *attempt, char *out, size_t size)
{
    snprintf(out, size, "%s %lu %s %s", names[attempt->call], attempt->number, strerrorname_np(attempt->error),
             attempt->for_good ? "for-good" : "once");
}

bool run_aim_parse(struct attempt *attempt, const char *text)
{
    char copy[96], *rest = copy;

    snprintf(copy, sizeof(copy), "%s", text);
    const char *call = strsep(&rest, " "), *number = strsep(&rest, " "), *error = strsep(&rest, " ");

    attempt->call = attempt->error = 0;
    while (names[attempt->call] != NULL && strcmp(names[attempt->call], call) != 0)
        attempt->call++;
    while (error != NULL && attempt->error < 200 &&
           (strerrorname_np(attempt->error) == NULL || strcmp(strerrorname_np(attempt->error), error) != 0))
        attempt->error++;
    attempt->number = number != NULL ? strtoul(number, NULL, 10) : 0;
    attempt->for_good = rest != NULL && strcmp(rest, "for-good") == 0;
    return names[attempt->call] != NULL && rest != NULL && attempt->error < 200 && attempt->number > 0;
}

static _Noreturn void run_here(const struct attempt *attempt, int output)
{
    const struct scene *scene = attempt->scene;
    char aim[96], seconds[16], threads[16];

    setpgid(0, 0);
    dup2(output, 1);
    dup2(output, 2);
    snprintf(seconds, sizeof(seconds), "%d", SECONDS);
    setenv("EXS_TORTURE_SECONDS", seconds, 1);
    setenv("EXS_SPIN", scene->spins ? "50" : "0", 1);
    if (attempt->call >= 0) {
        snprintf(threads, sizeof(threads), "%d", scene->threads);
        setenv("EXS_TORTURE_THREADS", threads, 1);
        run_aim(attempt, aim, sizeof(aim));
        setenv("EXS_TORTURE", aim, 1);
    }
    setenv("LD_LIBRARY_PATH", folders, 1);
    setenv(scene->script ? "EXS_TORTURE_LIBRARY" : "LD_PRELOAD", library, 1);
    execv(scene->words[0], (char *const *)(uintptr_t)scene->words);
    fprintf(stderr, "torture: BAD %s: %s\n", scene->words[0], strerror(errno));
    _exit(127);
}

void run_start(struct run *run, const struct attempt *attempt)
{
    *run = (struct run){.attempt = *attempt, .deadline = now_ns() + 2 * SECONDS * NS_PER_S};
    run->output = memfd_create("output", MFD_CLOEXEC);
    run->pid = run->output != -1 ? fork() : -1;
    if (run->pid == -1) {
        perror("torture: starting a run");
        exit(2);
    }
    if (run->pid == 0)
        run_here(attempt, run->output);
    setpgid(run->pid, run->pid);
}

void run_kill(struct run *run)
{
    run->overdue = true;
    kill(-run->pid, SIGKILL);
}

void run_keep(const struct run *run, const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    off_t from = 0;

    if (file == -1 || sendfile(file, run->output, &from, 1 << 20) == -1)
        perror(path);
    if (file != -1)
        close(file);
}
