/* SPDX-License-Identifier: BSD-2-Clause */
/* witness.c - a thread on each CPU sleeps for MOMENT again and again, and measures how long each sleep lasted. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "bench.h"
#include "witness.h"

#define MOMENT 5 /* ms of a sleep */
#define PROCESSORS 64

static struct {
    int quit; /* eventfd that ends the threads */
    unsigned count;
    pthread_t threads[PROCESSORS];
    atomic_uint_least64_t longest;
} witness;

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void saw(uint64_t took)
{
    uint_least64_t longest = atomic_load(&witness.longest);

    took = took > MOMENT * IBTA_MS ? took - MOMENT * IBTA_MS : 0;
    while (took > longest && !atomic_compare_exchange_weak(&witness.longest, &longest, took))
        ;
}

static void *watch(void *unused)
{
    struct pollfd quit = {.fd = witness.quit, .events = POLLIN};
    uint64_t began = now();

    while (poll(&quit, 1, MOMENT) == 0) {
        saw(now() - began);
        began = now();
    }
    return unused;
}

/* Starts a thread on each CPU that this process may use. */
void witness_start(void)
{
    cpu_set_t all, one;
    pthread_attr_t attr;
    int error;

    witness.quit = eventfd(0, EFD_CLOEXEC);
    if (witness.quit == -1 || sched_getaffinity(0, sizeof all, &all) == -1)
        bench_fail("watching the processors", errno);
    witness.count = 0;
    atomic_store(&witness.longest, 0);
    for (int cpu = 0; cpu < CPU_SETSIZE && witness.count < PROCESSORS; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_attr_init(&attr);
        pthread_attr_setaffinity_np(&attr, sizeof one, &one);
        if ((error = pthread_create(&witness.threads[witness.count++], &attr, watch, NULL)) != 0)
            bench_fail("watching a processor", error);
        pthread_attr_destroy(&attr);
    }
}

uint64_t witness_stop(void)
{
    const uint64_t one = 1;

    if (write(witness.quit, &one, sizeof one) != sizeof one)
        bench_fail("watching the processors", errno);
    for (unsigned i = 0; i < witness.count; i++)
        pthread_join(witness.threads[i], NULL);
    close(witness.quit);
    return atomic_load(&witness.longest);
}
