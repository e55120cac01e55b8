/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * element.h - an element of a file vector: a range of a file, or memory, that exs_sendfile sends or
 * exs_recvfile fills.
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
    int fd;                /* a descriptor of our own; -1: memory */
    uint64_t offset;       /* bytes, in the file */
    uint64_t length;       /* bytes */
    uint8_t *base;         /* memory */
    struct memory *memory; /* the user's region, counted as used */
    int flags;             /* EXS_SHUT_WR */
    bool is_open_ended;    /* to fill: as long as there is something, and no longer than `length` */
    bool is_mappable;      /* to fill: open for reading, too */
    struct grown *grown;   /* to fill: the file's */
    bool is_readable;      /* to send: any byte of it by a call, not only whole blocks */
};

/* Everything checked, the descriptor duplicated or the path opened. `flags` are those of the call. 0, or -1 and
 * errno as exs_sendfile and exs_recvfile have them; either way it is to be closed. */
int xs_element_open(struct element *element, const exs_xferfile_t *from, enum purpose purpose, int flags);
/* It may never have been opened, if it was all zero, but for its fd of -1. */
void xs_element_close(struct element *element);

#endif
