/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine_world.c - the pair of queue pairs that the input chooses, and the memory that is registered for them and that
 * is not.
 */
#include "check/fuzz/engine.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static struct setup read_setup(struct input *input)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    struct setup setup = setup_default();
    static const unsigned rights[] = {ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC, ACCESS_ALL, IBV_ACCESS_REMOTE_READ,
                                      0};
    uint8_t first = input_u8(input), second = input_u8(input), third = input_u8(input),
            fourth = input_u8(input);

    setup.type = types[first & 3];
    if ((first & 3) == 1 && fourth & 2)
        setup.type = IBV_QPT_XRC_SEND;
    setup.family = first & 4 ? AF_INET6 : AF_INET;
    setup.srq_depth = first & 8 ? 8 : 0;
    setup.ghost = first & 16 && setup.type != IBV_QPT_UD;
    setup.pull = first & 32;
    setup.loopback = first & 64 && !setup.ghost;
    setup.all_signaled = first & 128;
    setup.names = setup.type == IBV_QPT_UD;
    setup.trailer = second & 1 ? 4 : 0;
    setup.mtu = (enum ibv_mtu)(IBV_MTU_256 + (second >> 1) % 5);
    setup.qp_access = rights[second >> 4 & 3];
    setup.mr_access = rights[fourth & 1] | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
    setup.max_rd_atomic = (uint8_t)(1 + (second >> 6));
    setup.timeout = third & 1 ? 0 : 6;
    setup.retry_cnt = third >> 1 & 7;
    setup.rnr_retry = third >> 4 & 7;
    setup.psn[0] = third & 128 ? 0xfffffe : 0x100;
    setup.memory = MEMORY;
    setup.send_depth = 16;
    setup.recv_depth = 16;
    setup.cqe = fourth >= 0xf0 ? 2 : setup.cqe;
    return setup;
}

static void lock_region(struct world *world, unsigned number)
{
    struct end *end = world_end(world, number);

    world->locked[number] = mmap(NULL, LOCKED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(world->locked[number] != MAP_FAILED, "mmap");
    memset(world->locked[number], GUARD_BYTE, LOCKED);
    if (end->context)
        world->locked_mr[number] =
            soft_reg_mr(end->pd, world->locked[number], LOCKED, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
}

static void map_file(struct world *world, unsigned number)
{
    struct end *end = world_end(world, number);

    world->files[number] = memfd_create("fuzz", MFD_CLOEXEC);
    expect(world->files[number] != -1 && !ftruncate(world->files[number], LOCKED), "memfd");
    world->vanishing[number] = mmap(NULL, LOCKED, PROT_READ | PROT_WRITE, MAP_SHARED, world->files[number], 0);
    expect(world->vanishing[number] != MAP_FAILED, "mmap");
    if (end->context)
        world->vanishing_mr[number] = soft_reg_mr(end->pd, world->vanishing[number], LOCKED,
                                                  ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
}

void world_renew_window(struct world *world, unsigned number)
{
    struct ibv_mw *old = world->mw[number];

    world->mw[number] = ibv_alloc_mw(old->pd, old->type);
    expect(world->mw[number], "ibv_alloc_mw");
    world->stale = old->rkey;
    expect(!ibv_dealloc_mw(old), "ibv_dealloc_mw");
}

static void make_handle(struct world *world, unsigned number)
{
    struct end *end = world_end(world, number);
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};

    network_gid(world->pair->network, world_end(world, !number)->node, &attr.grh.dgid);
    world->ah[number] = soft_create_ah(end->pd, &attr);
    expect(world->ah[number], "soft_create_ah");
}

void world_open(struct world *world, const uint8_t *data, size_t size)
{
    world->input = (struct input){data, size};
    struct setup setup = read_setup(&world->input);
    world->overflowed = setup.cqe == 2;
    world->pair = pair_new(&setup);
    network_keep_bytes(world->pair->network, false);
    for (unsigned i = 0; i < 2; i++) {
        lock_region(world, i);
        map_file(world, i);
        if (setup.type == IBV_QPT_UD)
            make_handle(world, i);
        else if (world_end(world, i)->context)
            world->mw[i] = ibv_alloc_mw(world_end(world, i)->pd,
                                        world->pair->setup.timeout == 0 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    }
}

void world_close(struct world *world)
{
    for (unsigned i = 0; i < 2; i++) {
        struct end *end = world_end(world, i);
        if (world->mw[i])
            expect(!ibv_dealloc_mw(world->mw[i]), "ibv_dealloc_mw");
        if (world->spare[i])
            soft_dereg_mr(world->spare[i]);
        if (world->locked_mr[i])
            soft_dereg_mr(world->locked_mr[i]);
        if (world->vanishing_mr[i])
            soft_dereg_mr(world->vanishing_mr[i]);
        munmap(world->vanishing[i], LOCKED);
        close(world->files[i]);
        if (world->ah[i])
            soft_destroy_ah(world->ah[i]);
        expect_byte(world->locked[i], LOCKED, GUARD_BYTE);
        munmap(world->locked[i], LOCKED);
        struct ibv_cq *cq;
        void *context;
        while (end->channel && !fcntl(end->channel->fd, F_SETFL, O_NONBLOCK) &&
               !soft_get_cq_event(end->channel, &cq, &context))
            soft_ack_cq_events(cq, 1);
    }
    pair_free(world->pair);
}
