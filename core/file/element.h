/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * element.h - an element of a file vector: a range of a file, or memory, that exs_sendfile sends or exs_recvfile
 * fills.
 */
#ifndef XS_ELEMENT_H
#define XS_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <exs.h>

struct grown;
struct memory;

enum purpose { TO_SEND, TO_FILL };

struct element {
    int fd;                /* the file's descriptor, owned by the element; -1: the element is memory */
    uint64_t offset;       /* where the range begins in the file, bytes */
    uint64_t length;       /* bytes of the range or of the memory */
    uint8_t *base;         /* the memory; NULL for a file */
    struct memory *memory; /* the user's region that contains the memory, a reference; or NULL */
    int flags;             /* EXS_SHUT_WR */
    /* For exs_recvfile: the file is filled until the end of the stream, but with `length` bytes at most. */
    bool is_open_ended;
    bool is_mappable; /* for exs_recvfile: the descriptor is also open for reading, which a mapping requires */
    struct grown *grown; /* for exs_recvfile: tracks the length of the file (grown.h) */
    bool is_readable;    /* for exs_sendfile: read(2) works at any offset (no O_DIRECT) */
};

/* Checks the application's element `from`, and duplicates its descriptor or opens its path. `flags` are those of the
 * call. Returns 0, or -1 and an errno of exs_sendfile or exs_recvfile. The caller must call xs_element_close() in
 * either case. */
int xs_element_open(struct element *element, const exs_xferfile_t *from, enum purpose purpose, int flags);
/* Closes the descriptor and drops the reference to the region. Does nothing to an element that was never opened, if it
 * is all zero with an fd of -1. */
void xs_element_close(struct element *element);

#endif
