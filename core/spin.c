/* SPDX-License-Identifier: BSD-2-Clause */
/* spin.c - looking at a queue's completions for a while, without a system call where the device needs none. See
 * spin.h. */
#include <sched.h>
#include <unistd.h>
#include "clock.h"
#include "library.h"
#include "queue.h"
#include "settings.h"
#include "spin.h"

#define LOOKS 2          /* between two looks at the clock */
#define LEFT_OUT_SHIFT 6 /* 63 spins are left out at most */
#define CROWDED_NS                                                                                             \
    UINT64_C(200000)                 /* others that have the processor so long keep it for a slice of time; a  \
                                      * sleeper who is woken need not wait for that */
#define CROWDED_TIMES 64             /* so nobody spins for so many times as long */
#define TURN_NS UINT64_C(1000000)    /* then connections and timers get their turn */
#define CHECK_NS UINT64_C(100000000) /* between two looks at the processors */

_Static_assert(SPIN_US_MAX == EXS_WAIT_US_MAX, "a queue's mode says all that the environment can say");

void xs_spin_init(struct spin *spin)
{
    atomic_init(&spin->ns, (uint64_t)settings()->spin_us * 1000);
}

void xs_spin_set(struct spin *spin, const exs_qattr_t *values)
{
    uint64_t ns = values->exs_wait == EXS_WAIT_NOTIFY     ? 0
                  : values->exs_wait == EXS_WAIT_ADAPTIVE ? (uint64_t)values->exs_wait_us * 1000
                                                          : NEVER_NS;

    atomic_store_explicit(&spin->vain, 0, memory_order_relaxed);
    atomic_store_explicit(&spin->leaves, 0, memory_order_relaxed);
    atomic_store_explicit(&spin->crowded, 0, memory_order_relaxed);
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

/* May the process run on one processor only? Whoever spins there keeps the peer from it. Of more than a
 * cpu_set_t holds there are several. */
static bool is_alone(struct spin *spin, uint64_t now)
{
    cpu_set_t set;

    if (now - atomic_load_explicit(&spin->checked, memory_order_relaxed) >= CHECK_NS) {
        bool alone = sched_getaffinity(getpid(), sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;

        atomic_store_explicit(&spin->alone, alone, memory_order_relaxed);
        atomic_store_explicit(&spin->checked, now, memory_order_relaxed);
    }
    return atomic_load_explicit(&spin->alone, memory_order_relaxed);
}

/* Is this one to be left out, after spins in vain, or that let others in? */
static bool leaves_out(struct spin *spin, uint64_t now)
{
    unsigned leaves = atomic_load_explicit(&spin->leaves, memory_order_relaxed);

    if (now < atomic_load_explicit(&spin->crowded, memory_order_relaxed))
        return true;
    if (leaves > 0)
        atomic_store_explicit(&spin->leaves, leaves - 1, memory_order_relaxed);
    return leaves > 0;
}

static void learn(struct spin *spin, bool in_vain)
{
    unsigned vain = atomic_load_explicit(&spin->vain, memory_order_relaxed);

    if (!in_vain && vain == 0)
        return;
    if (in_vain)
        vain = vain < LEFT_OUT_SHIFT ? vain + 1 : LEFT_OUT_SHIFT;
    else
        vain = 0;
    atomic_store_explicit(&spin->vain, vain, memory_order_relaxed);
    atomic_store_explicit(&spin->leaves, (1u << vain) - 1, memory_order_relaxed);
}

static bool has_guests(struct queue *queue)
{
    return atomic_load_explicit(&queue->guest_count, memory_order_relaxed) > 0;
}

/* For so many of the queue's ns after the last activity; 0: sleep. Guests are told of by a descriptor. */
static uint64_t spin_time(struct queue *queue, uint64_t ns, uint64_t now)
{
    if (ns == NEVER_NS)
        return ns;
    if (has_guests(queue) || is_alone(&queue->spin, now) || leaves_out(&queue->spin, now))
        return 0;
    return ns;
}

/* A few looks; how many completions. */
static int look(struct queue *queue, bool (*is_over)(void *), void *argument, bool *over)
{
    int taken = 0;

    for (int i = 0; i < LOOKS && !*over; i++) {
        taken += xs_queue_look(queue);
        *over = is_over(argument);
    }
    return taken;
}

/* To a peer that waits for this very processor. Returns when it is back, ns; it may have been somebody else who
 * kept that. */
static uint64_t make_way(struct spin *spin)
{
    uint64_t before = now_ns();

    sched_yield();
    uint64_t now = now_ns(), took = now - before;

    if (took >= CROWDED_NS)
        atomic_store_explicit(&spin->crowded, now + CROWDED_TIMES * took, memory_order_relaxed);
    return now;
}

/* True: it is over. Until then, or until the program wants it otherwise. */
static bool spin_until(struct queue *queue, uint64_t limit, bool (*is_over)(void *), void *argument)
{
    uint64_t now = now_ns(), ns = ns_of(queue), time = spin_time(queue, ns, now);
    uint64_t end = ns_after(now, time), turn = now + TURN_NS;
    bool over = false;

    while (!over && now < end && now < limit) {
        bool active = look(queue, is_over, argument, &over) > 0;

        if (over)
            break;
        now = make_way(&queue->spin);
        if (active)
            end = ns_after(now, time);
        if (now < turn)
            continue;
        xs_run(queue);
        turn = now + TURN_NS;
        over = is_over(argument);
        if (ns_of(queue) != ns)
            return over;
    }
    if (time > 0 && time != NEVER_NS)
        learn(&queue->spin, !over && now >= end);
    return over;
}

bool xs_spin(struct queue *home, bool (*is_over)(void *), void *argument)
{
    if (ns_of(home) == 0 || !spin_until(home, NEVER_NS, is_over, argument))
        return false;
    if (home->handle != NULL) /* whoever watches its descriptor is not to be woken for what has been taken */
        xs_run(home);
    return true;
}

static bool has_events(void *argument)
{
    struct queue *queue = argument;

    pthread_mutex_lock(&queue->events_lock);
    bool has = !STAILQ_EMPTY(&queue->events);

    pthread_mutex_unlock(&queue->events_lock);
    return has;
}

static bool has_events_or_guests(void *queue)
{
    return has_guests(queue) || has_events(queue);
}

bool xs_spin_for_events(struct queue *queue, uint64_t limit)
{
    uint64_t ns = ns_of(queue);

    if (ns == 0)
        return false;
    if (ns == NEVER_NS && has_guests(queue)) { /* a turn looks at these, too */
        make_way(&queue->spin);
        return true;
    }
    atomic_fetch_add(&queue->dequeuers, 1);
    spin_until(queue, limit, has_events_or_guests, queue);
    atomic_fetch_sub(&queue->dequeuers, 1);
    return has_events(queue); /* what came until now has not raised the descriptor */
}

void xs_spin_before_loop(struct queue *queue)
{
    uint64_t ns = ns_of(queue);

    if (ns == 0)
        return;
    if (ns == NEVER_NS) /* the loop has others to look for */
        ns = (uint64_t)settings()->spin_us * 1000;
    xs_spin_for_events(queue, now_ns() + ns);
    pthread_mutex_lock(&queue->events_lock);
    queue->is_kept_readable = !STAILQ_EMPTY(&queue->events);
    doorbell_set(&queue->raise, queue->is_kept_readable || queue->has_stuck);
    pthread_mutex_unlock(&queue->events_lock);
}
