/* SPDX-License-Identifier: BSD-2-Clause */
/* strike.c - when a fault strikes: a thread waits for the point's place and executes the fault there,
 * concurrently with the main thread's calls. See faults.h. */
#include "faults.h"

#include <sched.h>

bool strikes(const struct end *end)
{
    return !end->point->calm && (end->cell->fault->who & (end->victim ? VICTIM : SURVIVOR)) != 0;
}

/* Returns whether the fault strikes before the survivor connects. */
static bool is_at_once(const struct end *end)
{
    return end->cell->fault->connecting && end->cell->moment->setup;
}

static void *strike(void *arg)
{
    struct end *end = arg;
    const struct fault *fault = end->cell->fault;
    const struct point *point = end->point;

    if (!fault->whole && !is_at_once(end)) {
        while (atomic_load(&end->moved) < point->at && !atomic_load(&end->over))
            sched_yield();
        for (double until = seconds_now() + point->after_us * 1e-6; seconds_now() < until;)
            sched_yield();
    }
    fault->strike(end);
    return NULL;
}

void trigger_arm(struct end *end)
{
    const struct fault *fault = end->cell->fault;

    if (!strikes(end))
        return;
    wire_set(fault->lost, fault->twice, fault->late, fault->bent, end->point->seed + end->victim);
    if (!fault->strike)
        return;
    end->trigger = thread_start(strike, end);
    end->armed = true;
    while (is_at_once(end) && !atomic_load(&end->begun))
        sched_yield();
}

void trigger_wait(struct end *end)
{
    if (end->armed && !end->cell->fault->whole) {
        thread_join(end->trigger);
        end->armed = false;
    }
}

void trigger_end(struct end *end)
{
    atomic_store(&end->over, true);
    if (end->armed)
        thread_join(end->trigger);
    end->armed = false;
    wire_set(0, 0, 0, 0, 0);
    if (strikes(end) && end->cell->fault->heal)
        end->cell->fault->heal(end);
}
