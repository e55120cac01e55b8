/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * limit_bench.c - measures the upper bound for a link with two copies: transfers bytes through a ring in shared memory
 * between two busy-polling processes, without connections, events, checks or sleep.
 *
 *   limit_bench send stream|ping SIZE TOTAL 0   see bench.h; the other side is a child process
 *
 * For cache lines that another CPU reads next, non-temporal stores may be faster or slower than normal ones
 * (core/base/copy.h). The ring tries both during the warm-up, and continues with the faster one.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "core/base/clock.h"
#include "core/base/copy.h"

#define CHUNK 65536 /* bytes of a slot */
#define SLOTS 32    /* larger than the writer's private cache: the reader gets the data from a shared cache */
#define LOOKS 1024  /* polls before it yields the CPU, which both sides may share */

/* Shared memory. Each counter has a separate cache line, because each is written by one side. */
static struct shared {
    /* Slots written by the parent: its release store pairs with the child's acquire load in wait_for(). */
    _Alignas(128) _Atomic uint64_t put;
    /* Slots read by the child: its release store pairs with the parent's acquire load in wait_for(). */
    _Alignas(128) _Atomic uint64_t taken;
    /* 1: the child has allocated its memory; pairs like `taken`. */
    _Alignas(128) _Atomic uint64_t ready;
    _Alignas(4096) uint8_t slot[SLOTS][CHUNK];
} * shared;

static struct bench bench;
static uint8_t *buffers;
static uint64_t messages;

static void *map(size_t size, int how)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (at == MAP_FAILED)
        bench_fail("memory");
    return at;
}

static void wait_for(const _Atomic uint64_t *count, uint64_t least)
{
    for (unsigned looks = 1; atomic_load_explicit(count, memory_order_acquire) < least; looks++)
        if (looks % LOOKS == 0)
            sched_yield();
}

/* Returns the buffer of a message. There are as many buffers as in exs_bench. */
static uint8_t *buffer_of(uint64_t message)
{
    return buffers + message % bench.window * bench.size;
}

static size_t part(size_t at)
{
    return bench.size - at < CHUNK ? bench.size - at : CHUNK;
}

/* ---- A stream ---- */

static void put(uint64_t message, uint64_t *slots, bool far)
{
    for (size_t at = 0; at < bench.size; at += CHUNK) {
        size_t length = part(at);

        if (*slots >= SLOTS)
            wait_for(&shared->taken, *slots - SLOTS + 1);
        if (far)
            copy_far(shared->slot[*slots % SLOTS], buffer_of(message) + at, length);
        else
            copy_near(shared->slot[*slots % SLOTS], buffer_of(message) + at, length);
        atomic_store_explicit(&shared->put, ++*slots, memory_order_release);
    }
}

static void take_all(void)
{
    uint64_t slots = 0;

    for (uint64_t message = 0; message < messages; message++) {
        for (size_t at = 0; at < bench.size; at += CHUNK, slots++) {
            wait_for(&shared->put, slots + 1);
            copy_near(buffer_of(message) + at, shared->slot[slots % SLOTS], part(at));
            atomic_store_explicit(&shared->taken, slots + 1, memory_order_release);
        }
    }
}

/* Sends a third of the warm-up in each way. Returns whether the non-temporal copy was faster. */
static bool try_both(uint64_t *message, uint64_t *slots)
{
    uint64_t third = bench.warm / bench.size / 3;
    uint64_t took[2];

    for (int far = 0; far < 2; far++) {
        uint64_t began = now_ns();

        for (uint64_t end = *message + third; *message < end; ++*message)
            put(*message, slots, far);
        wait_for(&shared->taken, *slots);
        took[far] = now_ns() - began;
    }
    return third > 0 && took[1] < took[0];
}

static void put_all(void)
{
    uint64_t message = 0, slots = 0;

    bench_start(&bench);
    bool far = try_both(&message, &slots);

    for (; message < messages; bench_done(&bench, ++message * bench.size))
        put(message, &slots, far);
    wait_for(&shared->taken, slots);
}

/* ---- Round trips ---- */

static void throw_ball(_Atomic uint64_t *count, uint64_t times)
{
    memcpy(shared->slot[count == &shared->put], buffers, bench.size);
    atomic_store_explicit(count, times, memory_order_release);
}

static void catch_ball(const _Atomic uint64_t *count, uint64_t times)
{
    wait_for(count, times);
    memcpy(buffers, shared->slot[count == &shared->put], bench.size);
}

static void throw_back(void)
{
    for (uint64_t trip = 1; trip <= bench.total; trip++) {
        catch_ball(&shared->put, trip);
        throw_ball(&shared->taken, trip);
    }
}

static void throw_first(void)
{
    bench_start(&bench);
    for (uint64_t trip = 1; trip <= bench.total; trip++) {
        throw_ball(&shared->put, trip);
        catch_ball(&shared->taken, trip);
        bench_done(&bench, trip);
    }
}

/* ---- The two processes ---- */

/* Moves the child to other CPUs if the process was bound to a single one. */
static void move_away(void)
{
    cpu_set_t own, others;

    if (sched_getaffinity(0, sizeof(own), &own) == -1 || CPU_COUNT(&own) != 1)
        return;
    CPU_ZERO(&others);
    for (int cpu = 0; cpu < CPU_SETSIZE && cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++)
        if (!CPU_ISSET(cpu, &own))
            CPU_SET(cpu, &others);
    (void)sched_setaffinity(0, sizeof(others),
                            &others); /* fails if there is no other CPU; the child then stays */
}

int main(int argc, char **argv)
{
    int status;

    bench_parse(&bench, argc, argv);
    if (bench.serve || bench.connections != 1 || bench.size == 0 ||
        (bench.mode != BENCH_STREAM && bench.mode != BENCH_PING) ||
        (bench.mode == BENCH_PING && bench.size > CHUNK)) {
        fprintf(stderr, "usage: limit_bench send stream|ping SIZE TOTAL 0; a ping of %d bytes at most\n",
                CHUNK);
        return 2;
    }
    messages = (bench.total + bench.size - 1) / bench.size;
    bench.total = bench.mode == BENCH_STREAM ? messages * bench.size : bench.total;
    shared = map(sizeof(*shared), MAP_SHARED);
    pid_t child = fork();

    if (child == -1)
        bench_fail("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        move_away();
    }
    buffers = map(bench.window * bench.size, MAP_PRIVATE);
    memset(buffers, 1, bench.window * bench.size);
    if (child == 0) {
        atomic_store_explicit(&shared->ready, 1, memory_order_release);
        bench.mode == BENCH_STREAM ? take_all() : throw_back();
        return 0;
    }
    wait_for(&shared->ready, 1);
    bench.mode == BENCH_STREAM ? put_all() : throw_first();
    bench_print(&bench);
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
