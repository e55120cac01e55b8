/* SPDX-License-Identifier: BSD-2-Clause */
/* source.h - a local file that exs-put sends. It is opened without following a link that another user may have put in
 * its place. */
#ifndef FILES_SOURCE_H
#define FILES_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "client.h"

#define SOURCE_SHORTER "the file became shorter while it was sent"

/* A local variable of the function that sends it. */
struct source {
    int fd;             /* -1: none */
    bool is_copy;       /* `fd` is a copy of a file whose size the kernel does not report */
    uint64_t size;      /* bytes */
    struct stat status; /* when it was opened */
};

/* path: "-" is standard input. named: see struct pick. Returns 0, or -1 and sets the client's error; the caller must
 * call source_close() in both cases. */
int source_open(struct source *source, const char *path, size_t named, struct client *client);
void source_close(struct source *source);
bool source_is_shorter(const struct source *source);
/* Whether the file was changed since source_open(). may_grow: bytes added at its end do not count as a change. */
bool source_has_changed(const struct source *source, bool may_grow);
/* Reads the target of a symbolic link, without a terminating 0. Returns its length in bytes, or -1 and errno. */
ssize_t source_target(const char *path, size_t named, char target[TRANSFER_PATH_MAX + 1], struct stat *status);

#endif
