/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kernel.c - see kernel.h. Each call is one step. The lock of an eventfd orders the threads that use it; a futex orders
 * none.
 */
#include <linux/futex.h>
#include <string.h>
#include <sys/epoll.h>
#include "kernel.h"
#include "races.h"

void wakefd_clear(struct kernel_wakefd *wakefd)
{
    wakefd->rung = 0;
}

void wakefd_ring(struct kernel_wakefd *wakefd)
{
    race_kernel(wakefd);
    wakefd->rung++;
}

uint64_t wakefd_hear(struct kernel_wakefd *wakefd)
{
    race_kernel(wakefd);
    uint64_t rung = wakefd->rung;

    wakefd->rung = 0;
    return rung;
}

bool wakefd_is_rung(struct kernel_wakefd *wakefd)
{
    race_kernel(wakefd);
    return wakefd->rung > 0;
}

static bool is_rung(void *wakefd)
{
    return ((struct kernel_wakefd *)wakefd)->rung > 0;
}

void wakefd_sleep(struct kernel_wakefd *wakefd)
{
    race_sleep(wakefd, is_rung, wakefd);
}

/* ---- An epoll instance ----------------------------------------------------------------------- */

void watched_clear(struct kernel_epoll *watched)
{
    memset(watched, 0, sizeof *watched);
    watched->now = 1;
}

void watched_wake(struct kernel_epoll *watched)
{
    race_kernel(watched);
    watched->woken++;
}

void watched_hear(struct kernel_epoll *watched)
{
    race_kernel(watched);
    watched->woken = 0;
}

void watched_arm(struct kernel_epoll *watched, uint32_t events)
{
    race_kernel(watched);
    watched->armed = events;
}

void watched_arrive(struct kernel_epoll *watched)
{
    race_kernel(watched);
    watched->packets++;
}

unsigned watched_packets(struct kernel_epoll *watched)
{
    race_kernel(watched);
    return watched->packets;
}

unsigned watched_take(struct kernel_epoll *watched)
{
    race_kernel(watched);
    unsigned packets = watched->packets;

    watched->packets = 0;
    return packets;
}

static unsigned ready(const struct kernel_epoll *watched)
{
    return (watched->woken > 0 ? WAKE_READY : 0) |
           (watched->packets > 0 && (watched->armed & EPOLLIN) ? SOCKET_READY : 0);
}

unsigned watched_collect(struct kernel_epoll *watched)
{
    race_kernel(watched);
    unsigned what = ready(watched);

    if ((what & SOCKET_READY) && (watched->armed & EPOLLONESHOT))
        watched->armed = 0;
    return what;
}

static bool is_ready(void *watched)
{
    return ready(watched) != 0;
}

void watched_sleep(struct kernel_epoll *watched, int most)
{
    if (most < 0)
        race_sleep(watched, is_ready, watched);
    else
        race_sleep_a_while(watched);
    if (ready(watched) == 0)
        watched->now += (uint64_t)most * 1000000;
}

uint64_t watched_now(const struct kernel_epoll *watched)
{
    return watched->now;
}

/* ---- Futexes ------------------------------------------------------------------------------------------- */

static struct sleeper {
    const uint32_t *word; /* NULL: the thread is awake */
} sleepers[THREADS];

void futex_clear(void)
{
    for (int i = 0; i < THREADS; i++)
        sleepers[i].word = NULL;
}

static bool is_awake(void *sleeper)
{
    return ((struct sleeper *)sleeper)->word == NULL;
}

static void wake_one(const uint32_t *word)
{
    int asleep[THREADS];
    unsigned count = 0;

    for (int i = 0; i < THREADS; i++)
        if (sleepers[i].word == word)
            asleep[count++] = i;
    if (count > 0)
        sleepers[asleep[explore_choose(count)]].word = NULL;
}

long futex(uint32_t *word, int operation, uint32_t value)
{
    struct sleeper *own = &sleepers[race_self()];

    explore_step(word, true, "asks the futex");
    if (operation == FUTEX_WAKE_PRIVATE) {
        wake_one(word);
    } else if (*(volatile uint32_t *)word == value) {
        own->word = word;
        explore_sleep(word, is_awake, own);
    }
    return 0;
}
