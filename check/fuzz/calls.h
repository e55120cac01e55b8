/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls.h - calls of the system and the C library that fail when a harness says so: those that it is linked for
 * with --wrap, and that it names by MAY_FAIL.
 */
#ifndef CHECK_FUZZ_CALLS_H
#define CHECK_FUZZ_CALLS_H

#include <stdbool.h>

/* The nth of them from now on, of this thread's, with this errno; 0: none. */
void calls_fail(unsigned nth, int error);
/* Is it this one's turn? Then errno is set. */
bool calls_fails(void);

/* How many descriptors this process has, give or take always the same. */
unsigned calls_descriptors(void);
/* The same, when there are no more than `before`, for which it waits a while: a thread closes what strangers
 * left. */
unsigned calls_descriptors_left(unsigned before);

#define MAY_FAIL(type, name, failure, parameters, arguments)                                                   \
    type __real_##name parameters;                                                                             \
    type __wrap_##name parameters;                                                                             \
    type __wrap_##name parameters                                                                              \
    {                                                                                                          \
        return calls_fails() ? (failure) : __real_##name arguments;                                            \
    }

#endif
