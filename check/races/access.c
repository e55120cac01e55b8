/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * access.c - the memory model: which values an atomic load may return by C11's rules, and which plain accesses are
 * ordered.
 *
 * Each atomic keeps all values that it had in this order of steps. Each thread knows the oldest value of each atomic
 * that it may still read, and how many steps of each other thread happened before its current step (a vector clock). A
 * thread that acquires a value also gets the knowledge that was released with it. A seq_cst load returns no older value
 * than the last seq_cst store before it. Stores to one atomic take effect in the order of the steps; C11 would also
 * permit other orders, which are not explored.
 *
 * For each byte of plain memory the last writer is kept, and the threads that have read it since. An access that is not
 * ordered after these is a data race.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "races.h"

#define ATOMICS 64  /* maximum number in a scenario */
#define VALUES 128  /* maximum number of an atomic's values */
#define BYTES 16384 /* size of the table of plain memory, in groups of eight bytes; a power of two */
#define FINDS 1024  /* size of the hash table of atomics; a power of two */
#define EIGHT 8

struct knowledge {
    uint32_t clock[THREADS]; /* of each thread: the steps that happened before */
    uint8_t seen[ATOMICS];   /* of each atomic: the oldest value that may still be read */
};

struct value {
    uint64_t value;
    struct knowledge released; /* for a thread that acquires this value */
};

static struct atomic {
    const volatile void *at;
    unsigned count;  /* number of values */
    uint8_t ordered; /* index of the last seq_cst store */
    struct value values[VALUES];
} atomics[ATOMICS];

static struct thread_memory {
    struct knowledge knows;
    struct knowledge relaxed; /* collected by relaxed loads, for an acquire fence */
    struct knowledge fenced;  /* released by a fence, for relaxed stores */
} threads[THREADS];

struct byte {
    uint32_t written, read[THREADS]; /* clocks of the accesses; 0: none yet */
    uint8_t writer;
};
static struct eight {
    uintptr_t key;
    uint32_t round;
    struct byte bytes[EIGHT];
} eights[BYTES];
static struct {
    const volatile void *at;
    uint32_t round;
    unsigned index;
} finds[FINDS];
static struct {
    const void *object;
    struct knowledge knows;
} objects[ATOMICS];

static unsigned atomic_count, object_count;
static uint32_t round_now;
static struct knowledge fences; /* of the seq_cst fences */

/* ---- What threads know --------------------------------------------------------------------------------- */

static void learn(struct knowledge *mine, const struct knowledge *other)
{
    for (int i = 0; i < THREADS; i++)
        if (other->clock[i] > mine->clock[i])
            mine->clock[i] = other->clock[i];
    for (unsigned i = 0; i < atomic_count; i++)
        if (other->seen[i] > mine->seen[i])
            mine->seen[i] = other->seen[i];
}

static struct thread_memory *own(void)
{
    return &threads[race_self()];
}

/* The thread's steps from now on happen after what it has released. */
static void tick(void)
{
    own()->knows.clock[race_self()]++;
}

void access_reset(void)
{
    atomic_count = object_count = 0;
    round_now++;
    memset(threads, 0, sizeof threads);
    memset(&fences, 0, sizeof fences);
    for (int i = 0; i < THREADS; i++)
        threads[i].knows.clock[i] = 1;
}

void access_begin(int thread)
{
    learn(&threads[thread].knows, &threads[0].knows);
}

void access_join(void)
{
    for (int i = 1; i < THREADS; i++)
        learn(&threads[0].knows, &threads[i].knows);
}

void access_sync(const void *object)
{
    unsigned i = 0;

    while (i < object_count && objects[i].object != object)
        i++;
    if (i == ATOMICS)
        race_fail("too many objects of the kernel's");
    if (i == object_count) {
        object_count++;
        objects[i].object = object;
        memset(&objects[i].knows, 0, sizeof objects[i].knows);
    }
    learn(&own()->knows, &objects[i].knows);
    learn(&objects[i].knows, &own()->knows);
    tick();
}

