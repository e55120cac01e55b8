/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.c - an event, and threads that wait for it: events.c, run.c and look.c with doorbell.c and the mutex. One
 * thread completes operations, others sleep on the queue's descriptor. While an event is in the queue and no thread
 * polls it, the descriptor must be readable.
 */
#include <string.h>
#include <unistd.h>
#include "core/base/fds.h"
#include "core/debug/misuse.h"
#include "core/queue/nic.h"
#include "core/sock/poll.h"
#include "core/queue/queue.h"
#include "core/sock/sock.h"
#include "core/debug/trace.h"
#include "kernel.h"
#include "scenarios.h"

#define syscall(number, word, operation, ...)                                                                  \
    race_syscall((uint32_t *)(uintptr_t)(word), operation, __VA_ARGS__, 0)

static long race_syscall(uint32_t *word, int operation, uint32_t value, ...)
{
    return futex(word, operation, value);
}

#ifdef __clang__ /* in the library this file is the only one of its translation unit */
#pragma clang diagnostic ignored "-Wstatic-in-inline"
#endif
#include "core/base/mutex.c"
#include "core/base/doorbell.c"
#include "core/queue/events.c"
#include "core/queue/run.c"
#include "core/queue/look.c"
#include "core/device/registry.h"
#include "core/queue/wait.h"

static struct queue queue;
static struct kernel_wakefd descriptor; /* the queue's wake-up eventfd */
static struct op *ops[2];
static _Atomic int taken; /* number of events */

/* ---- Functions of other modules -------------------------------------------------------------- */

bool fds_flag(int fd, bool up)
{
    EXPECT(fd == 0);
    if (up)
        wakefd_ring(&descriptor);
    else
        wakefd_hear(&descriptor);
    return true;
}

/* The real ones, and the reference counts, are in handle.c. */
struct queue *xs_queue_get(exs_qhandle_t handle)
{
    (void)handle;
    return &queue;
}

void xs_queue_put(struct queue *same)
{
    EXPECT(same == &queue);
}

void xs_queue_ref(struct queue *same)
{
    EXPECT(same == &queue);
}

void xs_queue_unref(struct queue *same)
{
    EXPECT(same == &queue);
}

int xs_devices(void)
{
    return 0;
}

/* Busy polling is allowed if there is a device, which has the completion of the first operation. */
bool xs_spin_turn(struct queue *same, bool active)
{
    if (active)
        atomic_store_explicit(&same->spin.turn_ends, NEVER_NS, memory_order_relaxed);
    return active;
}

enum spun xs_spin_in_turn(struct queue *same, bool *has_lock)
{
    bool came;

    *has_lock = xs_queue_look_for_events(same, &came);
    return *has_lock ? SPUN_FOUND : SPUN_EMPTY;
}

static bool is_off; /* busy polling is off, and a single poll is allowed */

bool xs_spin_is_off(struct queue *same)
{
    EXPECT(same == &queue);
    return is_off;
}

bool xs_single_poll_pays(struct queue *same)
{
    EXPECT(same == &queue);
    return true;
}

void xs_single_poll_learn(struct queue *same, bool is_empty)
{
    EXPECT(same == &queue && (is_empty || atomic_load(&taken) < 2));
}

static struct nic nic;
static bool has_completion;

int xs_nic_look(struct nic *same)
{
    bool had = has_completion;

    EXPECT(same == &nic);
    has_completion = false;
    if (had)
        xs_op_complete(ops[0], 0);
    return had;
}

void xs_nic_run(struct nic *same, struct turn *turn)
{
    turn->harvested += xs_nic_look(same);
}

bool xs_nic_has_activity(struct nic *same)
{
    EXPECT(same == &nic);
    return false;
}

bool xs_nic_waits(const struct nic *same)
{
    EXPECT(same == &nic);
    return false;
}

uint64_t xs_nic_flush(const struct nic *same)
{
    EXPECT(same == &nic);
    return NEVER_NS;
}

/* ---- The threads ----------------------------------------------------------------------------- */

static void prepare(void)
{
    xs_ops_free(&queue);
    futex_clear();
    wakefd_clear(&descriptor);
    memset(&queue, 0, sizeof queue);
    mutex_init(&queue.lock);
    mutex_init(&queue.events.lock);
    STAILQ_INIT(&queue.events.list);
    STAILQ_INIT(&queue.pool.free_ops);
    STAILQ_INIT(&queue.own.free_ops);
    STAILQ_INIT(&queue.own.done);
    STAILQ_INIT(&queue.pool.chunks);
    TAILQ_INIT(&queue.time.socks);
    queue.handle = (exs_qhandle_t)&queue;
    queue.fd = 0;
    queue.events.raise = (struct doorbell)DOORBELL_INIT(DOORBELL_PLAIN);
    queue.time.timer = (struct doorbell)DOORBELL_INIT(DOORBELL_TIMED);
    queue.events.raise.fd = 0;
    atomic_store(&taken, 0);
    is_off = false;
    EXPECT(xs_ops_reach(&queue, 2));
}

