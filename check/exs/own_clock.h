/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_clock.h - a monotonic clock for one thread, in place of the system's, for the library too. It advances only when
 * that thread reads it, so time in which the thread does not run does not count.
 */
#ifndef CHECK_OWN_CLOCK_H
#define CHECK_OWN_CLOCK_H

#include <stdbool.h>

extern _Thread_local bool own_clock;     /* this thread uses the clock */
extern _Thread_local long long own_leap; /* ns that the thread's next reading adds, once */

#endif