/* ---- Plain memory -------------------------------------------------------------------------------------- */

static struct eight *find_eight(uintptr_t key)
{
    for (unsigned i = (unsigned)(key * 2654435761u) % BYTES, tries = 0; tries < BYTES;
         i = (i + 1) % BYTES, tries++) {
        struct eight *eight = &eights[i];

        if (eight->round != round_now) {
            memset(eight, 0, sizeof *eight);
            eight->round = round_now;
            eight->key = key;
        }
        if (eight->key == key)
            return eight;
    }
    race_fail("too much memory");
}

static bool is_known(int thread, uint32_t clock)
{
    return clock <= own()->knows.clock[thread];
}

static void access_byte(uintptr_t at, bool writes)
{
    struct byte *byte = &find_eight(at / EIGHT)->bytes[at % EIGHT];
    int self = race_self();

    if (byte->written && byte->writer != self && !is_known(byte->writer, byte->written))
        race_fail("a data race: thread %d %s byte %#lx, which thread %d has written", self,
                  writes ? "writes" : "reads", (unsigned long)at, byte->writer);
    for (int i = 0; writes && i < THREADS; i++)
        if (byte->read[i] && i != self && !is_known(i, byte->read[i]))
            race_fail("a data race: thread %d writes byte %#lx, which thread %d has read", self,
                      (unsigned long)at, i);
    if (writes) {
        byte->written = own()->knows.clock[self];
        byte->writer = (uint8_t)self;
        memset(byte->read, 0, sizeof byte->read);
    } else {
        byte->read[self] = own()->knows.clock[self];
    }
}

static void access_plain(const void *at, size_t length, bool writes)
{
    if (access_is_own_stack(at))
        return;
    for (size_t i = 0; i < length; i++)
        access_byte((uintptr_t)at + i, writes);
}

/* ---- Atomics ------------------------------------------------------------------------------------------- */

static uint64_t load_memory(const volatile void *at, unsigned size)
{
    return size == 1   ? *(const volatile uint8_t *)at
           : size == 2 ? *(const volatile uint16_t *)at
           : size == 4 ? *(const volatile uint32_t *)at
                       : *(const volatile uint64_t *)at;
}

static void store_memory(volatile void *at, unsigned size, uint64_t value)
{
    if (size == 1)
        *(volatile uint8_t *)at = (uint8_t)value;
    else if (size == 2)
        *(volatile uint16_t *)at = (uint16_t)value;
    else if (size == 4)
        *(volatile uint32_t *)at = (uint32_t)value;
    else
        *(volatile uint64_t *)at = value;
}

/* The first value is known to all threads. */
static struct atomic *find_atomic(const volatile void *at, unsigned size)
{
    unsigned i = (unsigned)((uintptr_t)at / 4 * 2654435761u) % FINDS;

    while (finds[i].round == round_now && finds[i].at != at)
        i = (i + 1) % FINDS;
    if (finds[i].round == round_now)
        return &atomics[finds[i].index];
    if (atomic_count == ATOMICS)
        race_fail("too many atomics");
    finds[i].round = round_now;
    finds[i].at = at;
    finds[i].index = atomic_count++;
    struct atomic *atomic = &atomics[finds[i].index];

    atomic->at = at;
    atomic->count = 1;
    atomic->ordered = 0;
    atomic->values[0].value = load_memory(at, size);
    memset(&atomic->values[0].released, 0, sizeof atomic->values[0].released);
    return atomic;
}

