/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * virtual.c - a bench for the software device's engine on a virtual clock, which jumps from one timeout to the next,
 * and a wire without delay. The device's ICRC is computed by the device's code, the tester's by frame.c.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "soft/link/icrc.h"
#include "soft/engine/wire.h"

#define SEED 77
#define TICK 1000      /* ns that pass whenever the device reads the clock, and in every other send */
#define BREATH 1000000 /* ns from the first packet to the next of a batch */
#define SLOW 100000    /* ns that pass in the other sends, as if the device had been preempted */

struct virtual_bench {
    struct bench bench; /* first */
    struct soft_link link;
    struct soft_wire wire;
    struct soft_clock clock;
    uint64_t time;
    unsigned sendings;
    bool held;             /* the device is locked, and soft_flush() is deferred until release() */
    unsigned batch;        /* packets */
    struct soft_path path; /* as the device sees it */
};

static struct virtual_bench *of_clock(struct soft_clock *clock)
{
    return (struct virtual_bench *)(void *)((char *)clock - offsetof(struct virtual_bench, clock));
}

static struct virtual_bench *of_link(struct soft_link *link)
{
    return (struct virtual_bench *)(void *)((char *)link - offsetof(struct virtual_bench, link));
}

/* Time passes while the device works, so each call returns a later time. */
static uint64_t clock_now(struct soft_clock *clock)
{
    return of_clock(clock)->time += TICK;
}

static uint64_t now(struct bench *bench)
{
    return ((struct virtual_bench *)bench)->time;
}

/* Called by the device: sends a burst of packets to the tester. */
static void wire_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                      size_t stride)
{
    struct virtual_bench *virtual = of_link(link);
    struct frame frame = {.from = path->local.in.sin_addr,
                          .to = path->remote.in.sin_addr,
                          .from_port = path->local.in.sin_port,
                          .to_port = path->remote.in.sin_port,
                          .fragment = FRAME_DF};
    struct icrc_flow flow;

    icrc_flow_init(&flow, path, true);
    virtual->time += virtual->sendings++ % 2 == 0 ? SLOW : TICK;
    for (size_t at = 0; at < length; at += stride, frame.id++) {
        size_t size = at + stride < length ? stride : length - at;

        icrc_store(burst + at + size - ICRC_SIZE, icrc_compute(&flow, frame.id, burst + at, size - ICRC_SIZE));
        bench_arrival(&virtual->bench, virtual->time, &frame, burst + at, size);
    }
}

/* Sends a packet of the tester to the device. */
static void send_to_dut(struct bench *bench, const uint8_t *packet, size_t length)
{
    struct virtual_bench *virtual = (struct virtual_bench *)bench;
    struct icrc_flow flow;

    icrc_flow_init(&flow, &virtual->path, false);
    length -= ICRC_SIZE;
    if (!virtual->held)
        soft_lock(bench->context);
    if (icrc_compute(&flow, 0, packet, length) == icrc_load(packet + length))
        soft_input(bench->context, &virtual->path, packet, length);
    else
        soft_count_malformed(bench->context);
    if (virtual->held) {
        virtual->time += virtual->batch++ == 0 ? BREATH : 0;
        return;
    }
    soft_flush(bench->context);
    soft_unlock(bench->context);
}

static void hold(struct bench *bench)
{
    soft_lock(bench->context);
    ((struct virtual_bench *)bench)->held = true;
    ((struct virtual_bench *)bench)->batch = 0;
}

static void release(struct bench *bench)
{
    ((struct virtual_bench *)bench)->held = false;
    soft_flush(bench->context);
    soft_unlock(bench->context);
}

/* Advances the clock to the device's next deadline or to `until`, and runs the device's timers. */
static void jump(struct virtual_bench *virtual, uint64_t until)
{
    uint64_t deadline;

    soft_lock(virtual->bench.context);
    deadline = soft_deadline(virtual->bench.context);
    if (deadline > until)
        virtual->time = until;
    else if (deadline > virtual->time)
        virtual->time = deadline;
    soft_timers(virtual->bench.context);
    soft_unlock(virtual->bench.context);
}

/* Releases the lock while the device works, because recording takes it. A single thread runs everything. */
static void wait(struct bench *bench, struct channel *channel, uint64_t until)
{
    struct virtual_bench *virtual = (struct virtual_bench *)bench;
    unsigned before = channel->record.count;

    pthread_mutex_unlock(&bench->lock);
    channel_poll(channel);
    while (virtual->time < until && channel->record.count == before) {
        jump(virtual, until);
        channel_poll(channel);
    }
    pthread_mutex_lock(&bench->lock);
}

static int path(struct bench *bench, struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
    (void)attr;
    soft_set_path(qp, &((struct virtual_bench *)bench)->path);
    return 0;
}

static void stop(struct bench *bench)
{
    (void)bench;
}

static void close_bench(struct bench *bench)
{
    int error = soft_close(bench->context);

    if (error != 0)
        bench_fail("soft_close", error);
    free(bench);
}

struct bench *bench_open_virtual(void)
{
    struct virtual_bench *virtual = calloc(1, sizeof *virtual);
    struct soft_path *way;

    if (virtual == NULL)
        return NULL;
    virtual->link = (struct soft_link){.trailer = ICRC_SIZE, .send = wire_send};
    virtual->wire = (struct soft_wire){.link = &virtual->link};
    virtual->clock = (struct soft_clock){clock_now};
    virtual->time = 1000 * IBTA_MS;
    way = &virtual->path;
    way->local.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(SOFT_UDP_PORT)};
    way->remote.in = way->local.in;
    inet_pton(AF_INET, "192.0.2.1", &way->local.in.sin_addr);
    inet_pton(AF_INET, "192.0.2.2", &way->remote.in.sin_addr);
    virtual->bench = (struct bench){.name = "embedded device, virtual clock",
                                    .device = &soft_device,
                                    .context = soft_open(&virtual->wire, &virtual->clock, SEED),
                                    .to_dut = {.from = way->remote.in.sin_addr,
                                               .to = way->local.in.sin_addr,
                                               .from_port = way->remote.in.sin_port,
                                               .to_port = way->local.in.sin_port,
                                               .fragment = FRAME_DF},
                                    .patience = 10 * IBTA_MS,
                                    .now = now,
                                    .send = send_to_dut,
                                    .hold = hold,
                                    .release = release,
                                    .wait = wait,
                                    .path = path,
                                    .stop = stop,
                                    .close = close_bench};
    if (virtual->bench.context == NULL || !bench_init(&virtual->bench)) {
        free(virtual);
        return NULL;
    }
    return &virtual->bench;
}
