/* SPDX-License-Identifier: BSD-2-Clause */
/* spin.c - polling a queue's completions for a while, without system calls if the device needs none. See spin.h. */
#include <sched.h>
#include "core/base/clock.h"
#include "core/base/settings.h"
#include "queue.h"
#include "spin.h"
#include "wait.h"

/* polls between two reads of the clock and two checks of is_over(), which takes a lock */
#define POLLS_PER_CHECK 4
/* before the first sched_yield(): a peer that is running answers within this time */
#define FIRST_NS 2000
#define SKIP_SHIFT_MAX 6 /* at most 63 busy polls are skipped */
#define CONTENDED_NS                                                                                           \
    UINT64_C(200000)              /* a yield that takes this long: another thread uses the CPU for a whole     \
                                   * time slice, and a thread that is woken from sleep gets it sooner */
#define CONTENDED_TIMES 64        /* then all queues skip busy polling for 64 times that long */
#define TURN_NS UINT64_C(1000000) /* interval at which CM events and timers are handled */

_Static_assert(SPIN_US_MAX == EXS_WAIT_US_MAX, "a queue's mode says all that the environment can say");

/* Busy polling is skipped until this time, ns, CLOCK_MONOTONIC. The machine is contended, not one queue, so all
 * queues share it. Relaxed: advisory only, so it pairs with nothing. */
static _Atomic uint64_t contended;

void xs_spin_init(struct spin *spin)
{
    atomic_init(&spin->ns, (uint64_t)settings()->spin_us * 1000);
}

void xs_spin_set(struct spin *spin, const exs_qattr_t *values)
{
    uint64_t ns = values->exs_wait == EXS_WAIT_NOTIFY     ? 0
                  : values->exs_wait == EXS_WAIT_ADAPTIVE ? (uint64_t)values->exs_wait_us * 1000
                                                          : NEVER_NS;

    atomic_store_explicit(&spin->empty_spins, 0, memory_order_relaxed);
    atomic_store_explicit(&spin->to_skip, 0, memory_order_relaxed);
    atomic_store_explicit(&contended, 0, memory_order_relaxed);
    atomic_store_explicit(&spin->ns, ns, memory_order_relaxed);
}

static uint64_t ns_of(struct queue *queue)
{
    return atomic_load_explicit(&queue->spin.ns, memory_order_relaxed);
}

void xs_spin_tell(struct spin *spin, exs_qattr_t *values)
{
    uint64_t ns = atomic_load_explicit(&spin->ns, memory_order_relaxed);

    values->exs_wait = ns == 0 ? EXS_WAIT_NOTIFY : ns == NEVER_NS ? EXS_WAIT_BUSY_POLL : EXS_WAIT_ADAPTIVE;
    values->exs_wait_us = ns == NEVER_NS ? 0 : (int)(ns / 1000);
}

/* Skip this busy poll, because earlier ones found nothing? Decrements the number of polls to skip. */
static bool skips_spin(struct spin *spin)
{
    unsigned to_skip = atomic_load_explicit(&spin->to_skip, memory_order_relaxed);

    if (to_skip > 0)
        atomic_store_explicit(&spin->to_skip, to_skip - 1, memory_order_relaxed);
    return to_skip > 0;
}

static void learn_result(struct spin *spin, bool is_empty)
{
    unsigned empty_spins = atomic_load_explicit(&spin->empty_spins, memory_order_relaxed);

    if (!is_empty && empty_spins == 0)
        return;
    if (is_empty)
        empty_spins = empty_spins < SKIP_SHIFT_MAX ? empty_spins + 1 : SKIP_SHIFT_MAX;
    else
        empty_spins = 0;
    atomic_store_explicit(&spin->empty_spins, empty_spins, memory_order_relaxed);
    atomic_store_explicit(&spin->to_skip, (1u << empty_spins) - 1, memory_order_relaxed);
}

static bool has_attachments(struct queue *queue)
{
    return atomic_load_explicit(&queue->attachment_count, memory_order_relaxed) > 0;
}

