/* SPDX-License-Identifier: BSD-2-Clause */
/* recent.c - keeps a descriptor of the folder that was opened last. See recent.h. */
#include "recent.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folders.h"
#include "permits.h"

void recent_init(struct recent *recent)
{
    recent->fd = -1;
    recent->mask = umask(0);
    umask(recent->mask);
}

void recent_forget(struct recent *recent)
{
    if (recent->fd != -1)
        close(recent->fd);
    recent->fd = -1;
}

static size_t folder_length(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash == NULL ? 0 : (size_t)(slash - name);
}

static bool is_recent(const struct recent *recent, const char *name)
{
    size_t length = folder_length(name);

    return recent->fd != -1 && length == recent->length && memcmp(name, recent->path, length) == 0;
}

static void keep_folder(struct recent *recent, int folder, const char *name)
{
    recent->fd = folder;
    recent->length = folder_length(name);
    recent->has_permits = false;
    memcpy(recent->path, name, recent->length);
}

static const char *find_last(const struct recent *recent, const char *name)
{
    return recent->length == 0 ? name : name + recent->length + 1;
}

int recent_open(struct recent *recent, int directory, const char *name, const char **last, uint64_t *may_make)
{
    if (is_recent(recent, name)) {
        *last = find_last(recent, name);
        return recent->fd;
    }
    recent_forget(recent);
    int folder = folders_open(directory, name, last, may_make);

    if (folder != -1)
        keep_folder(recent, folder, name);
    return folder;
}

int recent_reach(struct recent *recent, int directory, const char *name, const char **rest)
{
    if (!is_recent(recent, name)) {
        recent_forget(recent);
        int folder = folders_reach(directory, name, rest);

        if (folder == -1 || strchr(*rest, '/') != NULL)
            return folder;
        keep_folder(recent, folder, name);
    }
    *rest = find_last(recent, name);
    return fcntl(recent->fd, F_DUPFD_CLOEXEC, 0);
}

mode_t recent_permits(struct recent *recent)
{
    if (!recent->has_permits)
        recent->permitted = permits_in(recent->fd, recent->mask);
    recent->has_permits = true;
    return recent->permitted;
}
