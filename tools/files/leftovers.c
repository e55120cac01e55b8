/* SPDX-License-Identifier: BSD-2-Clause */
/* leftovers.c - searches the directory; folders below it only if it is marked. See leftovers.h. */
#include "leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define PREFIX ".exs-"
#define SUFFIX ".part"
#define MARK PREFIX "below" SUFFIX

enum { DEPTH_MAX = 100 }; /* maximum folders that are open at once */

void leftovers_name(char out[LEFTOVERS_NAME], unsigned number)
{
    snprintf(out, LEFTOVERS_NAME, PREFIX "%u" SUFFIX, number);
}

static bool is_temporary(const char *name)
{
    size_t length = strlen(name);

    return length > strlen(PREFIX SUFFIX) && strncmp(name, PREFIX, strlen(PREFIX)) == 0 &&
           strcmp(name + length - strlen(SUFFIX), SUFFIX) == 0;
}

static DIR *open_stream(int in, const char *name)
{
    int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream = fd == -1 ? NULL : fdopendir(fd);

    if (stream == NULL && fd != -1)
        close(fd);
    return stream;
}

static void remove_in(DIR *stream, int depth);

static void remove_below(int in, const char *name, int depth)
{
    DIR *stream = depth == 0 ? NULL : open_stream(in, name);

    if (stream == NULL)
        return;
    if (flock(dirfd(stream), LOCK_EX | LOCK_NB) == 0)
        remove_in(stream, depth - 1);
    closedir(stream);
}

/* depth: the number of levels of folders below this one that are searched. */
static void remove_in(DIR *stream, int depth)
{
    struct dirent *entry;

    while ((entry = readdir(stream)) != NULL) {
        const char *name = entry->d_name;

        if (is_temporary(name))
            unlinkat(dirfd(stream), name, 0);
        else if ((entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) && strcmp(name, ".") != 0 &&
                 strcmp(name, "..") != 0)
            remove_below(dirfd(stream), name, depth);
    }
}

int leftovers_remove(int directory)
{
    DIR *stream = open_stream(directory, ".");
    bool is_marked = faccessat(directory, MARK, F_OK, AT_SYMLINK_NOFOLLOW) == 0;

    if (stream == NULL)
        return -1;
    remove_in(stream, is_marked ? DEPTH_MAX : 0);
    closedir(stream);
    return 0;
}

void leftovers_mark(int directory)
{
    int fd = openat(directory, MARK, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd != -1)
        close(fd);
}

void leftovers_unmark(int directory)
{
    unlinkat(directory, MARK, 0);
}
