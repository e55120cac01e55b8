/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.c - delivering an event to a blocking call: loop/wait.c, between the thread that waits for an operation and one
 * that reaps its event. The waiting thread's struct wait is invalid as soon as the thread has seen the event.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include "kernel.h"
#include "scenarios.h"

#include <pthread.h>
#include <sched.h>
#include "core/base/clock.h"
#include "loop/wait.h"

#define _Thread_local
#define pthread_self() ((pthread_t)race_self())
#define pthread_equal(a, b) ((a) == (b))
#define pthread_key_create(key, end) (*(key) = 1, (void)(end), 0)
#define pthread_key_delete(key) ((void)(key))
#define pthread_setspecific(key, value) ((void)(key), (void)(value), 0)
#define sched_yield race_yield
#define ppoll race_ppoll

static int race_ppoll(struct pollfd *fds, unsigned long count, const struct timespec *limit, const void *mask);

#include "loop/wait.c"

static struct kernel_wakefd wakefds;
static struct wait wait;
static struct waiter *given; /* for the thread that reaps */
static exs_event_t harvested;

static int race_ppoll(struct pollfd *fds, unsigned long count, const struct timespec *limit, const void *mask)
{
    EXPECT(count == 1 && limit == NULL && mask == NULL);
    wakefd_sleep(&wakefds);
    fds[0].revents = POLLIN;
    return 1;
}

/* ---- Functions of other modules -------------------------------------------------------------- */

void doorbell_signal(const struct doorbell *wakefd)
{
    EXPECT(wakefd->fd == 0);
    wakefd_ring(&wakefds);
}

void doorbell_drain(const struct doorbell *wakefd)
{
    EXPECT(wakefd->fd == 0);
    wakefd_hear(&wakefds);
}

int doorbell_make(struct doorbell *wakefd)
{
    wakefd->fd = 0;
    return 0;
}

void doorbell_close(struct doorbell *wakefd)
{
    wakefd->fd = -1;
}

void xs_sleep_begin(struct queue *queue, struct xs_sleeper *sleeper)
{
    (void)queue;
    sleeper->fds[0] = (struct pollfd){.fd = sleeper->wakefd->fd, .events = POLLIN};
    sleeper->count = 1;
    sleeper->deadline = NEVER_NS;
}

void xs_sleep_end(struct xs_sleeper *sleeper)
{
    (void)sleeper;
}

bool xs_spin(struct queue *queue, bool (*is_over)(void *argument), void *argument)
{
    (void)queue, (void)is_over, (void)argument;
    return false;
}

void xs_run(struct queue *queue)
{
    (void)queue;
}

void xs_prepare_sleep_home(struct queue *queue)
{
    (void)queue;
}

void xs_release_home(struct queue *queue)
{
    (void)queue;
}

void xs_interrupt(int sockno, const struct waiter *waiter)
{
    (void)sockno, (void)waiter;
    race_fail("nobody has interrupted");
}

unsigned xs_generation(void)
{
    return 0;
}

/* ---- The threads ----------------------------------------------------------------------------- */

static void prepare(void)
{
    wakefd_clear(&wakefds);
    own_wakefd = (struct thread_wakefd){.made = false};
    wait_begin(&wait);
    wait.owner = 1;
    given = &wait.waiter;
    harvested = (exs_event_t){.exs_evt_socket = 7};
}

/* The stack frame is overwritten afterwards. */
static void wait_and_leave(void)
{
    EXPECT(wait_end(&wait)->exs_evt_socket == 7);
    wait.event.exs_evt_socket = -1;
    wait.wakefd = NULL;
    wait.owner = 0;
}

static void harvest(void)
{
    given->deliver(given, &harvested);
}

/* The waiting thread was woken before the event is delivered. */
static void harvest_late(void)
{
    wakefd_ring(&wakefds);
    harvest();
}

SCENARIOS({"wait", "one waits, one delivers", prepare, {wait_and_leave, harvest}, NULL, NULL},
          {"wait-woken",
           "the same, and the wakefd has been rung before",
           prepare,
           {wait_and_leave, harvest_late},
           NULL,
           NULL});
