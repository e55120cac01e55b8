/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_clock.h - a thread's own monotonic clock, in place of the system's, for the library too: it only goes on
 * where that thread looks at it, so that a machine which keeps it from running takes no time.
 */
#ifndef CHECK_OWN_CLOCK_H
#define CHECK_OWN_CLOCK_H

#include <stdbool.h>

extern _Thread_local bool own_clock;     /* this thread has it */
extern _Thread_local long long own_leap; /* ns, by which this thread's next look is later, once */

#endif
