/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * block.h - receive buffers of exs-serve's connections, registered once and reused by later connections.
 *
 * Up to BLOCKS_KEPT unused ones are kept. Connections that are refused share one buffer, the sink, which is never read.
 */
#ifndef FILES_BLOCK_H
#define FILES_BLOCK_H

#include <exs.h>
#include <sys/queue.h>

enum {
    BLOCK_SLOTS = 4,      /* receives posted at once: others fill while one is processed */
    BLOCK_SLOT = 1 << 20, /* bytes; also the most that the loop processes in one event */
    BLOCKS_KEPT = 16,     /* unused buffers */
};

/* Owned by its connection, or, while unused, by struct blocks. */
struct block {
    SLIST_ENTRY(block) link;
    unsigned char *memory; /* BLOCK_SLOTS times BLOCK_SLOT bytes */
    exs_mhandle_t region;
};

/* Initially zero; used only by the loop's thread. */
struct blocks {
    SLIST_HEAD(, block) kept;
    int count;          /* of `kept` */
    struct block *sink; /* NULL: not allocated yet */
};

/* A buffer for one connection. NULL and errno. */
struct block *block_take(struct blocks *blocks);
/* The sink, for any number of connections. NULL and errno. */
struct block *block_sink(struct blocks *blocks);
/* Returns either kind, or NULL. No receive may be posted on it, except on the sink. */
void block_return(struct blocks *blocks, struct block *block);
/* To be called when all have been returned. */
void blocks_free(struct blocks *blocks);

#endif
