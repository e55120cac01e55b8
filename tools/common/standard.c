/* SPDX-License-Identifier: BSD-2-Clause */
/* Standard descriptors. See standard.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "standard.h"

void standard_open(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR); /* the lowest number that is free */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        exit(1); /* and nowhere to say why */
    close(fd);
}

int standard_flush(const char *program, const char *what)
{
    bool lost = ferror(stdout) != 0;

    if (fflush(stdout) == 0 && !lost)
        return 0;
    /* Of what was lost before, nobody kept why. */
    fprintf(stderr, "%s: %s: %s\n", program, what, lost ? "some of it is lost" : strerror(errno));
    return 1;
}
