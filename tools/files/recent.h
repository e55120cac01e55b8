/* SPDX-License-Identifier: BSD-2-Clause */
/* recent.h - the folder below a directory that was opened last. Files of one folder usually follow each other, and a copy
 * of its descriptor costs less than opening each component of the path, and reading the folder's ACL, for each file.
 * Another process may rename or replace the folder, so its owner forgets it regularly. */
#ifndef FILES_RECENT_H
#define FILES_RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "transfer.h"

/* Belongs to one directory and one thread. */
struct recent {
    int fd;           /* -1: none */
    size_t length;    /* bytes of `path` */
    bool has_permits; /* `permitted` was read */
    mode_t permitted; /* permissions that files may have in the folder */
    mode_t mask;      /* permissions that files do not get in a folder without a default ACL */
    char path[TRANSFER_PATH_MAX + 1];
};

/* Sets `mask` from umask(2). */
void recent_init(struct recent *recent);
/* Like folders_open(), but the descriptor belongs to `recent`, and is valid until the next call. */
int recent_open(struct recent *recent, int directory, const char *name, const char **last, uint64_t *may_make);
/* Like folders_reach(); the caller closes the descriptor. */
int recent_reach(struct recent *recent, int directory, const char *name, const char **rest);
/* Returns the permissions that a file may have in the recent folder, which the last call has returned: see permits.h. */
mode_t recent_permits(struct recent *recent);
/* Closes the descriptor. */
void recent_forget(struct recent *recent);

#endif
