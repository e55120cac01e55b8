/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * landing.h - where a file that exs-get gets arrives: under a temporary name, .NAME.exs-part, beside its own,
 * which it gets when it is whole; whatever had that is replaced in one step.
 *
 * What is broken off stays, so that the next exs-get goes on from there. No symbolic link below the folder is
 * followed, and nothing replaced that is no file. Or standard output, a device or a pipe, which keeps nothing.
 */
#ifndef FILES_LANDING_H
#define FILES_LANDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "transfer.h"

enum { LANDING_KEEP = 1 << 20 }; /* bytes that are worth to be gone on from */

/* Lives in the function that gets a file. */
struct landing {
    int folder, fd;   /* -1: none */
    const char *last; /* of the name: without its folders */
    char part[TRANSFER_NAME_MAX + 1];
    uint64_t there; /* bytes that it has from an earlier attempt; 0 below LANDING_KEEP */
    bool is_output; /* what is written to as it comes */
};

/* These return 0, or -1 and errno; landing_open EBUSY where another exs-get gets this file, EEXIST where
 * its temporary name is somebody else's, and EISDIR or ENODEV where its own is a folder's or some such thing's.
 * name: below that folder, each component as transfer_bad_name has it; used until landing_end. */
int landing_open(struct landing *landing, int directory, const char *name);
/* output: a descriptor of the caller's, which is written to in order. */
void landing_open_output(struct landing *landing, int output);
/* The file comes, and begins at `from`, 0 or what is there. */
int landing_begin(struct landing *landing, uint64_t from);
/* offset: behind what was written so far. */
int landing_write(struct landing *landing, const void *data, size_t length, uint64_t offset);
/* It is whole, and gets its name, permissions but for what umask takes, and time. */
int landing_commit(struct landing *landing, const struct transfer_header *header);
/* What has arrived is wrong. */
void landing_discard(struct landing *landing);
/* Always the last. What is not whole stays if it is worth that: so many bytes do. */
uint64_t landing_end(struct landing *landing);

#endif
