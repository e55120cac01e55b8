/* SPDX-License-Identifier: BSD-2-Clause */
/* resources.c - counts resources by /proc; see resources.h. A number that /proc does not provide is 0. */
#include "resources.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long count_entries(const char *path)
{
    DIR *folder = opendir(path);
    long count = 0;

    if (folder == NULL)
        return 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* Returns the number after "NAME:" in a file in /proc. */
static long read_field(const char *path, const char *name)
{
    FILE *file = fopen(path, "re");
    size_t length = strlen(name);
    char line[256];
    long value = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            value = strtol(line + length + 1, NULL, 10);
    fclose(file);
    return value;
}

struct resources resources_now(void)
{
    return (struct resources){
        .descriptors = count_entries("/proc/self/fd") - 1, /* without the descriptor of the count itself */
        .threads = count_entries("/proc/self/task"),
        .pinned = read_field("/proc/self/status", "VmPin"),
    };
}

long resources_resident(void)
{
    return read_field("/proc/self/status", "VmRSS");
}

long resources_available(void)
{
    return read_field("/proc/meminfo", "MemAvailable");
}
