/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * landing.h - the local file that exs-get writes: under the temporary name .NAME.exs-part in the target folder. A
 * complete file is renamed to NAME, and atomically replaces a file that had this name.
 *
 * An unfinished file ("part") stays, so that the next exs-get resumes it. Symbolic links below the directory are not
 * followed, and only a file or a link is replaced. A landing may also be standard output, which cannot be resumed.
 */
#ifndef FILES_LANDING_H
#define FILES_LANDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "recent.h"
#include "transfer.h"

enum { LANDING_KEEP = 64 << 10 }; /* bytes: shorter unfinished files are removed */

/* A local variable of the function that gets a file. */
struct landing {
    int folder, fd;   /* -1: none */
    const char *last; /* the last component of the name */
    char part[TRANSFER_NAME_MAX + 1];
    uint64_t there; /* bytes from an earlier attempt, at least LANDING_KEEP or 0 */
    mode_t permitted; /* permissions that the file may have in the folder */
    bool is_output; /* `fd` is standard output, written in order */
};

/* These functions return 0, or -1 and errno. landing_open(): EBUSY if another exs-get writes this file; EEXIST if the
 * temporary name is a link or belongs to another user; EISDIR if the name is that of a folder, ENODEV if it is that of
 * a device or a pipe. name: relative to the directory, with components that transfer_bad_name() accepts; it must stay
 * valid until landing_end(). recent: of the directory. */
int landing_open(struct landing *landing, struct recent *recent, int directory, const char *name);
/* output: a descriptor, owned by the caller, that is written in order. */
void landing_open_output(struct landing *landing, int output);
/* Prepares for data that begin at offset `from`, which is 0 or `there`. */
int landing_begin(struct landing *landing, uint64_t from);
/* offset: the end of the data written so far. */
int landing_write(struct landing *landing, const void *data, size_t length, uint64_t offset);
/* Gives the complete file its name, permissions (masked by umask) and modification time. */
int landing_commit(struct landing *landing, const struct transfer_header *header);
/* Creates a symbolic link instead of a file; called in place of landing_begin(). */
int landing_link(struct landing *landing, const struct transfer_header *header, const char *target);
/* Whether a file with this name, size and modification time exists. */
bool landing_is_done(const struct landing *landing, uint64_t size, int64_t seconds, uint32_t nanoseconds);
/* Removes the temporary file, because its data are wrong. */
void landing_discard(struct landing *landing);
/* Must be called last. Keeps an unfinished file of at least LANDING_KEEP bytes and returns its length, else 0. */
uint64_t landing_end(struct landing *landing);

#endif
