/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handle.h - opaque handles that are validated before use.
 *
 * The pointers that applications hold for queues and memory regions contain a slot number and a generation, not an
 * address. A handle that was never given out, or whose object was freed, is detected (EINVAL) instead of being
 * dereferenced.
 *
 * A thread that looks a handle up becomes a user of it. Users are counted in the slot together with the generation. A
 * handle that has users can't be taken out of use, so an object is not freed while a thread uses it. Looking up takes
 * no lock.
 */
#ifndef XS_HANDLE_H
#define XS_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HANDLE_CHUNK 256 /* slots allocated together */
#define HANDLE_CHUNKS 4096
#define HANDLE_BITS 44 /* the low bits of a handle: slot and generation; the other bits are constant */

struct handle_slot {
    /* From the high bits to the low ones: the generation, a bit that is set while the handle is in use, and the number
     * of users. A user's decrement (release) follows its last access to the object and pairs with the exchange that
     * takes the handle out of use (acquire). */
    _Atomic uint64_t state;
    /* Stored before the store of `state` that sets the handle in use; pairs with the loads after `state` was read. */
    _Atomic(void *) object;
    uint32_t next_free;   /* 1 + the number of the next free slot; 0: none. Guarded by the table's lock */
    uint32_t left_behind; /* in a forked child: generation + 1 of the parent's handle in this slot; or 0 */
};

struct handle_table {
    pthread_mutex_t lock;   /* guards making and freeing handles, not looking up */
    pthread_mutex_t taking; /* held while a handle is taken out of use; taken before any other lock */
    /* Arrays of HANDLE_CHUNK slots. NULL until the first slot is needed; never freed. The store (release) pairs with
     * each load (acquire). */
    _Atomic(struct handle_slot *) chunk[HANDLE_CHUNKS];
    /* The number of slots that were ever in use; 1 + the number of the first free one of them, or 0. Guarded by
     * `lock`. */
    uint32_t used, free;
    uint32_t count; /* handles in use; guarded by `lock` */
};

#define HANDLE_TABLE_INIT                                                                                      \
    {                                                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER, .taking = PTHREAD_MUTEX_INITIALIZER                                 \
    }

/* Makes a handle for an object. Returns NULL and ENOMEM on failure. */
void *xs_handle_make(struct handle_table *table, void *object);
/* Returns the object and makes the caller a user of the handle until xs_handle_put(); or NULL if the handle is not
 * valid. */
void *xs_handle_get(struct handle_table *table, const void *handle);
void xs_handle_put(struct handle_table *table, const void *handle);
/* Returns the slot of a handle in use, for objects that are looked up for each message: handle_leave(slot) is then a
 * faster xs_handle_put(). */
struct handle_slot *xs_handle_slot(struct handle_table *table, const void *handle);
/* The caller is no longer a user of the handle in this slot. */
static inline void handle_leave(struct handle_slot *slot)
{
    /* Pairs with the exchange in xs_handle_take. */
    atomic_fetch_sub_explicit(&slot->state, 1, memory_order_release);
}
/* Returns the object, or NULL. The caller does not become a user: another lock must keep the handle from being taken
 * out of use. */
void *xs_handle_find(struct handle_table *table, const void *handle);

/* Returns the object; no other thread can take the handle out of use before xs_handle_end_take(). NULL: the handle is
 * not valid, and xs_handle_end_take() must not be called. */
void *xs_handle_begin_take(struct handle_table *table, const void *handle);
/* Takes the handle out of use. Returns false if it has users. Called between xs_handle_begin_take() and
 * xs_handle_end_take(), or for a handle that no other thread can take out of use. */
bool xs_handle_take(struct handle_table *table, const void *handle);
void xs_handle_end_take(struct handle_table *table);
/* Returns true if the handle belonged to this table and has been taken out of use. */
bool xs_handle_was(struct handle_table *table, const void *handle);
/* Returns true if the handle is from the process that forked. */
bool xs_handle_is_parents(struct handle_table *table, const void *handle);
/* Calls `look` for each object; no handle is taken out of use at the same time. */
void xs_handles_each(struct handle_table *table, void (*look)(void *object, void *argument), void *argument);
/* Returns the number of handles in use. */
uint32_t xs_handle_count(struct handle_table *table);
/* Forgets all handles, in a forked child; their objects are leaked. */
void xs_handle_reset(struct handle_table *table);

#endif
