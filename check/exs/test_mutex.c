/* SPDX-License-Identifier: BSD-2-Clause */
/* test_mutex.c - core/base/mutex.h: one thread holds the mutex at a time, and threads that sleep for it are
 * woken. */
#include "check/support/asleep.h"
#include "check/support/support.h"

#include <stdatomic.h>
#include "core/base/mutex.h"

#define THREADS 4
#define ROUNDS 50000

static struct mutex mutex;
static unsigned long guarded[2]; /* equal whenever the mutex is free */

static void *count(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 8 != 0 || !mutex_trylock(&mutex))
            mutex_lock(&mutex);
        ck_assert_uint_eq(guarded[0], guarded[1]);
        guarded[0]++;
        if (i % 1024 == 0)
            sched_yield(); /* so that other threads find the mutex locked */
        guarded[1]++;
        mutex_unlock(&mutex);
    }
    return unused;
}

START_TEST(excludes)
{
    pthread_t threads[THREADS];

    mutex_init(&mutex);
    for (int i = 0; i < THREADS; i++)
        threads[i] = thread_start(count, NULL);
    for (int i = 0; i < THREADS; i++)
        thread_join(threads[i]);
    ck_assert_uint_eq(guarded[0], (unsigned long)THREADS * ROUNDS);
    ck_assert_uint_eq(guarded[1], guarded[0]);
    ck_assert(mutex_trylock(&mutex)); /* it is free at the end */
}
END_TEST

struct sleeper {
    _Atomic pid_t tid;
    pthread_t thread;
};

static void *lock_and_unlock(void *arg)
{
    struct sleeper *sleeper = arg;

    atomic_store(&sleeper->tid, gettid());
    mutex_lock(&mutex);
    mutex_unlock(&mutex);
    return NULL;
}

/* Two threads sleep for the mutex. The unlock wakes one of them, and its unlock wakes the other. */
START_TEST(wakes)
{
    static struct sleeper sleepers[2];

    mutex_init(&mutex);
    mutex_lock(&mutex);
    ck_assert(!mutex_trylock(&mutex));
    for (int i = 0; i < 2; i++) {
        sleepers[i].thread = thread_start(lock_and_unlock, &sleepers[i]);
        await_sleep(&sleepers[i].tid);
    }
    mutex_unlock(&mutex);
    for (int i = 0; i < 2; i++)
        thread_join(sleepers[i].thread);
    ck_assert(mutex_trylock(&mutex));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mutex");
    TCase *threads = add_bare_case(suite, "threads", 20);

    tcase_add_test(threads, excludes);
    tcase_add_test(threads, wakes);
    return run_suite(suite);
}
