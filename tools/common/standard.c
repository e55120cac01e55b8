/* SPDX-License-Identifier: BSD-2-Clause */
/* standard.c - standard descriptors and limits; see standard.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "standard.h"

void standard_open(void)
{
    /* open() returns the lowest free number. The mode makes input and output fail, as on a closed descriptor. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) == -1)
            exit(1); /* no descriptor for an error message */
}

void standard_outlive_limit(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGXFSZ, &ignore, NULL);
}

unsigned long standard_raise_files(unsigned long wanted)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
        return wanted;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur < wanted ? limit.rlim_cur : wanted;
}

int standard_flush(const char *program, const char *what)
{
    bool lost = ferror(stdout) != 0;

    if (fflush(stdout) == 0 && !lost)
        return 0;
    /* The errno of an earlier failed write is unknown. */
    fprintf(stderr, "%s: %s: %s\n", program, what, lost ? "some of it is lost" : strerror(errno));
    return 1;
}
