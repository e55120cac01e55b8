/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for one operation: run the queue that the socket lives on until it is done.
 *
 * The thread sleeps in poll on what the queue waits for and a doorbell of its own, by which another
 * thread that harvested the event wakes it. Nothing is registered anywhere, so once the operation is started
 * there is nothing left that could fail.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include "core/clock.h"
#include "wait.h"

#define LOOK_NS UINT64_C(5000000) /* how long a thread without a bell sleeps */

/* What a thread that waits keeps until it ends. Its own, but for ringing, which others do. */
struct thread_bell {
    bool made;
    unsigned generation; /* what a forked child inherited is its parent's */
    struct doorbell bell;
};

static _Thread_local struct thread_bell own_bell;

/* The thread that delivers may not touch the wait any more once the one that waits could be gone with it; so
 * there is a state between. */
enum { WAITING, DELIVERING, DONE };

/* ---- The thread's bell ----------------------------------------------------------------------------- */

/* At a thread's end. The thread that returns from main ends with the process. */
static void close_bell(void *argument)
{
    struct thread_bell *bell = argument;

    if (bell->made && bell->generation == xs_generation())
        doorbell_close(&bell->bell);
    bell->made = false;
}

/* Have close_bell called at the end of this thread. An errno, 0 for none. */
static int close_at_end(struct thread_bell *bell)
{
    static _Atomic unsigned known; /* the key and 1; of two threads that make one, the first one's stays, and
                                    * its exchange pairs with who finds it */
    unsigned none = 0;

    if (atomic_load(&known) == 0) {
        pthread_key_t key;
        int error = pthread_key_create(&key, close_bell);

        if (error != 0)
            return error;
        if (!atomic_compare_exchange_strong(&known, &none, key + 1))
            pthread_key_delete(key);
    }
    return pthread_setspecific(atomic_load(&known) - 1, bell);
}

/* Where there is no descriptor for it, one that nobody can ring: then the thread looks now and then. */
static const struct doorbell *get_bell(void)
{
    struct thread_bell *bell = &own_bell;

    if (bell->made && bell->generation == xs_generation())
        return &bell->bell;
    bell->bell = (struct doorbell)DOORBELL_INIT(DOORBELL_PLAIN);
    bell->made = false;
    bell->generation = xs_generation();
    bell->made = close_at_end(bell) == 0 && doorbell_make(&bell->bell) == 0;
    return &bell->bell;
}

/* ---- Waiting for an operation ------------------------------------------------------------------------ */

static void wake(struct wait *wait)
{
    if (!pthread_equal(wait->owner, pthread_self()))
        doorbell_ring(wait->bell);
}

static void deliver(struct waiter *waiter, const exs_event_t *event)
{
    struct wait *wait = (struct wait *)waiter;

    wait->event = *event;
    atomic_store_explicit(&wait->state, DELIVERING, memory_order_release);
    wake(wait);
    atomic_store_explicit(&wait->state, DONE, memory_order_release);
}

void wait_begin(struct wait *wait)
{
    *wait = (struct wait){.waiter = {.deliver = deliver}, .owner = pthread_self()};
    wait->bell = get_bell();
}

static bool is_done(struct wait *wait)
{
    int state = atomic_load_explicit(&wait->state, memory_order_acquire);

    while (state == DELIVERING) { /* a few instructions of the other thread */
        sched_yield();
        state = atomic_load_explicit(&wait->state, memory_order_acquire);
    }
    return state == DONE;
}

static bool is_over(void *wait)
{
    return is_done(wait);
}

/* Until `deadline` as ppoll wants it; NULL: without end. */
static const struct timespec *time_left(uint64_t deadline, struct timespec *left)
{
    return deadline == NEVER_NS ? NULL : ns_limit(ns_left(deadline, now_ns()), left);
}

/* What has come already makes a descriptor readable. A poll that fails is a short one: the caller looks again,
 * since the operation is under way and has to be brought to its end. */
static bool sleep_on(struct wait *wait, struct queue *home, const sigset_t *mask)
{
    struct xs_sleeper sleeper = {.bell = wait->bell};
    struct timespec left;

    xs_sleep_begin(home, &sleeper);
    if (wait->bell->fd < 0 && sleeper.deadline > now_ns() + LOOK_NS)
        sleeper.deadline = now_ns() + LOOK_NS;
    int ready = ppoll(sleeper.fds, (nfds_t)sleeper.count, time_left(sleeper.deadline, &left), mask);
    bool interrupted = ready < 0 && errno == EINTR;

    xs_sleep_end(&sleeper);
    if (ready < 0)
        sched_yield();
    else if (sleeper.fds[0].revents != 0)
        doorbell_hear(wait->bell);
    return interrupted;
}

static const exs_event_t *event_of(struct wait *wait)
{
    xs_release_home(wait->waiter.home);
    if (wait->event.exs_evt_errno == 0)
        return &wait->event;
    errno = wait->event.exs_evt_errno;
    return NULL;
}

const exs_event_t *wait_end(struct wait *wait)
{
    struct queue *home = wait->waiter.home;

    while (!is_done(wait)) {
        if (xs_spin(home, is_over, wait))
            break;
        sleep_on(wait, home, NULL);
        xs_run(home);
    }
    return event_of(wait);
}

/* ---- Signals ----------------------------------------------------------------------------------------- */

/* Not those that come of what the thread itself does. */
void hold_signals(sigset_t *held_before)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t held;

    sigfillset(&held);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        sigdelset(&held, own[i]);
    pthread_sigmask(SIG_BLOCK, &held, held_before);
}

void release_signals(const sigset_t *held_before)
{
    int saved = errno;

    pthread_sigmask(SIG_SETMASK, held_before, NULL);
    errno = saved;
}

/* It sleeps at once: while it looked, a signal would wait. What a handler ended may take a while, and another
 * signal changes nothing then. */
const exs_event_t *wait_end_or_signal(struct wait *wait, int sockno, const sigset_t *held_before)
{
    struct queue *home = wait->waiter.home;
    bool told = false;

    while (!is_done(wait)) {
        if (sleep_on(wait, home, held_before) && !told) {
            xs_interrupt(sockno, &wait->waiter);
            told = true;
        }
        xs_run(home);
    }
    return event_of(wait);
}

/* ---- Waiting for a descriptor ------------------------------------------------------------------------- */

int wait_readable(int fd, uint64_t ns)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    struct timespec limit;

    if (fd < 0)
        return -1;
    if (ppoll(&ready, 1, ns_limit(ns, &limit), NULL) < 0)
        sched_yield();
    return 0;
}
