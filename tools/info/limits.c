/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.c - reads the limits of this process and the kernel's range of ports. See limits.h. */
#include "limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static uint64_t limit_of(__rlimit_resource_t resource)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) == -1 || limit.rlim_cur == RLIM_INFINITY)
        return LIMITS_NONE;
    return limit.rlim_cur;
}

/* Reads the range of ephemeral ports: two numbers in a line. */
static void read_ports(struct limits *limits)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    char line[64], *end;

    if (file == NULL)
        return;
    if (fgets(line, sizeof(line), file) != NULL) {
        limits->first_port = (int)strtol(line, &end, 10);
        limits->last_port = (int)strtol(end, NULL, 10);
    }
    fclose(file);
}

struct limits limits_read(void)
{
    struct limits limits = {.memlock = limit_of(RLIMIT_MEMLOCK), .descriptors = limit_of(RLIMIT_NOFILE)};

    read_ports(&limits);
    return limits;
}
