/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm.c - fuzzes the connection manager over TCP on loopback, as the passive and as the active side: untrusted peers
 * split and forge messages, the application makes any call at any time, memory and descriptors run out, time passes.
 *
 * For every input: the events of an identifier are delivered once and only when they are due, with valid private data;
 * the number of half-open connections is limited, and counted right; and no descriptor or memory remains when all
 * objects are destroyed.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "check/fuzz/calls.h"
#include "check/fuzz/cm_world.h"

enum { STEPS = 100 };

static struct rdma_event_channel *open_channel(void)
{
    struct rdma_event_channel *channel = soft_create_event_channel();

    expect(channel && fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0, "an event channel: %s", strerror(errno));
    return channel;
}

static void world_open(struct cm_world *world, const uint8_t *data, size_t size)
{
    world->input = (struct input){data, size};
    for (int i = 0; i < CM_STRANGERS; i++)
        world->strangers[i].fd = -1;
    for (int i = 0; i < CM_CHANNELS; i++)
        world->channels[i] = open_channel();
    user_listen(world);
    stranger_listens(world);
}

static void world_close(struct cm_world *world)
{
    user_hears(world, 1000);
    user_acknowledge(world);
    for (int i = 0; i < CM_USERS; i++)
        if (world->users[i].id)
            user_destroy(world, &world->users[i]);
    strangers_go(world);
    user_hears(world, 1000);
    user_acknowledge(world);
    for (int i = 0; i < CM_USERS; i++)
        if (world->users[i].id) /* from requests that arrived in the meantime */
            user_destroy(world, &world->users[i]);
    if (world->listener)
        soft_destroy_id(world->listener);
    for (int i = 0; i < CM_CHANNELS; i++)
        soft_destroy_event_channel(world->channels[i]);
}

/* No descriptor is free for the listener's next connections. */
static void starve(struct cm_world *world)
{
    struct rlimit before, none;
    int next = dup(0);

    close(next);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = (rlim_t)next;
    setrlimit(RLIMIT_NOFILE, &none);
    user_hears(world, 4);
    setrlimit(RLIMIT_NOFILE, &before);
}

/* The application makes a call, or reads events, while system calls transfer fewer bytes or fail. */
static void set_limits(struct cm_world *world)
{
    static const size_t most[] = {SIZE_MAX, 0, 1, 100};
    static const int errors[] = {ENOMEM, ENETUNREACH, ECONNREFUSED, EACCES};
    uint8_t how = input_u8(&world->input), what = input_u8(&world->input);

    system_send_most = most[how & 3];
    system_recv_most = most[how >> 2 & 3];
    calls_fail(what & 31, errors[what >> 5 & 3]);
    switch (how >> 4 & 7) {
    case 0:
        user_connect(world);
        break;
    case 1:
        user_answer(world);
        break;
    case 2:
        user_ends(world);
        break;
    case 3:
        user_tries(world);
        break;
    default:
        user_hears(world, 1);
    }
    calls_fail(0, 0);
}

static void pass_time(struct cm_world *world)
{
    static const unsigned ms[] = {100, 1000, 10000, 20000, 98000};

    system_pass(ms[input_below(&world->input, 5)] * UINT64_C(1000000));
}

static void step(struct cm_world *world)
{
    uint8_t what = input_u8(&world->input);

    switch (what & 15) {
    case 0:
    case 1:
        stranger_dials(world);
        break;
    case 2:
    case 3:
        stranger_speaks(world, false);
        break;
    case 4:
        stranger_speaks(world, true);
        break;
    case 5:
        stranger_leaves(world);
        break;
    case 6:
    case 7:
        user_connect(world);
        break;
    case 8:
        stranger_accepts(world);
        break;
    case 9:
    case 10:
        user_answer(world);
        break;
    case 11:
        user_ends(world);
        break;
    case 12:
        pass_time(world);
        break;
    case 13:
        set_limits(world);
        break;
    case 14:
        if (what == 0xfe)
            stranger_floods(world);
        else if (what & 16)
            starve(world);
        else
            user_acknowledge(world);
        break;
    default:
        if (world->listener && what & 128 && what & 64) {
            user_acknowledge(world);
            soft_destroy_id(world->listener);
            world->listener = NULL;
        }
    }
    if (!(what & 128)) /* otherwise events wait */
        user_hears(world, 1 + (what >> 4 & 3));
    user_expect_bounds(world);
}

/* In addition, steps at RoCE's port. */
static void step_beside(struct cm_world *world)
{
#ifdef CM_ROCE
    for (unsigned acts = input_u8(&world->input) & 3; acts > 0; acts--)
        adapter_acts(world);
    adapter_hears();
#else
    (void)world;
#endif
}

/* A listener permits half-open connections for an eighth of the descriptors, and this harness expects at most
 * CM_HALF_OPEN_MAX. */
static void limit_descriptors(void)
{
    const rlim_t most = 8 * CM_HALF_OPEN_MAX;
    struct rlimit limit;

    expect(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit: %s", strerror(errno));
    if (limit.rlim_cur <= most)
        return;
    limit.rlim_cur = most;
    expect(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit: %s", strerror(errno));
}

static void converse(const uint8_t *data, size_t size)
{
    struct cm_world world = {0};
    struct soft_cm_counters before;

    limit_descriptors();
    soft_query_cm_counters(&before);
    system_begin();
#ifdef CM_ROCE
    adapter_begins(&world);
#endif
    world_open(&world, data, size);
    for (int steps = 0; steps < STEPS && input_left(&world.input) > 0; steps++) {
        step(&world);
        step_beside(&world);
    }
    system_begin();
    world_close(&world);
#ifdef CM_ROCE
    adapter_ends(&world);
#endif
    user_expect_counted(&world, &before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct soft_home *kept; /* keeps the service thread running */
    int error = 0;

    if (!kept) {
        const union soft_addr here = {.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};

#ifdef CM_ROCE
        expect(setenv("EXS_ROCE", "on", 1) == 0, "the environment");
#endif
#ifdef CM_SHARED
        soft_share_context();
        (void)home_shared_pd(); /* both stay open, and so do the descriptors of the links */
        soft_lock(home_shared()->context);
        error = shm_prepare(&home_shared()->shm);
        if (error == 0)
            error = tcp_prepare(&home_shared()->tcp);
        soft_unlock(home_shared()->context);
#endif
        kept = home_open();
        expect(kept && udp_port(&kept->udp, &here) && error == 0, "a link: %s", strerror(errno));
#ifdef CM_ROCE
        adapter_open(home_shared());
#endif
    }
    unsigned before = calls_descriptors();
    converse(data, size);
    unsigned after = calls_descriptors_left(before);
    expect(after == before, "%u descriptors, and %u before", after, before);
    return 0;
}
