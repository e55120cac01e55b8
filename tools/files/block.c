/* SPDX-License-Identifier: BSD-2-Clause */
/* block.c - registered receive buffers; see block.h. */
#include "block.h"

#include <stdlib.h>

static struct block *new_block(void)
{
    struct block *block = malloc(sizeof(*block));

    if (block == NULL)
        return NULL;
    block->memory = aligned_alloc(4096, (size_t)BLOCK_SLOTS * BLOCK_SLOT);
    block->region = EXS_MHANDLE_INVALID;
    if (block->memory != NULL)
        block->region = exs_mregister(block->memory, (size_t)BLOCK_SLOTS * BLOCK_SLOT, EXS_MRF_SEND_DISABLE);
    if (block->region != EXS_MHANDLE_INVALID)
        return block;
    free(block->memory);
    free(block);
    return NULL;
}

static void free_block(struct block *block)
{
    exs_mderegister(block->region, 0);
    free(block->memory);
    free(block);
}

struct block *block_take(struct blocks *blocks)
{
    struct block *block = SLIST_FIRST(&blocks->kept);

    if (block == NULL)
        return new_block();
    SLIST_REMOVE_HEAD(&blocks->kept, link);
    blocks->count--;
    return block;
}

struct block *block_sink(struct blocks *blocks)
{
    if (blocks->sink == NULL)
        blocks->sink = new_block();
    return blocks->sink;
}

void block_return(struct blocks *blocks, struct block *block)
{
    if (block == NULL || block == blocks->sink)
        return;
    if (blocks->count == BLOCKS_KEPT) {
        free_block(block);
        return;
    }
    SLIST_INSERT_HEAD(&blocks->kept, block, link);
    blocks->count++;
}

void blocks_free(struct blocks *blocks)
{
    while (!SLIST_EMPTY(&blocks->kept))
        free_block(block_take(blocks));
    if (blocks->sink != NULL)
        free_block(blocks->sink);
    blocks->sink = NULL;
}
