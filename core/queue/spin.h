/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h - adaptive busy polling.
 *
 * Before a thread blocks it may poll the queue for a while, as EXS_SPIN, exs_qmodify() and the results of earlier
 * polls decide. If a wake-up costs tens of microseconds, this delivers the next message sooner and uses less CPU
 * time; but only if another CPU produces the completion, and soon. After each spin (a period of busy polling) that
 * finds nothing, the number of waits that skip the spin doubles, up to 63 (exponential backoff); a spin that finds
 * something resets it. If sched_yield() takes so long that another thread must have used the CPU, all queues skip
 * busy polling for many times as long.
 */
#ifndef XS_SPIN_H
#define XS_SPIN_H

#include <stdint.h>
#include <exs.h>

/* The state of one queue. Threads that wait for the same queue may overwrite each other's values; the consequence is
 * one spin more or less. */
struct spin {
    /* All members are advisory and accessed relaxed; each pairs with nothing. */
    /* how long to poll after the last activity; 0: not at all; NEVER_NS: without limit */
    _Atomic uint64_t ns;
    _Atomic unsigned empty_spins; /* spins in a row that found nothing, or single polls, up to a maximum */
    _Atomic unsigned to_skip;     /* how many of the next spins are skipped */
    /* For event loops (look.c); ns, clock.h. */
    _Atomic uint64_t active; /* when the application last had events; pairs with nothing */
    /* When the loop's iteration ends, so that its other watchers are called; look.c has values that are no time. Pairs
     * with nothing. */
    _Atomic uint64_t turn_ends;
};

/* How a period of busy polling ended: is_over() returned true or events were found; nothing arrived for the polling
 * time, or the spin was skipped; the absolute limit was reached. */
enum spun { SPUN_FOUND, SPUN_EMPTY, SPUN_LONG_ENOUGH };

/* Initializes it from the environment (EXS_SPIN). */
void xs_spin_init(struct spin *spin);
/* Applies values of exs_qmodify(), which were checked, and resets the backoff. May be called by any thread. */
void xs_spin_set(struct spin *spin, const exs_qattr_t *values);
/* Sets exs_wait and exs_wait_us in *values. May be called by any thread. */
void xs_spin_tell(struct spin *spin, exs_qattr_t *values);

#endif
