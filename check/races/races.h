/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * races.h - the library's protocols between threads, in every order that there can be.
 *
 * A scenario is some threads that run the library's own code. The compiler marks each access to memory in it,
 * as for the thread sanitizer (-fsanitize=thread), but the marks lead to access.c, and the threads are
 * coroutines, of which explore.c runs one at a time: up to its next atomic access, lock or wait. It runs the
 * scenario again and again, until each order of these has been seen, and each value that a load may see by
 * C11's rules, which is not always the last one. Orders that differ only in accesses to different memory count
 * as one.
 *
 * A scenario fails where something that is expected does not hold, where all that are left wait for ever, where
 * nobody comes to an end, and where two threads access the same bytes without an order (a data race).
 */
#ifndef CHECK_RACES_H
#define CHECK_RACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define THREADS 4 /* and of them the first is the one that prepares and looks at the end */

struct race {
    const char *name, *what;
    void (*prepare)(void);
    void (*threads[THREADS - 1])(void);
    void (*finish)(void); /* NULL: nothing is to be looked at */
    bool (*rests)(void);  /* may those who are left wait for ever? NULL: no */
};

struct tally {
    unsigned long orders, cut, steps; /* cut: seen to be a repetition, in the middle */
};

/* True: no order fails. Else what it was, and its last steps, have been printed. */
bool explore(const struct race *race, struct tally *tally);

/* ---- For scenarios ---- */

#define EXPECT(condition)                                                                                      \
    do {                                                                                                       \
        if (!(condition))                                                                                      \
            race_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition);                                    \
    } while (0)
_Noreturn void race_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

int race_self(void); /* 0: prepares, or looks at the end */

/* Locks, of the library's pthread_mutex_t. */
void race_lock(void *lock);
bool race_trylock(void *lock);
void race_unlock(void *lock);
/* An operation of the kernel's, on this object: ordered with all others on it. */
void race_kernel(const void *object);
/* Sleep until it is ready, which only operations on the object change. */
void race_sleep(const void *object, bool (*ready)(void *argument), void *argument);
/* Sleep until it is ready, or time has passed: a few times while others could go on, and as often as need be
 * when nobody can. */
void race_sleep_a_while(const void *object);
/* Somebody else has to go on first. */
void race_yield(void);

/* ---- Between access.c and explore.c ---- */

/* The caller is about to do this, and goes on when it is its turn. */
void explore_step(const void *where, bool writes, const char *word);
void explore_sleep(const void *where, bool (*ready)(void *argument), void *argument);
/* One of so many, each in turn. */
unsigned explore_choose(unsigned count);
/* After a yield only the last value is seen. */
bool explore_is_late(void);
void access_reset(void);
void access_begin(int thread);        /* what the first one did comes before */
void access_join(void);               /* to the first one: all has ended */
void access_sync(const void *object); /* acquires and releases */
bool access_is_own_stack(const void *at);

#endif
