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
    int fd;                /* owned by the element; -1: memory */
    uint64_t offset;       /* bytes, in the file */
    uint64_t length;       /* bytes */
    uint8_t *base;         /* memory */
    struct memory *memory; /* the user's region, a reference; or NULL */
    int flags;             /* EXS_SHUT_WR */
    bool is_open_ended;    /* to fill: until the end of the stream, but no more than `length` */
    bool is_mappable;      /* to fill: the descriptor is also open for reading */
    struct grown *grown;   /* to fill: tracks the file's length */
    bool is_readable;      /* to send: a call can read any byte, not only whole blocks */
};

/* Checks an element, and duplicates its descriptor or opens its path. `flags` are the call's. Returns 0, or -1 and
 * one of exs_sendfile's or exs_recvfile's errno. The caller must call xs_element_close() in either case. */
int xs_element_open(struct element *element, const exs_xferfile_t *from, enum purpose purpose, int flags);
/* The element may also be one that was never opened: all zero, with an fd of -1. */
void xs_element_close(struct element *element);

#endif
