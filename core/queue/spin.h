/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h - adaptive busy polling.
 *
 * Before a thread blocks it may poll the queue for a while (spin). EXS_SPIN, exs_qmodify() and the results of earlier
 * spins decide whether and for how long. If a wake-up costs tens of microseconds, a spin delivers the next message
 * sooner and uses less CPU time; but only if another CPU produces the completion, and soon. After each spin that finds
 * nothing, the number of waits that skip the spin doubles, up to 63 (exponential backoff); a spin that finds something
 * resets it. If sched_yield() takes so long that another thread must have used the CPU, all queues skip busy polling
 * for many times as long.
 */
#ifndef XS_SPIN_H
#define XS_SPIN_H

#include <stdint.h>
#include <exs.h>

/* The state of one queue. Threads that wait for the same queue may overwrite each other's values; the consequence is
 * one spin more or less. */
struct spin {
    /* All members are advisory and accessed relaxed; each pairs with nothing. */
    /* How long to poll after the last activity, ns; 0: not at all; NEVER_NS: without limit. */
    _Atomic uint64_t ns;
    _Atomic unsigned empty_spins; /* spins, or single polls, in a row that found nothing, up to a maximum */
    _Atomic unsigned to_skip;     /* how many of the next spins are skipped */
    /* For event loops (look.c). Times are ns, clock.h. */
    _Atomic uint64_t active; /* when the application last had events; pairs with nothing */
    /* When the loop's iteration ends, so that the loop calls its other watchers; if busy polling is disabled, one of
     * the values in look.c that are not times. Pairs with nothing. */
    _Atomic uint64_t turn_ends;
};

/* How a spin ended.
 *   SPUN_FOUND        is_over() returned true, or events were found
 *   SPUN_EMPTY        nothing arrived for the polling time, or the spin was skipped
 *   SPUN_LONG_ENOUGH  the absolute limit was reached */
enum spun { SPUN_FOUND, SPUN_EMPTY, SPUN_LONG_ENOUGH };

/* Initializes the state; the polling time is that of EXS_SPIN. */
void xs_spin_init(struct spin *spin);
/* Applies values of exs_qmodify(), which were checked, and resets the backoff. May be called by any thread. */
void xs_spin_set(struct spin *spin, const exs_qattr_t *values);
/* Sets exs_wait and exs_wait_us in *values. May be called by any thread. */
void xs_spin_tell(struct spin *spin, exs_qattr_t *values);

#endif
