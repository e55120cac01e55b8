/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * area.h - the memory of one connection: a destination or source ("place") for each operation, and space for guard
 * bytes between them, which are written only if the test validates. Memory between the guards is not touched before it
 * is used.
 *
 * The end that starts an operation has its segments apart from each other; the other end has them contiguously, as one
 * message or one exported range.
 */
#ifndef EXSTEST_AREA_H
#define EXSTEST_AREA_H

#include <exs.h>
#include "ops.h"

struct place {
    char *base;
    size_t stride; /* bytes from one segment to the next */
};

struct area {             /* owned by its connection */
    char *base;           /* private pages, from mmap(2) */
    size_t length;        /* bytes */
    exs_mhandle_t region; /* the registration of all of it */
    struct place *place;  /* of each operation */
    struct ops ops;
    bool server; /* which end this is */
};

/* Bytes that one end needs for these operations, `copies` times each; 0: more than MEMORY_MAX. */
size_t area_bytes(const struct ops *ops, int copies, bool server);
/* Allocates and registers it. -1 and errno. */
int area_make(struct area *area, const struct ops *ops, int copies, bool server);
/* Frees it. -1 and errno: an operation still uses it or a part is exported, and it stays allocated. */
int area_free(struct area *area);
/* The place of a copy of an operation. */
struct place *area_place(const struct area *area, int op, int copy);
/* Writes the guards around the first copy of each operation. */
void area_put_guards(struct area *area);
/* The first guard byte around an operation's first copy that was overwritten, or NULL. */
const char *area_broken_guard(const struct area *area, int op);

#endif
