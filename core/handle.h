/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handle.h - opaque handles that are never followed blindly.
 *
 * The pointers that users hold for queues and memory regions are numbers in disguise: a slot and a generation.
 * One that was never given out, or whose object is gone, is found out (EINVAL) instead of being dereferenced.
 *
 * Whoever looks one up becomes a user of it, counted in its slot together with the generation, so that no
 * object goes between being found and being used: what has users is not taken out of use. That takes no lock.
 */
#ifndef XS_HANDLE_H
#define XS_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HANDLE_CHUNK 256 /* slots allocated together */
#define HANDLE_CHUNKS 4096
#define HANDLE_BITS 44 /* in which one differs from another: those above say the same of all */

struct handle_slot {
    /* Generation, whether the handle is in use, and its users. A user's last access to the object is before its
     * leaving (release), which pairs with whoever takes the handle (acquire). */
    _Atomic uint64_t state;
    _Atomic(void *) object; /* before `state` says that it is in use, and pairs with who has read that */
    uint32_t next_free;     /* slot + 1, or 0 */
    uint32_t left_behind;   /* generation, + 1, of the handle that a forked child's parent has here; or 0 */
};

struct handle_table {
    pthread_mutex_t lock;   /* guards making and freeing, not looking up */
    pthread_mutex_t taking; /* one thread at a time takes handles out of use; before any other lock */
    _Atomic(struct handle_slot *) chunk[HANDLE_CHUNKS]; /* made once: the store pairs with who finds it */
    uint32_t used, free;                                /* slots ever used; first free slot + 1 */
    uint32_t count;                                     /* handles in use; guarded by `lock`, as these are */
};

#define HANDLE_TABLE_INIT                                                                                      \
    {                                                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER, .taking = PTHREAD_MUTEX_INITIALIZER                                 \
    }

/* A handle for object, or NULL with ENOMEM. */
void *xs_handle_make(struct handle_table *table, void *object);
/* The object, whose user the caller becomes until xs_handle_put, or NULL when the handle is none of this
 * table's.
 */
void *xs_handle_get(struct handle_table *table, const void *handle);
void xs_handle_put(struct handle_table *table, const void *handle);
/* The slot of one that is in use, for an object that is used with each message, and its user's leaving. */
struct handle_slot *xs_handle_slot(struct handle_table *table, const void *handle);
static inline void handle_leave(struct handle_slot *slot)
{
    /* Pairs with the exchange in xs_handle_take. */
    atomic_fetch_sub_explicit(&slot->state, 1, memory_order_release);
}
/* The object without becoming a user: for who keeps it from being taken by a lock of its own. */
void *xs_handle_find(struct handle_table *table, const void *handle);

/* The object, which no other thread takes before xs_handle_end_take; NULL, and nothing to undo, as above. */
void *xs_handle_begin_take(struct handle_table *table, const void *handle);
/* Between these, or where nobody else could take it: takes the handle out of use; false: it has users. */
bool xs_handle_take(struct handle_table *table, const void *handle);
void xs_handle_end_take(struct handle_table *table);
/* It was one of this table's, and was taken out of use. */
bool xs_handle_was(struct handle_table *table, const void *handle);
/* It is one of the process that forked. */
bool xs_handle_is_parents(struct handle_table *table, const void *handle);
/* Show each object, which nobody takes meanwhile. */
void xs_handles_each(struct handle_table *table, void (*look)(void *object, void *argument), void *argument);
/* How many handles there are. */
uint32_t xs_handle_count(struct handle_table *table);
/* Forget everything (a forked child); what the slots held is leaked. */
void xs_handle_reset(struct handle_table *table);

#endif
