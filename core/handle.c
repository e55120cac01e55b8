/* SPDX-License-Identifier: BSD-2-Clause */
/* Opaque handles: slot and generation, packed into a pointer. See handle.h. */
#include <errno.h>
#include <stdlib.h>
#include "handle.h"

#define SLOT_BITS 20 /* HANDLE_CHUNK * HANDLE_CHUNKS slots */
#define GENERATION_MASK 0xffffffu
#define TAG ((uintptr_t)1 << 62) /* no address of a process looks like this, nor do NULL, -1 and -2 */

static void *encode(uint32_t slot, uint32_t generation)
{
    return (void *)(TAG | (uintptr_t)(generation & GENERATION_MASK) << SLOT_BITS | slot);
}

static struct handle_slot *decode(struct handle_table *table, const void *handle, uint32_t *generation)
{
    uintptr_t value = (uintptr_t)handle;
    uint32_t slot = value & ((1u << SLOT_BITS) - 1);

    if ((value & ~(((uintptr_t)GENERATION_MASK << SLOT_BITS) | ((1u << SLOT_BITS) - 1))) != TAG)
        return NULL;
    *generation = (value >> SLOT_BITS) & GENERATION_MASK;

    struct handle_slot *chunk = atomic_load_explicit(&table->chunk[slot / HANDLE_CHUNK], memory_order_acquire);

    return chunk != NULL ? &chunk[slot % HANDLE_CHUNK] : NULL;
}

static struct handle_slot *slot_at(struct handle_table *table, uint32_t slot)
{
    return &atomic_load_explicit(&table->chunk[slot / HANDLE_CHUNK], memory_order_acquire)[slot % HANDLE_CHUNK];
}

/* A slot nobody uses, or -1. Called with the lock. */
static int64_t take_free(struct handle_table *table)
{
    if (table->free != 0) {
        uint32_t slot = table->free - 1;

        table->free = slot_at(table, slot)->next_free;
        return slot;
    }
    if (table->used == HANDLE_CHUNK * HANDLE_CHUNKS)
        return -1;
    if (table->used % HANDLE_CHUNK == 0) {
        struct handle_slot *chunk = calloc(HANDLE_CHUNK, sizeof(*chunk));

        if (chunk == NULL)
            return -1;
        atomic_store_explicit(&table->chunk[table->used / HANDLE_CHUNK], chunk, memory_order_release);
    }
    return table->used++;
}

void *xs_handle_make(struct handle_table *table, void *object)
{
    void *handle = NULL;

    pthread_mutex_lock(&table->lock);
    int64_t slot = take_free(table);

    if (slot >= 0) {
        struct handle_slot *s = slot_at(table, (uint32_t)slot);

        atomic_store_explicit(&s->object, object, memory_order_release);
        handle = encode((uint32_t)slot, atomic_load_explicit(&s->generation, memory_order_relaxed));
    }
    pthread_mutex_unlock(&table->lock);
    if (handle == NULL)
        errno = ENOMEM;
    return handle;
}

void *xs_handle_find(struct handle_table *table, const void *handle)
{
    uint32_t generation;
    struct handle_slot *slot = decode(table, handle, &generation);

    if (slot == NULL ||
        (atomic_load_explicit(&slot->generation, memory_order_acquire) & GENERATION_MASK) != generation)
        return NULL;
    return atomic_load_explicit(&slot->object, memory_order_acquire);
}

void *xs_handle_take(struct handle_table *table, const void *handle)
{
    void *object = NULL;

    pthread_mutex_lock(&table->lock);
    if (xs_handle_find(table, handle) != NULL) {
        uint32_t generation;
        struct handle_slot *slot = decode(table, handle, &generation);

        object = atomic_exchange(&slot->object, NULL);
        atomic_fetch_add(&slot->generation, 1);
        slot->next_free = table->free;
        table->free = (uint32_t)((uintptr_t)handle & ((1u << SLOT_BITS) - 1)) + 1;
    }
    pthread_mutex_unlock(&table->lock);
    return object;
}

void xs_handle_reset(struct handle_table *table)
{
    pthread_mutex_init(&table->lock, NULL);
    for (uint32_t slot = 0; slot < table->used; slot++) {
        struct handle_slot *s = slot_at(table, slot);

        if (atomic_exchange(&s->object, NULL) != NULL) {
            atomic_fetch_add(&s->generation, 1);
            s->next_free = table->free;
            table->free = slot + 1;
        }
    }
}
