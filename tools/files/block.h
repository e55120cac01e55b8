/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * block.h - receive buffers of exs-serve's connections, registered once and reused by later connections.
 *
 * Up to BLOCKS_KEPT unused buffers are cached. Connections that are refused share one buffer, the sink, which is never
 * read.
 */
#ifndef FILES_BLOCK_H
#define FILES_BLOCK_H

#include <exs.h>
#include <sys/queue.h>

enum {
    BLOCK_SLOTS = 4,      /* posted receives: the others are filled while one is processed */
    BLOCK_SLOT = 1 << 20, /* bytes; also the maximum that the loop processes in one event */
    BLOCKS_KEPT = 16,     /* maximum unused buffers */
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
    int count;          /* buffers in `kept` */
    struct block *sink; /* NULL: not allocated yet */
};

/* Returns a buffer for one connection, or NULL and errno. */
struct block *block_take(struct blocks *blocks);
/* Returns the sink, for any number of connections, or NULL and errno. */
struct block *block_sink(struct blocks *blocks);
/* Takes a buffer or the sink back; NULL is ignored. No receive may be posted on a buffer, except on the sink. */
void block_return(struct blocks *blocks, struct block *block);
/* Frees all buffers. To be called after all have been returned. */
void blocks_free(struct blocks *blocks);

#endif
