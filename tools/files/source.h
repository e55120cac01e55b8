/* SPDX-License-Identifier: BSD-2-Clause */
/* source.h - a file that exs-put sends: opened without following a link that another user may have put in its place. */
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
    bool is_copy;       /* of a file whose size the kernel does not say */
    uint64_t size;      /* bytes */
    struct stat status; /* when it was opened */
};

/* path: "-" is standard input. named: see struct pick. 0, or -1 and sets the client's error; source_close() follows in
 * both cases. */
int source_open(struct source *source, const char *path, size_t named, struct client *client);
void source_close(struct source *source);
bool source_is_shorter(const struct source *source);
/* Whether it is another one now. may_grow: bytes that were added at its end are no change. */
bool source_has_changed(const struct source *source, bool may_grow);
/* Reads the target of a symbolic link, without an end; returns its bytes, or -1 and errno. */
ssize_t source_target(const char *path, size_t named, char target[TRANSFER_PATH_MAX + 1], struct stat *status);

#endif
