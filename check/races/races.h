/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * races.h - tests the library's protocols between threads in every order of their steps.
 *
 * A scenario is a few threads that run the library's own code. The compiler inserts a call at each access to memory, as
 * for the thread sanitizer (-fsanitize=thread), but the calls lead to access.c. The threads are coroutines. explore.c
 * runs one at a time, up to its next atomic access, lock or wait, and runs the scenario again until it has tried each
 * order of these steps, and each value that a load may return by C11's rules, which is not always the last one. Orders
 * that differ only in accesses to different memory count as one.
 *
 * A scenario fails if an expectation does not hold, if all remaining threads wait for ever, if it does not end, or if
 * two threads access the same bytes without an order (a data race).
 */
#ifndef CHECK_RACES_H
#define CHECK_RACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define THREADS 4 /* the first one prepares the scenario and checks its result */

struct race {
    const char *name, *what;
    void (*prepare)(void);
    void (*threads[THREADS - 1])(void);
    void (*finish)(void); /* checks the result, or NULL */
    bool (*rests)(void);  /* returns whether threads may wait for ever at the end; NULL: no */
};

struct tally {
    unsigned long orders, cut, steps; /* cut: given up as a repetition */
};

/* Returns true if no order fails; otherwise the failure and its last steps have been printed. */
bool explore(const struct race *race, struct tally *tally);

/* ---- For scenarios ---- */

#define EXPECT(condition)                                                                                      \
    do {                                                                                                       \
        if (!(condition))                                                                                      \
            race_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition);                                    \
    } while (0)
_Noreturn void race_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

int race_self(void); /* 0: prepares, or checks the result */

/* The library's pthread_mutex_t locks. */
void race_lock(void *lock);
bool race_trylock(void *lock);
void race_unlock(void *lock);
/* An operation of the kernel on this object: ordered with all others on it. */
void race_kernel(const void *object);
/* Sleeps until ready() returns true, which only operations on the object can change. */
void race_sleep(const void *object, bool (*ready)(void *argument), void *argument);
/* Sleeps until the object is ready or a timeout expires: a few times while other threads could run, and as often as
 * needed if none can. */
void race_sleep_a_while(const void *object);
/* Another thread must run first. */
void race_yield(void);

/* ---- Between access.c and explore.c ---- */

/* Announces the caller's next step, and returns when the caller may run it. */
void explore_step(const void *where, bool writes, const char *word);
void explore_sleep(const void *where, bool (*ready)(void *argument), void *argument);
/* Returns each number below count, one in each order. */
unsigned explore_choose(unsigned count);
/* Returns true after a yield, when a load returns the last value only. */
bool explore_is_late(void);
void access_reset(void);
void access_begin(int thread);        /* the preparation happened before the thread's start */
void access_join(void);               /* all threads have ended before the result is checked */
void access_sync(const void *object); /* acquires and releases */
bool access_is_own_stack(const void *at);

#endif
