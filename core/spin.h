/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h - whether it pays to look at a queue for a while before sleeping, as the environment, the program and
 * its past say.
 *
 * Where a wake-up costs tens of microseconds, whoever does not sleep has the next message sooner, and with less
 * processor time. It pays only where another processor can bring what is looked for, and only if that comes
 * soon: each spin in vain has twice as many left out after it, up to a limit, so that whoever waits for
 * something rare hardly spins at all. Who loses the processor to others while it looks leaves them out for many
 * times as long as that took, on every queue.
 */
#ifndef XS_SPIN_H
#define XS_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <exs.h>

/* Of one queue. Threads that wait on the same one may mix up what they write, which costs a spin more or less.
 */
struct spin {
    /* hints, relaxed; each pairs with nothing */
    _Atomic uint64_t ns;     /* after the last activity; 0: never; NEVER_NS: without end */
    _Atomic unsigned vain;   /* spins in a row, or glances, as far as they count */
    _Atomic unsigned leaves; /* so many are left out now */
    /* for a loop, ns, monotonic; hints as well */
    _Atomic uint64_t active;    /* when the program last had events; pairs with nothing */
    _Atomic uint64_t turn_ends; /* then others have theirs; pairs with nothing */
};

/* As the environment says. */
void xs_spin_init(struct spin *spin);
/* As the program says: the values have been checked. Any thread; what it learned so far is forgotten. */
void xs_spin_set(struct spin *spin, const exs_qattr_t *values);
/* Likewise: exs_wait and exs_wait_us. */
void xs_spin_tell(struct spin *spin, exs_qattr_t *values);

#endif