/* The time to poll after the last activity: `ns`, or 0 if the thread should sleep at once. */
static uint64_t spin_time(struct queue *queue, uint64_t ns, uint64_t now)
{
    if (ns_of(queue) == NEVER_NS)
        return ns;
    if (now < atomic_load_explicit(&contended, memory_order_relaxed) || skips_spin(&queue->spin))
        return 0;
    return ns;
}

/* Yield the CPU: the peer may be waiting for this very CPU. `before`: now, ns. Returns the time after the
 * yield, ns. */
static uint64_t yield_cpu(uint64_t before)
{
    sched_yield();
    uint64_t now = now_ns(), took = now - before;

    if (took >= CONTENDED_NS)
        atomic_store_explicit(&contended, now + CONTENDED_TIMES * took, memory_order_relaxed);
    return now;
}

/* A period of busy polling: what ends it, and when. */
struct search {
    uint64_t ns;     /* maximum time since the last activity */
    uint64_t active; /* time of the last activity, ns; in and out */
    uint64_t limit;  /* absolute maximum, ns */
    bool (*is_over)(void *);
    void *argument;
    bool begins;     /* the application was active until now, so the time starts now */
    bool is_budget;  /* the application gave the time in the call: no poll is skipped */
    bool for_events; /* any event that a poll finds ends it, */
    bool has_lock;   /* and events.lock is then held; out */
};

/* Poll a few times. True: completions or packets arrived. */
static bool poll_briefly(struct queue *queue, struct search *search, bool *over)
{
    bool any = false;

    for (int i = 0; i < POLLS_PER_CHECK && !*over; i++) {
        bool came;

        if (search->for_events)
            search->has_lock = xs_queue_look_for_events(queue, &came);
        else
            came = xs_queue_look(queue);
        any = any || came;
        *over = search->has_lock || ((came || i == POLLS_PER_CHECK - 1) && search->is_over(search->argument));
    }
    return any;
}

/* The sources of attached queues are signaled through the epoll descriptor only, which busy polling does not
 * check. Therefore poll no longer than the busy-polling time. */
static void limit_for_attachments(struct queue *queue, struct search *search, uint64_t now)
{
    uint64_t limit = ns_after(now, search->ns);

    if (search->for_events && has_attachments(queue) && limit < search->limit)
        search->limit = limit;
}

static enum spun spin_queue(struct queue *queue, struct search *search)
{
    uint64_t now = now_ns(), ns = ns_of(queue), first = now + FIRST_NS, turn = now + TURN_NS;

    if (search->begins)
        search->active = now;
    bool late = now >= ns_after(search->active, search->ns), over = false;
    uint64_t time = late ? 0 : search->is_budget ? search->ns : spin_time(queue, search->ns, now);

    limit_for_attachments(queue, search, now);
    while (!over && now < ns_after(search->active, time) && now < search->limit && ns_of(queue) == ns) {
        bool came = poll_briefly(queue, search, &over);

        if (over)
            break;
        now = now_ns();
        if (now >= first)
            now = yield_cpu(now);
        if (came)
            search->active = now;
        if (now < turn)
            continue;
        xs_run(queue);
        turn = now + TURN_NS;
        over = search->is_over(search->argument);
        limit_for_attachments(queue, search, now);
    }
    bool is_empty = !over && (now < search->limit || time == 0);

    if (over)
        search->active = now; /* as of the last read of the clock */
    if (time > 0 && time != NEVER_NS && !search->is_budget)
        learn_result(&queue->spin, is_empty);
    return over ? SPUN_FOUND : is_empty ? SPUN_EMPTY : SPUN_LONG_ENOUGH;
}

bool xs_spin(struct queue *home, bool (*is_over)(void *), void *argument)
{
    struct search search = {.ns = ns_of(home), .limit = NEVER_NS, .is_over = is_over, .argument = argument};

    if (search.ns == 0)
        return false;
    search.active = now_ns();
    if (spin_queue(home, &search) != SPUN_FOUND)
        return false;
    /* Consume the wake-ups for completions that were processed here, so that a thread that waits on the
     * descriptor is not woken for them. */
    if (home->handle != NULL)
        xs_run(home);
    else
        xs_prepare_sleep_for_waiters(home);
    return true;
}

