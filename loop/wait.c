/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.c - waiting for one operation: runs the queue that drives the socket until the operation has completed.
 *
 * The thread sleeps in ppoll() on the queue's descriptors and on an eventfd of the thread, which another thread
 * writes when it has completed the operation. The wait needs no memory and no new descriptor, so it can't fail after
 * the operation was started.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include "core/base/clock.h"
#include "wait.h"

#define LOOK_NS UINT64_C(5000000) /* maximum sleep of a thread that has no eventfd */

/* The eventfd of a thread that waits, kept until the thread ends. Only its thread uses it, except that other
 * threads signal it. */
struct thread_wakefd {
    bool made;
    unsigned generation; /* to detect that a forked child inherited it from its parent */
    struct doorbell wakefd;
};

static _Thread_local struct thread_wakefd own_wakefd;

/* The delivering thread must not touch the wait after the waiting thread may have returned. DELIVERING is the
 * state in between. */
enum { WAITING, DELIVERING, DONE };

/* ---- The thread's eventfd ------------------------------------------------------------------------------- */

/* Called at the thread's end. The thread that returns from main() ends with the process. */
static void close_wakefd(void *argument)
{
    struct thread_wakefd *wakefd = argument;

    if (wakefd->made && wakefd->generation == xs_generation())
        doorbell_close(&wakefd->wakefd);
    wakefd->made = false;
}

/* Have close_wakefd() called at the end of this thread. Returns 0 or an errno. */
static int close_at_end(struct thread_wakefd *wakefd)
{
    /* the key + 1. If two threads make a key, the first one's exchange wins, and pairs with the loads that find
     * it */
    static _Atomic unsigned known;
    unsigned none = 0;

    if (atomic_load(&known) == 0) {
        pthread_key_t key;
        int error = pthread_key_create(&key, close_wakefd);

        if (error != 0)
            return error;
        if (!atomic_compare_exchange_strong(&known, &none, key + 1))
            pthread_key_delete(key);
    }
    return pthread_setspecific(atomic_load(&known) - 1, wakefd);
}

/* Get the thread's eventfd. If no descriptor is available, its fd is -1, and the thread polls every LOOK_NS. */
static const struct doorbell *get_wakefd(void)
{
    struct thread_wakefd *wakefd = &own_wakefd;

    if (wakefd->made && wakefd->generation == xs_generation())
        return &wakefd->wakefd;
    wakefd->wakefd = (struct doorbell)DOORBELL_INIT(DOORBELL_PLAIN);
    wakefd->made = false;
    wakefd->generation = xs_generation();
    wakefd->made = close_at_end(wakefd) == 0 && doorbell_make(&wakefd->wakefd) == 0;
    return &wakefd->wakefd;
}

/* ---- Waiting for an operation ------------------------------------------------------------------------ */

static void wake_owner(struct wait *wait)
{
    if (!pthread_equal(wait->owner, pthread_self()))
        doorbell_signal(wait->wakefd);
}

static void deliver_event(struct waiter *waiter, const exs_event_t *event)
{
    struct wait *wait = (struct wait *)waiter;

    wait->event = *event;
    atomic_store_explicit(&wait->state, DELIVERING, memory_order_release);
    wake_owner(wait);
    atomic_store_explicit(&wait->state, DONE, memory_order_release);
}

void wait_begin(struct wait *wait)
{
    xs_loop_end_batch();
    *wait = (struct wait){.waiter = {.deliver = deliver_event}, .owner = pthread_self()};
    wait->wakefd = get_wakefd();
}

static bool is_done(struct wait *wait)
{
    int state = atomic_load_explicit(&wait->state, memory_order_acquire);

    while (state == DELIVERING) { /* the other thread needs a few instructions */
        sched_yield();
        state = atomic_load_explicit(&wait->state, memory_order_acquire);
    }
    return state == DONE;
}

static bool is_over(void *wait)
{
    return is_done(wait);
}

/* The time until `deadline`, for ppoll(); NULL: no limit. */
static const struct timespec *time_left(uint64_t deadline, struct timespec *left)
{
    return deadline == NEVER_NS ? NULL : ns_limit(ns_left(deadline, now_ns()), left);
}

/* Sleep. Completions that have arrived already make a descriptor readable. If ppoll() fails, the sleep is
 * short: the caller polls again, because it must bring the operation to its end. Returns whether a signal
 * handler ran. */
static bool sleep_on(struct wait *wait, struct queue *home, const sigset_t *mask)
{
    struct xs_sleeper sleeper = {.wakefd = wait->wakefd};
    struct timespec left;

    xs_sleep_begin(home, &sleeper);
    if (wait->wakefd->fd < 0 && sleeper.deadline > now_ns() + LOOK_NS)
        sleeper.deadline = now_ns() + LOOK_NS;
    int ready = ppoll(sleeper.fds, (nfds_t)sleeper.count, time_left(sleeper.deadline, &left), mask);
    bool interrupted = ready < 0 && errno == EINTR;

    xs_sleep_end(&sleeper);
    if (ready < 0)
        sched_yield();
    else if (sleeper.fds[0].revents != 0)
        doorbell_drain(wait->wakefd);
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

/* Block all signals but those that the thread causes itself. */
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

/* Does not busy-poll, because signals stay blocked while it polls. An operation that a handler has interrupted
 * may take a while to end; later signals change nothing. */
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
