/* SPDX-License-Identifier: BSD-2-Clause */
/* handle.c - opaque handles: slot and generation, packed into a pointer. See handle.h. */
#include <errno.h>
#include <stdlib.h>
#include "handle.h"

#define SLOT_BITS 20 /* for HANDLE_CHUNK * HANDLE_CHUNKS slots */
#define GENERATION_BITS 24
#define GENERATION_MASK ((1u << GENERATION_BITS) - 1)
#define SLOT_MASK ((1u << SLOT_BITS) - 1)
_Static_assert(SLOT_BITS + GENERATION_BITS == HANDLE_BITS, "what follows is the tag");
#define TAG                                                                                                    \
    ((uintptr_t)1                                                                                              \
     << 62) /* above HANDLE_BITS: a handle differs from every user-space address, and from NULL, -1 and -2 */

/* A slot's state: its generation, this bit, and below it the number of users. */
#define IN_USE_BIT 31
#define IN_USE (UINT64_C(1) << IN_USE_BIT)

static uint32_t generation_of(uint64_t state)
{
    return (uint32_t)(state >> 32) & GENERATION_MASK;
}

/* The state of a slot without users. */
static uint64_t state_of(uint32_t generation)
{
    return (uint64_t)(generation & GENERATION_MASK) << 32;
}

static void *encode_handle(uint32_t slot, uint32_t generation)
{
    return (void *)(TAG | (uintptr_t)(generation & GENERATION_MASK) << SLOT_BITS | slot);
}

/* The generation in a handle. Greater than GENERATION_MASK if the pointer is not a handle. */
static uint64_t generation_in(const void *handle)
{
    return ((uintptr_t)handle ^ TAG) >> SLOT_BITS;
}

/* NULL: this slot was never used. */
static inline struct handle_slot *find_slot(struct handle_table *table, const void *handle)
{
    uint32_t slot = (uintptr_t)handle & SLOT_MASK;
    struct handle_slot *chunk = atomic_load_explicit(&table->chunk[slot / HANDLE_CHUNK], memory_order_acquire);

    return chunk != NULL ? &chunk[slot % HANDLE_CHUNK] : NULL;
}

static struct handle_slot *decode_handle(struct handle_table *table, const void *handle, uint32_t *generation)
{
    uint64_t said = generation_in(handle);

    if (said > GENERATION_MASK)
        return NULL;
    *generation = (uint32_t)said;
    return find_slot(table, handle);
}

static struct handle_slot *slot_at(struct handle_table *table, uint32_t slot)
{
    return &atomic_load_explicit(&table->chunk[slot / HANDLE_CHUNK], memory_order_acquire)[slot % HANDLE_CHUNK];
}

/* Take a free slot; -1: none. Called with the lock. */
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
        uint64_t state = atomic_load_explicit(&s->state, memory_order_relaxed);

        atomic_store_explicit(&s->object, object, memory_order_relaxed);
        atomic_store_explicit(&s->state, state | IN_USE,
                              memory_order_release); /* pairs with the acquire in xs_handle_get() */
        handle = encode_handle((uint32_t)slot, generation_of(state));
        table->count++;
    }
    pthread_mutex_unlock(&table->lock);
    if (handle == NULL)
        errno = ENOMEM;
    return handle;
}

/* Is the slot in use, and with the handle's generation? */
static inline bool is_generation(uint64_t state, uint64_t generation)
{
    return state >> IN_USE_BIT == (generation << 1 | 1);
}

inline void *xs_handle_get(struct handle_table *table, const void *handle)
{
    struct handle_slot *slot = find_slot(table, handle);

    if (slot == NULL)
        return NULL;
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

    do {
        if (!is_generation(state, generation_in(handle)))
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&slot->state, &state, state + 1, memory_order_acquire,
                                                    memory_order_relaxed));
    return atomic_load_explicit(&slot->object, memory_order_relaxed);
}

