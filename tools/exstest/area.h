/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * area.h - the memory of one endpoint of a connection: a source or destination buffer ("place") for each operation,
 * with space for guard bytes between them, which are written only if the test validates. Memory between the guards is
 * not accessed before an operation uses it.
 *
 * The endpoint that starts an operation has its segments apart from each other. The other endpoint has them
 * contiguously, as one message or one exported range.
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
    exs_mhandle_t region; /* registration of the whole area */
    struct place *place;  /* array, see area_place() */
    struct ops ops;
    bool server; /* this endpoint is the server's */
};

/* Returns the bytes that one endpoint needs for these operations, `copies` times each; 0 if more than MEMORY_MAX. */
size_t area_bytes(const struct ops *ops, int copies, bool server);
/* Allocates and registers the area. Returns 0, or -1 and errno. */
int area_make(struct area *area, const struct ops *ops, int copies, bool server);
/* Frees the area. Returns 0, or -1 and errno if an operation still uses it or a part is exported; it then stays
 * allocated. */
int area_free(struct area *area);
/* Returns the place of a copy of an operation. */
struct place *area_place(const struct area *area, int op, int copy);
/* Writes the guards around the first copy of each operation. */
void area_put_guards(struct area *area);
/* Returns the first guard byte around an operation's first copy that was overwritten, or NULL. */
const char *area_broken_guard(const struct area *area, int op);

#endif
