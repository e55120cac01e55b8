/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * area.h - the memory of one connection: a place for each operation, and room for guard bytes between all of
 * them. Who validates puts them there. Nothing else of it is touched before it is used.
 *
 * Who begins an operation has its segments apart; the other end has them one behind the other, as one message
 * or one exported range.
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
    char *base;           /* pages of its own */
    size_t length;        /* bytes */
    exs_mhandle_t region; /* all of it */
    struct place *place;  /* of each operation */
    struct ops ops;
    bool server; /* which end this is */
};

/* Bytes of one end's part of these operations, each of them `copies` times; 0: more than MEMORY_MAX. */
size_t area_bytes(const struct ops *ops, int copies, bool server);
/* Memory for that. -1 and errno. */
int area_make(struct area *area, const struct ops *ops, int copies, bool server);
/* No operation is under way and nothing of it is exported. -1 and errno: it is, and the memory stays. */
int area_free(struct area *area);
/* The place of a copy of an operation. */
struct place *area_place(const struct area *area, int op, int copy);
/* Around the first copy of each operation. */
void area_put_guards(struct area *area);
/* Has somebody written between the places of an operation and the next? Such a byte, or NULL. */
const char *area_broken_guard(const struct area *area, int op);

#endif