void xs_handle_put(struct handle_table *table, const void *handle)
{
    handle_leave(xs_handle_slot(table, handle));
}

struct handle_slot *xs_handle_slot(struct handle_table *table, const void *handle)
{
    return slot_at(table, (uintptr_t)handle & SLOT_MASK);
}

inline void *xs_handle_find(struct handle_table *table, const void *handle)
{
    struct handle_slot *slot = find_slot(table, handle);

    if (slot == NULL ||
        !is_generation(atomic_load_explicit(&slot->state, memory_order_acquire), generation_in(handle)))
        return NULL;
    return atomic_load_explicit(&slot->object, memory_order_relaxed);
}

void *xs_handle_begin_take(struct handle_table *table, const void *handle)
{
    pthread_mutex_lock(&table->taking);
    void *object = xs_handle_find(table, handle);

    if (object == NULL)
        pthread_mutex_unlock(&table->taking);
    return object;
}

void xs_handle_end_take(struct handle_table *table)
{
    pthread_mutex_unlock(&table->taking);
}

static void free_slot(struct handle_table *table, struct handle_slot *slot, uint32_t number)
{
    atomic_store_explicit(&slot->object, NULL, memory_order_relaxed);
    slot->next_free = table->free;
    table->free = number + 1;
    table->count--;
}

bool xs_handle_take(struct handle_table *table, const void *handle)
{
    uint32_t generation = 0;
    struct handle_slot *slot = decode_handle(table, handle, &generation);
    uint64_t unused = state_of(generation) | IN_USE;

    /* Succeeds only without users. The acquire pairs with their release: their accesses have ended. */
    if (slot == NULL ||
        !atomic_compare_exchange_strong_explicit(&slot->state, &unused, state_of(generation + 1),
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&table->lock);
    free_slot(table, slot, (uint32_t)((uintptr_t)handle & SLOT_MASK));
    pthread_mutex_unlock(&table->lock);
    return true;
}

bool xs_handle_was(struct handle_table *table, const void *handle)
{
    uint32_t generation;
    struct handle_slot *slot = decode_handle(table, handle, &generation);

    if (slot == NULL)
        return false;
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    uint32_t later = (generation_of(state) - generation) & GENERATION_MASK;

    return later > 0 && later <= GENERATION_MASK / 2;
}

bool xs_handle_is_parents(struct handle_table *table, const void *handle)
{
    uint32_t generation;
    const struct handle_slot *slot = decode_handle(table, handle, &generation);

    return slot != NULL && slot->left_behind == generation + 1;
}

void xs_handles_each(struct handle_table *table, void (*look)(void *object, void *argument), void *argument)
{
    pthread_mutex_lock(&table->taking);
    pthread_mutex_lock(&table->lock);
    uint32_t used = table->used;

    pthread_mutex_unlock(&table->lock);
    for (uint32_t i = 0; i < used; i++) {
        struct handle_slot *slot = slot_at(table, i);

        if (atomic_load_explicit(&slot->state, memory_order_acquire) & IN_USE)
            look(atomic_load_explicit(&slot->object, memory_order_relaxed), argument);
    }
    pthread_mutex_unlock(&table->taking);
}

uint32_t xs_handle_count(struct handle_table *table)
{
    pthread_mutex_lock(&table->lock);
    uint32_t count = table->count;

    pthread_mutex_unlock(&table->lock);
    return count;
}

void xs_handle_reset(struct handle_table *table)
{
    pthread_mutex_init(&table->lock, NULL);
    pthread_mutex_init(&table->taking, NULL);
    for (uint32_t slot = 0; slot < table->used; slot++) {
        struct handle_slot *s = slot_at(table, slot);
        uint64_t state = atomic_load(&s->state);

        if (state & IN_USE) {
            s->left_behind = generation_of(state) + 1;
            atomic_store(&s->state, state_of(generation_of(state) + 1));
            free_slot(table, s, slot);
        }
    }
}
