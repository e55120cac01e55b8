/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c - runs each case in a separate process, and prints "name: words" for each. table.md has the correct words.
 * usage: verbs-cases [-d DEVICE] [NAME...] */
#include "cases.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT 60 /* seconds for one case */

static const struct verbs_case *groups[] = {
    ordinary_cases, local_cases,  remote_cases,    receive_cases,  datagram_cases, post_cases,
    state_cases,    flush_cases,  cq_cases,        srq_cases,      memory_cases,   create_cases,
    destroy_cases,  handle_cases, window_cases,    rereg_cases,    cm_cases,       sidr_cases,
    xrc_cases,      mcast_cases,  on_demand_cases, endpoint_cases, ending_cases,
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

/* Runs in the child, which opens the device itself; its resources are freed with the process. */
static _Noreturn void run_alone(const struct verbs_case *c, const char *device)
{
    struct rig rig;

    alarm(LIMIT);
    rig_open(&rig, device);
    c->run(&rig);
    fflush(stdout);
    _exit(0);
}

/* Runs a case. Returns false if it has crashed or exceeded its time. */
static bool run(const struct verbs_case *c, const char *device)
{
    int status;

    printf("%s:", c->name);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        run_alone(c, device);
    if (child == -1 || waitpid(child, &status, 0) == -1) {
        fprintf(stderr, "verbs-cases: %s\n", strerror(errno));
        return false;
    }
    if (WIFSIGNALED(status))
        printf(" %s", WTERMSIG(status) == SIGALRM ? "took too long" : strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        printf(" ended with %d", WEXITSTATUS(status));
    printf("\n");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool wanted(const char *name, char **names)
{
    if (!*names)
        return true;
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    const char *device = NULL;
    int option, bad = 0, count = 0;

    while ((option = getopt(argc, argv, "d:")) != -1) {
        if (option != 'd') {
            fprintf(stderr, "usage: verbs-cases [-d DEVICE] [NAME...]\n");
            return 2;
        }
        device = optarg;
    }
    for (size_t i = 0; i < GROUPS; i++)
        for (const struct verbs_case *c = groups[i]; c->name; c++)
            if (wanted(c->name, argv + optind)) {
                bad += !run(c, device);
                count++;
            }
    if (count == 0)
        fprintf(stderr, "verbs-cases: no such case\n");
    return bad > 0 || count == 0;
}