static bool has_events(void *argument)
{
    struct queue *queue = argument;

    mutex_lock(&queue->events.lock);
    bool has = !STAILQ_EMPTY(&queue->events.list);

    mutex_unlock(&queue->events.lock);
    return has;
}

/* Attached queues are checked in a pass, not by busy polling, so a queue that has them returns to the caller
 * for each pass. */
static bool has_events_or_attachments(void *queue)
{
    return has_attachments(queue) || has_events(queue);
}

static bool spin_for_events(struct queue *queue, struct search *search)
{
    search->active = now_ns();
    atomic_fetch_add(&queue->events.dequeuers, 1);
    spin_queue(queue, search);
    if (!search->has_lock)
        mutex_lock(&queue->events.lock);
    atomic_fetch_sub(&queue->events.dequeuers, 1);
    bool has =
        !STAILQ_EMPTY(&queue->events.list); /* events that arrived until now did not signal the descriptor */

    mutex_unlock(&queue->events.lock);
    return has;
}

bool xs_spin_for_events(struct queue *queue, uint64_t limit)
{
    struct search search = {
        .ns = ns_of(queue), .limit = limit, .is_over = has_events, .argument = queue, .for_events = true};

    if (search.ns == 0)
        return false;
    if (search.ns == NEVER_NS) {
        search.is_over = has_events_or_attachments;
        if (has_attachments(queue)) {
            yield_cpu(now_ns());
            return true;
        }
    }
    return spin_for_events(queue, &search);
}

bool xs_spin_for_budget(struct queue *queue, uint64_t ns)
{
    struct search search = {.ns = ns,
                            .limit = ns_after(now_ns(), ns),
                            .is_over = has_events,
                            .argument = queue,
                            .for_events = true,
                            .is_budget = true};

    return spin_for_events(queue, &search);
}

/* ---- Between the iterations of a loop ------------------------------------------------------------------- */

/* A loop has other watchers, too, so it polls for a limited time even in mode EXS_WAIT_BUSY_POLL. */
static uint64_t loop_ns_of(struct queue *queue)
{
    uint64_t ns = ns_of(queue);

    return ns == NEVER_NS ? (uint64_t)settings()->spin_us * 1000 : ns;
}

bool xs_spin_turn(struct queue *queue, bool active)
{
    uint64_t ns = loop_ns_of(queue);

    if (ns == 0)
        return false;
    uint64_t now = now_ns();

    atomic_store_explicit(&queue->spin.turn_ends, now + ns, memory_order_relaxed);
    if (active)
        atomic_store_explicit(&queue->spin.active, now, memory_order_relaxed);
    return true;
}

enum spun xs_spin_in_turn(struct queue *queue, bool *has_lock)
{
    struct search search = {.ns = loop_ns_of(queue),
                            .active = atomic_load_explicit(&queue->spin.active, memory_order_relaxed),
                            .limit = atomic_load_explicit(&queue->spin.turn_ends, memory_order_relaxed),
                            .is_over = has_events,
                            .argument = queue,
                            .begins = atomic_load_explicit(&queue->busy_polls, memory_order_relaxed),
                            .for_events = true};

    if (search.ns == 0)
        return SPUN_EMPTY;
    enum spun spun = spin_queue(queue, &search);

    atomic_store_explicit(&queue->spin.active, search.active, memory_order_relaxed);
    *has_lock = search.has_lock;
    return spun;
}

/* ---- Without busy polling ------------------------------------------------------------------------------- */

bool xs_spin_is_off(struct queue *queue)
{
    return ns_of(queue) == 0;
}

bool xs_single_poll_pays(struct queue *queue)
{
    return !skips_spin(&queue->spin);
}

void xs_single_poll_learn(struct queue *queue, bool is_empty)
{
    learn_result(&queue->spin, is_empty);
}
