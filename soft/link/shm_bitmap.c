/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_bitmap.c - slots and the notification bitmap: shm_bitmap.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "core/base/fds.h"
#include "shm_bitmap.h"
#include "shm_sealed.h"

/* Clears the lowest bit that is set, and returns its index. */
static unsigned next_bit(uint64_t *bits)
{
    unsigned bit = (unsigned)__builtin_ctzll(*bits);

    *bits &= *bits - 1;
    return bit;
}

/* ---- Slots ---- */

static void free_slots(struct shm_slots *slots)
{
    if (slots->bitmap != NULL)
        shm_bitmap_unmap(slots->bitmap);
    if (slots->memory != -1)
        fds_close(slots->memory);
    free(slots);
}

struct shm_slots *shm_slots_new(void)
{
    struct shm_slots *slots = calloc(1, sizeof *slots);
    int error;

    if (slots == NULL)
        return NULL;
    slots->memory = shm_sealed_make(sizeof *slots->bitmap);
    slots->bitmap = slots->memory == -1 ? NULL : shm_bitmap_map(slots->memory);
    atomic_init(&slots->users, 1);
    if (slots->bitmap != NULL)
        return slots;
    error = errno;
    free_slots(slots);
    errno = error;
    return NULL;
}

void shm_slots_leave(struct shm_slots *slots)
{
    if (atomic_fetch_sub_explicit(&slots->users, 1, memory_order_acq_rel) == 1)
        free_slots(slots);
}

int shm_slot_reserve(struct shm_slots *slots)
{
    for (int word = 0; word < SHM_SLOTS / 64; word++) {
        uint64_t taken = atomic_load_explicit(&slots->reserved[word], memory_order_relaxed);

        while (~taken != 0) {
            int bit = __builtin_ctzll(~taken);

            if (!atomic_compare_exchange_weak_explicit(&slots->reserved[word], &taken,
                                                       taken | UINT64_C(1) << bit, memory_order_relaxed,
                                                       memory_order_relaxed))
                continue;
            atomic_fetch_add_explicit(&slots->users, 1, memory_order_relaxed);
            return word * 64 + bit;
        }
    }
    errno = EUSERS;
    return -1;
}

void shm_slot_give_back(struct shm_slots *slots, int slot)
{
    atomic_fetch_and_explicit(&slots->reserved[slot / 64], ~(UINT64_C(1) << slot % 64), memory_order_relaxed);
    shm_slots_leave(slots);
}

void shm_slots_each(struct shm_slots *slots, void (*each)(void *arg, unsigned slot), void *arg)
{
    for (unsigned word = 0; word < SHM_SLOTS / 64; word++) {
        uint64_t bits = atomic_load_explicit(&slots->reserved[word], memory_order_relaxed);

        while (bits != 0)
            each(arg, word * 64 + next_bit(&bits));
    }
}

/* ---- The bitmap ---- */

struct shm_bitmap *shm_bitmap_map(int memory)
{
    return shm_sealed_map(memory, sizeof(struct shm_bitmap));
}

void shm_bitmap_unmap(struct shm_bitmap *bitmap)
{
    munmap(bitmap, sizeof *bitmap);
}

void shm_bitmap_notify(struct shm_bitmap *bitmap, unsigned slot)
{
    unsigned word = slot / 64;

    atomic_fetch_or_explicit(&bitmap->calls[word], UINT64_C(1) << slot % 64, memory_order_release);
    atomic_fetch_or_explicit(&bitmap->sums[word / 64], UINT64_C(1) << word % 64, memory_order_release);
}

/* Clears a word and returns its bits. The acquire exchange pairs with the releases of shm_bitmap_notify(). */
static uint64_t take_bits(_Atomic uint64_t *bits)
{
    return atomic_load_explicit(bits, memory_order_relaxed) == 0
               ? 0
               : atomic_exchange_explicit(bits, 0, memory_order_acquire);
}

unsigned shm_bitmap_take(struct shm_bitmap *bitmap, void (*called)(void *arg, unsigned slot), void *arg)
{
    unsigned count = 0;

    for (unsigned sum = 0; sum < SHM_SLOTS / 64 / 64; sum++) {
        for (uint64_t words = take_bits(&bitmap->sums[sum]); words != 0;) {
            unsigned word = sum * 64 + next_bit(&words);

            for (uint64_t slots = take_bits(&bitmap->calls[word]); slots != 0; count++)
                called(arg, word * 64 + next_bit(&slots));
        }
    }
    return count;
}
