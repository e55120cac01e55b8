/* SPDX-License-Identifier: BSD-2-Clause */
/* account.c - records the memory that libexs has allocated, by the addresses of the calls. A table of fixed
 * size, which needs no allocation itself. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include "fail.h"

#define ENTRIES (1u << 17)
#define PLACES 512

static struct entry {
    const void *pointer; /* NULL: never used; GONE: used before */
    const void *place;
    size_t size; /* bytes */
} entries[ENTRIES];

static atomic_flag lock = ATOMIC_FLAG_INIT; /* protects the entries */
static const char gone;
#define GONE ((const void *)&gone)

static void enter(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        ;
}

static void leave(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

static uint32_t first_of(const void *pointer)
{
    return (uint32_t)(((uintptr_t)pointer >> 4) * 2654435761u) % ENTRIES;
}

void account_add(const void *pointer, size_t size, const void *place)
{
    enter();
    for (uint32_t i = first_of(pointer), tries = 0; tries < ENTRIES; i = (i + 1) % ENTRIES, tries++) {
        if (entries[i].pointer != NULL && entries[i].pointer != GONE)
            continue;
        entries[i] = (struct entry){pointer, place, size};
        break;
    }
    leave();
}

bool account_remove(const void *pointer, size_t *size)
{
    bool found = false;

    enter();
    for (uint32_t i = first_of(pointer), tries = 0; tries < ENTRIES; i = (i + 1) % ENTRIES, tries++) {
        if (entries[i].pointer == NULL)
            break;
        if (entries[i].pointer != pointer)
            continue;
        *size = entries[i].size;
        entries[i].pointer = entries[(i + 1) % ENTRIES].pointer == NULL ? NULL : GONE;
        found = true;
        break;
    }
    leave();
    return found;
}

void account_report(const char *base)
{
    static struct {
        const void *place;
        unsigned count;
        size_t bytes;
    } places[PLACES];
    unsigned used = 0;

    enter();
    for (uint32_t i = 0; i < ENTRIES; i++) {
        unsigned p = 0;

        if (entries[i].pointer == NULL || entries[i].pointer == GONE)
            continue;
        while (p < used && places[p].place != entries[i].place)
            p++;
        if (p == PLACES)
            continue;
        if (p == used)
            places[used++].place = entries[i].place;
        places[p].count++;
        places[p].bytes += entries[i].size;
    }
    leave();
    for (unsigned p = 0; p < used; p++)
        fail_say("live %#lx %u %zu", (unsigned long)((const char *)places[p].place - base), places[p].count,
                 places[p].bytes);
}
