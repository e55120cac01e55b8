/* SPDX-License-Identifier: BSD-2-Clause */
/* roce_table.c - the shared table of roce_table.h. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include "roce_table.h"
#include "shm_sealed.h"

int roce_table_make(void)
{
    return shm_sealed_make(sizeof(struct roce_table));
}

struct roce_table *roce_table_map(int memory)
{
    struct roce_table *table = shm_sealed_map(memory, sizeof *table);

    if (table == NULL || shm_sealed_populate(table, sizeof *table))
        return table;
    roce_table_unmap(table);
    errno = ENOMEM;
    return NULL;
}

void roce_table_unmap(struct roce_table *table)
{
    munmap(table, sizeof *table);
}

/* FNV-1a */
uint32_t roce_table_place(const char *name)
{
    uint32_t hash = 0x811c9dc5;

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 0x01000193;
    return (hash ^ hash >> 16) % ROCE_LISTENERS;
}

void roce_table_open(struct roce_table *table, uint32_t place)
{
    atomic_fetch_add(&table->listeners[place], 1); /* pairs with roce_table_is_open()'s load */
}

/* Another process may have written any value: the count does not go below 0. */
void roce_table_close(struct roce_table *table, uint32_t place)
{
    uint32_t count = atomic_load(&table->listeners[place]); /* pairs with nothing: the exchange checks it */

    while (count > 0 && !atomic_compare_exchange_weak(&table->listeners[place], &count, count - 1))
        ;
}

bool roce_table_is_open(const struct roce_table *table, uint32_t place)
{
    return atomic_load(&table->listeners[place]) > 0; /* pairs with roce_table_open()'s addition */
}

static uint32_t place_of_request(uint64_t guid, uint32_t id)
{
    uint64_t hash = (guid ^ id * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);

    return (uint32_t)(hash >> 40) % ROCE_REQUESTS;
}

void roce_table_remember(struct roce_table *table, uint64_t guid, uint32_t id, unsigned share)
{
    /* pairs with roce_table_recall()'s load; relaxed: orders nothing else */
    atomic_store_explicit(&table->requests[place_of_request(guid, id)], (uint8_t)(share + 1),
                          memory_order_relaxed);
}

int roce_table_recall(const struct roce_table *table, uint64_t guid, uint32_t id)
{
    /* pairs with roce_table_remember()'s store; relaxed: orders nothing else */
    return atomic_load_explicit(&table->requests[place_of_request(guid, id)], memory_order_relaxed) - 1;
}
