/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * landing.h - where exs-get writes a file: under a temporary name, .NAME.exs-part, in the same folder. A complete file
 * gets its own name, and atomically replaces a file that had it.
 *
 * An unfinished file stays, so that the next exs-get resumes it. No symbolic link below the folder is followed, and
 * nothing but a file or a link is replaced. Or standard output, where nothing is kept.
 */
#ifndef FILES_LANDING_H
#define FILES_LANDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "transfer.h"

enum { LANDING_KEEP = 64 << 10 }; /* minimum bytes of an unfinished file that is kept */

/* A local variable of the function that gets a file. */
struct landing {
    int folder, fd;   /* -1: none */
    const char *last; /* the name without its folders */
    char part[TRANSFER_NAME_MAX + 1];
    uint64_t there; /* bytes from an earlier attempt; 0 if fewer than LANDING_KEEP */
    bool is_output; /* `fd` is standard output, written in order */
};

/* These return 0, or -1 and errno. landing_open(): EBUSY, another exs-get gets this file; EEXIST, another user or a
 * link has its temporary name; EISDIR or ENODEV, its own name is a folder, or another file that is not regular. name:
 * below the directory, with components that transfer_bad_name() accepts; it is used until landing_end(). */
int landing_open(struct landing *landing, int directory, const char *name);
/* output: a descriptor, owned by the caller, that is written in order. */
void landing_open_output(struct landing *landing, int output);
/* The data arrive from offset `from`, which is 0 or `there`. */
int landing_begin(struct landing *landing, uint64_t from);
/* offset: the end of the data written so far. */
int landing_write(struct landing *landing, const void *data, size_t length, uint64_t offset);
/* The file is complete: gives it its name, permissions (masked by umask) and time. */
int landing_commit(struct landing *landing, const struct transfer_header *header);
/* It is a symbolic link, in place of a file that begins. */
int landing_link(struct landing *landing, const struct transfer_header *header, const char *target);
/* Whether the file is there already, with this size and time of its last change. */
bool landing_is_done(const struct landing *landing, uint64_t size, int64_t seconds, uint32_t nanoseconds);
/* The data are wrong: removes the file. */
void landing_discard(struct landing *landing);
/* Always called last. Keeps an unfinished file of at least LANDING_KEEP bytes, and returns its bytes; else 0. */
uint64_t landing_end(struct landing *landing);

#endif
