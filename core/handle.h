/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handle.h - opaque handles that are never followed blindly.
 *
 * The pointers that users hold for queues and memory regions are numbers in disguise: a slot and a generation.
 * One that was never given out, or whose object is gone, is found out (EINVAL) instead of being dereferenced.
 * Looking one up takes no lock.
 */
#ifndef XS_HANDLE_H
#define XS_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define HANDLE_CHUNK 256 /* slots allocated together */
#define HANDLE_CHUNKS 4096

struct handle_slot {
    _Atomic(void *) object;
    _Atomic uint32_t generation;
    uint32_t next_free; /* slot + 1, or 0 */
};

struct handle_table {
    pthread_mutex_t lock; /* guards making and freeing, not looking up */
    _Atomic(struct handle_slot *) chunk[HANDLE_CHUNKS];
    uint32_t used, free; /* slots ever used; first free slot + 1 */
};

#define HANDLE_TABLE_INIT                                                                                      \
    {                                                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                                      \
    }

/* A handle for object, or NULL with ENOMEM. */
void *xs_handle_make(struct handle_table *table, void *object);
/* The object, or NULL when the handle is none of this table's. */
void *xs_handle_find(struct handle_table *table, const void *handle);
/* Takes the handle out of use; the object, or NULL: of two callers one gets it. */
void *xs_handle_take(struct handle_table *table, const void *handle);
/* Forget everything (a forked child); what the slots held is leaked. */
void xs_handle_reset(struct handle_table *table);

#endif
