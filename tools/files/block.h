/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * block.h - receive buffers of exs-serve's connections: registered once, and used again by the next connection.
 *
 * Few are kept for that. Connections that are only to be told that they are refused share one, the sink.
 */
#ifndef FILES_BLOCK_H
#define FILES_BLOCK_H

#include <exs.h>
#include <sys/queue.h>

enum {
    BLOCK_SLOTS = 4,      /* receives posted at once: while one is consumed the others fill */
    BLOCK_SLOT = 1 << 20, /* bytes; also the longest that one event keeps the loop from others */
    BLOCKS_KEPT = 16,     /* that nobody uses */
};

/* Owned by its connection, then by struct blocks. */
struct block {
    SLIST_ENTRY(block) link;
    unsigned char *memory; /* BLOCK_SLOTS times BLOCK_SLOT bytes */
    exs_mhandle_t region;
};

/* Begins as zeros; used by the loop's thread only. */
struct blocks {
    SLIST_HEAD(, block) kept;
    int count;          /* of those */
    struct block *sink; /* NULL: was not needed yet */
};

/* NULL and errno. */
struct block *block_take(struct blocks *blocks);
/* For what nobody reads; many may have it at once. NULL and errno. */
struct block *block_sink(struct blocks *blocks);
/* Either kind, or NULL. Nothing is received into it any more, but for the sink. */
void block_return(struct blocks *blocks, struct block *block);
/* When all are back. */
void blocks_free(struct blocks *blocks);

#endif