static bool acquires(int order)
{
    return order == memory_order_acquire || order == memory_order_consume || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

static bool releases(int order)
{
    return order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

static uint64_t see(struct atomic *atomic, unsigned index, int order)
{
    struct value *value = &atomic->values[index];
    size_t number = (size_t)(atomic - atomics);

    if (own()->knows.seen[number] < index)
        own()->knows.seen[number] = (uint8_t)index;
    learn(acquires(order) ? &own()->knows : &own()->relaxed, &value->released);
    return value->value;
}

/* Adds a value. A read-modify-write operation (`changes`) also passes on what the value before it released. */
static void give(struct atomic *atomic, unsigned size, uint64_t new, int order, bool changes)
{
    size_t number = (size_t)(atomic - atomics);
    struct value *before = &atomic->values[atomic->count - 1], *value = &atomic->values[atomic->count];

    if (atomic->count == VALUES)
        race_fail("too many values of an atomic");
    value->value = new;
    own()->knows.seen[number] = (uint8_t)atomic->count;
    value->released = releases(order) ? own()->knows : own()->fenced;
    value->released.seen[number] = (uint8_t)atomic->count;
    if (changes)
        learn(&value->released, &before->released);
    if (order == memory_order_seq_cst)
        atomic->ordered = (uint8_t)atomic->count;
    atomic->count++;
    store_memory((volatile void *)(uintptr_t)atomic->at, size, new);
    tick();
}

static uint64_t atomic_load_any(const volatile void *at, unsigned size, int order)
{
    explore_step((const void *)(uintptr_t)at, false, "loads");
    struct atomic *atomic = find_atomic(at, size);
    unsigned least = own()->knows.seen[atomic - atomics], last = atomic->count - 1;

    if (order == memory_order_seq_cst && atomic->ordered > least)
        least = atomic->ordered;
    if (explore_is_late() || race_self() == 0)
        least = last;
    return see(atomic, last - explore_choose(last - least + 1), order);
}

static void atomic_store_any(volatile void *at, unsigned size, uint64_t value, int order)
{
    explore_step((const void *)(uintptr_t)at, true, "stores");
    give(find_atomic(at, size), size, value, order, false);
}

enum change { EXCHANGE, ADD, SUB, AND, OR, XOR };

static uint64_t atomic_change_any(volatile void *at, unsigned size, enum change change, uint64_t by, int order)
{
    explore_step((const void *)(uintptr_t)at, true, "changes");
    struct atomic *atomic = find_atomic(at, size);
    uint64_t old = see(atomic, atomic->count - 1, order);
    const uint64_t new[] = {by, old + by, old - by, old & by, old | by, old ^ by};

    give(atomic, size, size == 8 ? new[change] : new[change] & ((UINT64_C(1) << size * 8) - 1), order, true);
    return old;
}

static bool atomic_compare_any(volatile void *at, unsigned size, uint64_t *expected, uint64_t value, int order,
                               int failed)
{
    explore_step((const void *)(uintptr_t)at, true, "compares");
    struct atomic *atomic = find_atomic(at, size);
    uint64_t old = atomic->values[atomic->count - 1].value;

    if (old != *expected) {
        *expected = see(atomic, atomic->count - 1, failed);
        return false;
    }
    see(atomic, atomic->count - 1, order);
    give(atomic, size, value, order, true);
    return true;
}

/* ---- What the compiler calls --------------------------------------------------------------------------- */

#define PLAIN(size)                                                                                            \
    void __tsan_read##size(void *at);                                                                          \
    void __tsan_write##size(void *at);                                                                         \
    void __tsan_unaligned_read##size(void *at);                                                                \
    void __tsan_unaligned_write##size(void *at);                                                               \
    void __tsan_read##size(void *at)                                                                           \
    {                                                                                                          \
        access_plain(at, size, false);                                                                         \
    }                                                                                                          \
    void __tsan_write##size(void *at)                                                                          \
    {                                                                                                          \
        access_plain(at, size, true);                                                                          \
    }                                                                                                          \
    void __tsan_unaligned_read##size(void *at)                                                                 \
    {                                                                                                          \
        access_plain(at, size, false);                                                                         \
    }                                                                                                          \
    void __tsan_unaligned_write##size(void *at)                                                                \
    {                                                                                                          \
        access_plain(at, size, true);                                                                          \
    }

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *at, size_t length);
void __tsan_write_range(void *at, size_t length);
void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);

