/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls.h - makes functions of the system and the C library fail when a harness says so: those that it names with
 * MAY_FAIL and links with --wrap.
 */
#ifndef CHECK_FUZZ_CALLS_H
#define CHECK_FUZZ_CALLS_H

#include <stdbool.h>

/* The nth call of this thread from now on fails with this errno; 0: none. */
void calls_fail(unsigned nth, int error);
/* Returns whether this call must fail; then errno is set. */
bool calls_fails(void);

/* Returns the number of this process's descriptors, plus a constant. */
unsigned calls_descriptors(void);
/* The same. If there are more than `before`, it waits a while, because a thread may still close some. */
unsigned calls_descriptors_left(unsigned before);

#define MAY_FAIL(type, name, failure, parameters, arguments)                                                   \
    type __real_##name parameters;                                                                             \
    type __wrap_##name parameters;                                                                             \
    type __wrap_##name parameters                                                                              \
    {                                                                                                          \
        return calls_fails() ? (failure) : __real_##name arguments;                                            \
    }

#endif
