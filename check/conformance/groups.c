/* SPDX-License-Identifier: BSD-2-Clause */
/* groups.c - the table of groups, from the list in bodies.h, and functions that tests of several groups use. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bodies.h"

const struct group *const groups[] = {
#define POINTER(name) &group_##name,
    FOR_EACH_GROUP(POINTER)
#undef POINTER
        NULL,
};

const struct group *group_find(const char *function)
{
    for (int i = 0; groups[i] != NULL; i++)
        if (strcmp(groups[i]->function, function) == 0)
            return groups[i];
    return NULL;
}

void in_child(struct trial *trial)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        return;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        broken(trial, "fork");
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void use_up_descriptors(struct trial *trial)
{
    struct rlimit few = {.rlim_cur = 3, .rlim_max = 3};

    if (setrlimit(RLIMIT_NOFILE, &few) < 0)
        broken(trial, "setrlimit");
}

static void handle(int signal)
{
    (void)signal;
}

void signals_come(struct trial *trial)
{
    const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    const struct itimerval often = {.it_interval.tv_usec = 20000, .it_value.tv_usec = 20000};

    require(trial, sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0,
            "there are no signals");
}

void signals_end(void)
{
    const struct itimerval none = {0};
    int error = errno;

    setitimer(ITIMER_REAL, &none, NULL);
    errno = error;
}

int foreign_fd(struct trial *trial)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        broken(trial, "open of /dev/null");
    return fd;
}