void __tsan_read_range(void *at, size_t length)
{
    access_plain(at, length, false);
}

void __tsan_write_range(void *at, size_t length)
{
    access_plain(at, length, true);
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void)
{
}

/* Clang calls these instead of the C library's functions. */
void *__tsan_memcpy(void *to, const void *from, size_t length);
void *__tsan_memmove(void *to, const void *from, size_t length);
void *__tsan_memset(void *to, int byte, size_t length);

void *__tsan_memmove(void *to, const void *from, size_t length)
{
    access_plain(from, length, false);
    access_plain(to, length, true);
    return memmove(to, from, length);
}

void *__tsan_memcpy(void *to, const void *from, size_t length)
{
    return __tsan_memmove(to, from, length);
}

void *__tsan_memset(void *to, int byte, size_t length)
{
    access_plain(to, length, true);
    return memset(to, byte, length);
}

void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}

void __tsan_atomic_thread_fence(int order)
{
    explore_step(order == memory_order_seq_cst ? &fences : NULL, true, "fences");
    if (acquires(order))
        learn(&own()->knows, &own()->relaxed);
    if (order == memory_order_seq_cst) {
        learn(&own()->knows, &fences);
        learn(&fences, &own()->knows);
    }
    if (releases(order))
        own()->fenced = own()->knows;
    tick();
}

#define CHANGE(bits, name, change)                                                                             \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile void *at, uint##bits##_t by, int order);              \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile void *at, uint##bits##_t by, int order)               \
    {                                                                                                          \
        return (uint##bits##_t)atomic_change_any(at, bits / 8, change, by, order);                             \
    }

#define COMPARE(bits, name)                                                                                    \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile void *at, void *expected, uint##bits##_t value, \
                                                      int order, int failed);                                  \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile void *at, void *expected, uint##bits##_t value, \
                                                      int order, int failed)                                   \
    {                                                                                                          \
        uint64_t old = *(uint##bits##_t *)expected;                                                            \
        bool same = atomic_compare_any(at, bits / 8, &old, value, order, failed);                              \
                                                                                                               \
        if (!same)                                                                                             \
            *(uint##bits##_t *)expected = (uint##bits##_t)old;                                                 \
        return same;                                                                                           \
    }

/* Clang calls this one. */
#define COMPARE_VALUE(bits)                                                                                    \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile void *at, uint##bits##_t expected,      \
                                                              uint##bits##_t value, int order, int failed);    \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile void *at, uint##bits##_t expected,      \
                                                              uint##bits##_t value, int order, int failed)     \
    {                                                                                                          \
        uint64_t old = expected;                                                                               \
                                                                                                               \
        atomic_compare_any(at, bits / 8, &old, value, order, failed);                                          \
        return (uint##bits##_t)old;                                                                            \
    }

#define ATOMIC(bits)                                                                                           \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile void *at, int order);                             \
    void __tsan_atomic##bits##_store(volatile void *at, uint##bits##_t value, int order);                      \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile void *at, int order)                              \
    {                                                                                                          \
        return (uint##bits##_t)atomic_load_any(at, bits / 8, order);                                           \
    }                                                                                                          \
    void __tsan_atomic##bits##_store(volatile void *at, uint##bits##_t value, int order)                       \
    {                                                                                                          \
        atomic_store_any(at, bits / 8, value, order);                                                          \
    }                                                                                                          \
    CHANGE(bits, exchange, EXCHANGE)                                                                           \
    CHANGE(bits, fetch_add, ADD)                                                                               \
    CHANGE(bits, fetch_sub, SUB)                                                                               \
    CHANGE(bits, fetch_and, AND)                                                                               \
    CHANGE(bits, fetch_or, OR)                                                                                 \
    CHANGE(bits, fetch_xor, XOR)                                                                               \
    COMPARE(bits, strong)                                                                                      \
    COMPARE(bits, weak)                                                                                        \
    COMPARE_VALUE(bits)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)
