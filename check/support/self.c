/* SPDX-License-Identifier: BSD-2-Clause */
/* self.c - see self.h. */
#include "self.h"

#include <dirent.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double seconds_of_cpu(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

long resident_kib(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    long kib = 0;

    while (fgets(line, sizeof(line), status) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    fclose(status);
    return kib;
}

/* Aborts instead of failing an assertion, because the caller may be a program without Check. */
static void have(bool condition, const char *what)
{
    if (condition)
        return;
    perror(what);
    abort();
}

static int entries_of(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;

    have(folder != NULL, path);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

int count_threads(void)
{
    return entries_of("/proc/self/task");
}

int count_fds(void)
{
    return entries_of("/proc/self/fd") - 1; /* without the descriptor of the directory itself */
}

void memlock_count(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    have(syscall(SYS_capget, &header, data) == 0, "capget");
    data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    have(syscall(SYS_capset, &header, data) == 0, "capset");
}
