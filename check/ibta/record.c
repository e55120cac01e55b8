/* SPDX-License-Identifier: BSD-2-Clause */
/* record.c - stores entries. The program exits if memory allocation fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "record.h"

static void *need(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "tester: out of memory\n");
        abort();
    }
    return memory;
}

static struct entry *add(struct record *record)
{
    if (record->over)
        return NULL;
    if (record->count == record->room) {
        record->room = record->room == 0 ? 32 : 2 * record->room;
        record->entries = need(realloc(record->entries, record->room * sizeof(struct entry *)));
    }
    return record->entries[record->count++] = need(calloc(1, sizeof(struct entry)));
}

struct entry *record_event(struct record *record, enum entry_kind kind, uint64_t time)
{
    struct entry *entry = add(record);

    if (entry != NULL) {
        entry->kind = kind;
        entry->time = time;
    }
    return entry;
}

struct entry *record_packet(struct record *record, enum entry_kind kind, uint64_t time, const uint8_t *packet,
                            size_t length, bool sealed)
{
    struct entry *entry = record_event(record, kind, time);

    if (entry == NULL)
        return NULL;
    entry->bytes = need(malloc(length + 1));
    memcpy(entry->bytes, packet, length);
    entry->length = length;
    entry->sealed = sealed;
    entry->readable = roce_read(&entry->roce, entry->bytes, length);
    return entry;
}

void record_remove(struct record *record, unsigned at)
{
    free(record->entries[at]->bytes);
    free(record->entries[at]);
    record->count--;
    memmove(record->entries + at, record->entries + at + 1, (record->count - at) * sizeof(struct entry *));
}

void record_free(struct record *record)
{
    while (record->count > 0)
        record_remove(record, record->count - 1);
    free(record->entries);
    record->entries = NULL;
    record->room = 0;
}

struct record *record_copy(const struct record *record)
{
    struct record *copy = need(malloc(sizeof *copy));

    *copy = *record;
    copy->entries = NULL;
    copy->count = copy->room = 0;
    copy->over = false;
    for (unsigned i = 0; i < record->count; i++) {
        const struct entry *from = record->entries[i];
        struct entry *to = from->bytes != NULL ? record_packet(copy, from->kind, from->time, from->bytes,
                                                               from->length, from->sealed)
                                               : record_event(copy, from->kind, from->time);

        to->wc = from->wc;
        to->name = from->name;
        to->value = from->value;
    }
    return copy;
}

const struct entry *record_next(const struct record *record, enum entry_kind kind, unsigned *at)
{
    while (*at < record->count) {
        const struct entry *entry = record->entries[(*at)++];

        if (entry->kind == kind)
            return entry;
    }
    return NULL;
}

bool entry_is_answer(const struct entry *entry)
{
    return entry->roce.opcode >= READ_RESPONSE_FIRST && entry->roce.opcode <= ATOMIC_ACKNOWLEDGE;
}