/* One operation of a socket that the queue owns, and one of a socket that another queue owns. */
static void prepare_home(void)
{
    prepare();
    mutex_lock(&queue.lock);
    ops[0] = xs_op_new_at_home(&queue, EXS_EVT_SEND, 1, NULL, NULL);
    ops[1] = xs_op_new_at_home(&queue, EXS_EVT_SEND, 2, NULL, NULL);
    mutex_unlock(&queue.lock);
}

static void prepare_guest(void)
{
    prepare();
    ops[0] = xs_op_new(&queue, NULL, EXS_EVT_SEND, 1, NULL, NULL);
    ops[1] = xs_op_new(&queue, NULL, EXS_EVT_SEND, 2, NULL, NULL);
}

static void prepare_glances(void)
{
    prepare_guest();
    is_off = true;
}

/* One operation of each kind; the device has the completion of the first. */
static void prepare_device(void)
{
    prepare();
    mutex_lock(&queue.lock);
    ops[0] = xs_op_new_at_home(&queue, EXS_EVT_SEND, 1, NULL, NULL);
    mutex_unlock(&queue.lock);
    ops[1] = xs_op_new(&queue, NULL, EXS_EVT_SEND, 2, NULL, NULL);
    LIST_INSERT_HEAD(&queue.channels.nics, &nic, link);
    has_completion = true;
}

static void complete_home(void)
{
    mutex_lock(&queue.lock);
    xs_op_complete(ops[0], 0);
    xs_queue_unlock(&queue);
}

static void complete_guest(void)
{
    xs_op_complete(ops[0], 0);
}

static void complete_both(void)
{
    xs_op_complete(ops[0], 0);
    xs_op_complete(ops[1], 0);
}

static int look(void)
{
    exs_event_t event;
    int count = xs_queue_dequeue(&queue, &event, 1, BY_LEVEL);

    atomic_fetch_add(&taken, count);
    return count;
}

/* Sleeps on the descriptor and polls the queue once each time, until it has got an event. */
static void sleep_and_look(void)
{
    do
        wakefd_sleep(&descriptor);
    while (look() == 0);
}

static void look_and_sleep(void)
{
    while (look() == 0)
        wakefd_sleep(&descriptor);
}

static void look_once(void)
{
    look();
}

/* Like an event loop's adapter: dequeues until there are no more events, and then the loop may sleep. */
static void turn_of_loop(void)
{
    exs_event_t event;

    while (atomic_load(&taken) < 2) {
        wakefd_sleep(&descriptor);
        while (xs_dequeue_in_loop(queue.handle, &event, 1) > 0)
            atomic_fetch_add(&taken, 1);
        xs_prepare_sleep_in_loop(&queue);
    }
}

static void complete_second(void)
{
    xs_op_complete(ops[1], 0);
}

/* A loop that calls other watchers after each batch: its descriptor stays readable while busy polling continues. */
static void look_on_in_loop(void)
{
    exs_event_t event;

    for (;;) {
        atomic_fetch_add(&taken, xs_dequeue_in_loop(queue.handle, &event, 1));
        if (atomic_load(&taken) == 2)
            return;
        wakefd_sleep(&descriptor);
    }
}

static bool one_was_taken(void)
{
    return atomic_load(&taken) == 1;
}

static void took_one(void)
{
    EXPECT(atomic_load(&taken) == 1 && STAILQ_EMPTY(&queue.events.list));
}

static void took_two(void)
{
    EXPECT(atomic_load(&taken) == 2 && STAILQ_EMPTY(&queue.events.list));
}

SCENARIOS({"queue-home",
           "an event of the queue's own",
           prepare_home,
           {complete_home, sleep_and_look},
           took_one,
           NULL},
          {"queue-look",
           "an event, and a look before it",
           prepare_guest,
           {complete_guest, look_and_sleep},
           took_one,
           NULL},
          {"queue-two",
           "two who want one event",
           prepare_guest,
           {complete_guest, sleep_and_look, look_once},
           took_one,
           one_was_taken},
          {"queue-more", "two events", prepare_guest, {complete_both, turn_of_loop}, took_two, NULL},
          {"queue-glance",
           "two events, one at a glance",
           prepare_glances,
           {complete_both, turn_of_loop},
           took_two,
           NULL},
          {"queue-loop",
           "two events, one at a look",
           prepare_device,
           {complete_second, look_on_in_loop},
           took_two,
           NULL});
