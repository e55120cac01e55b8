/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mutex.c - core/base/mutex on a futex that guarantees no more than the kernel does: one thread at a time holds the
 * mutex, the next holder sees what the last one wrote, and no thread sleeps while the mutex is free.
 */
#include <unistd.h>
#include "kernel.h"
#include "scenarios.h"

#define syscall(number, word, operation, ...)                                                                  \
    race_syscall((uint32_t *)(uintptr_t)(word), operation, __VA_ARGS__, 0)

static long race_syscall(uint32_t *word, int operation, uint32_t value, ...)
{
    return futex(word, operation, value);
}

#include "core/base/mutex.c"

#ifdef MUTEX_IS_PTHREAD
#error "this is to be core/base/mutex.h's own mutex"
#endif

static struct mutex mutex;
static int count, inside; /* guarded by the mutex */
static bool failed[THREADS];

static void prepare(void)
{
    futex_clear();
    mutex_init(&mutex);
    count = inside = 0;
    for (int i = 0; i < THREADS; i++)
        failed[i] = false;
}

static void within(void)
{
    EXPECT(inside++ == 0);
    count++;
    inside--;
    mutex_unlock(&mutex);
}

static void once(void)
{
    mutex_lock(&mutex);
    within();
}

static void twice(void)
{
    once();
    once();
}

static void perhaps(void)
{
    if (mutex_trylock(&mutex))
        within();
    else
        failed[race_self()] = true;
}

static void counted_three(void)
{
    EXPECT(count == 3 - failed[1] - failed[2] - failed[3]);
    EXPECT(atomic_load(&mutex.state) == MUTEX_FREE);
}

static void counted_four(void)
{
    EXPECT(count == 4);
}

SCENARIOS({"mutex", "three threads, once each", prepare, {once, once, once}, counted_three, NULL},
          {"mutex-twice", "two threads, twice each", prepare, {twice, twice}, counted_four, NULL},
          {"mutex-try", "two lock, one tries", prepare, {once, once, perhaps}, counted_three, NULL});
