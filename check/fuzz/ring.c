/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.c - fuzzes what a peer writes into the memory that it shares with us, on a new link or one in long use: valid
 * bursts, and any bytes at any offset, also just before we read, or before we send. Behind the link is the engine with
 * one queue pair.
 *
 * For every input: nothing is accessed outside the shared memory, which lies between inaccessible pages, and nothing
 * outside the memory region is written. After invalid data the ring is not read again, and its queue pair is in the
 * error state.
 */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check/fuzz/input.h"
#include "check/fuzz/sharing.h"
#include "check/support/endpoints.h"
#include "core/base/fds.h"
#include "soft/engine/engine.h"
#include "soft/link/shm.h"

#define MEMORY 8192
#define PAGE 4096

enum { ROUNDS = 40, REQUESTS = 4 };

static struct ring_world {
    struct input input;
    struct sharing device;
    struct shm_area *area; /* between two inaccessible pages */
    struct shm_peer *peer;
    struct shm_ring out; /* the peer's sending side, for valid bursts */
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint8_t *memory; /* with GUARD bytes on both sides */
    struct ibv_mr *mr;
} * world;

/* ---- The peer ---- */

/* Writes a valid burst: a message with the PSN that the queue pair expects, or an acknowledgement; the input may choose
 * another opcode or PSN. */
static void put_burst(uint8_t how)
{
    struct input *input = &world->input;
    struct soft_qp *qp = soft_qp_of(world->qp);
    const uint8_t *payload;
    struct roce roce = {.opcode = how & 16 ? WRITE_ONLY : SEND_ONLY,
                        .migreq = true,
                        .pkey = 0xffff,
                        .qpn = world->qp->qp_num,
                        .psn = roce_psn((uint32_t)qp->resp.expected),
                        .va = (uintptr_t)world->memory + input_u16(input) % MEMORY,
                        .rkey = world->mr->rkey};
    size_t limit, length;
    uint8_t *at;

    if (how & 32)
        roce.opcode = input_u8(input);
    if (how & 64)
        roce.psn = roce_psn((uint32_t)qp->req.una + input_u8(input));
    roce.payload_length = input_bytes(input, &payload, input_u8(input));
    roce.payload = payload;
    roce.dma_length = (uint32_t)roce.payload_length;
    world->out.broken = false;
    at = shm_ring_room(&world->out, 4096, &limit);
    if (at == NULL)
        return;
    length = roce_write(at, &roce);
    shm_ring_put(&world->out, length, how & 128 ? input_u16(input) : length,
                 how & 64 ? SOFT_ACKED << SOFT_ACKED_SHIFT | roce.psn : 0);
}

/* Writes a position or a flag of either direction. */
static void put_control(uint8_t how)
{
    struct shm_control *control = &world->area->control[how >> 4 & 1];
    uint64_t value = input_number(&world->input, how & 128 ? 8 : 2);

    if (how & 64)
        value += world->peer->in.at;
    else if (how & 32)
        value = world->peer->out.at - value;
    switch (how >> 2 & 3) {
    case 0:
        atomic_store(&control->tail, value);
        break;
    case 1:
        atomic_store(&control->head, value);
        break;
    case 2:
        atomic_store(&control->wants_room, (uint32_t)value);
        break;
    default:
        atomic_store(&control->sleeps, (uint32_t)value);
    }
}

/* Writes bytes where we read next, or anywhere. */
static void put_bytes(uint8_t how)
{
    size_t offset = how & 16 ? input_number(&world->input, 3) % sizeof *world->area
                             : (size_t)(world->peer->in.bytes - (uint8_t *)world->area) +
                                   (size_t)(world->peer->in.at % SHM_RING_BYTES);
    const uint8_t *bytes;
    size_t room = sizeof *world->area - offset, length = input_bytes(&world->input, &bytes, how >> 5 << 3 | 4);

    memcpy((uint8_t *)world->area + offset, bytes, length < room ? length : room);
}

/* ---- Our side ---- */

static void ask(uint8_t how)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
    struct ibv_sge sge = {
        .addr = (uintptr_t)world->memory, .length = how & 16 ? MEMORY : 64, .lkey = world->mr->lkey};
    struct ibv_send_wr send = {.opcode = opcodes[(how >> 5) % 3],
                               .sg_list = &sge,
                               .num_sge = 1,
                               .wr.rdma = {.remote_addr = sge.addr, .rkey = world->mr->rkey}},
                       *bad_send;
    struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;

    send.send_flags = how & 128 ? IBV_SEND_SIGNALED : 0;
    (void)ibv_post_send(world->qp, &send, &bad_send);
    (void)ibv_post_recv(world->qp, &recv, &bad_recv);
}

static void look(void)
{
    struct ibv_wc wc;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    bool broken;

    soft_lock(world->device.shm.context);
    soft_progress(world->device.shm.context);
    broken = world->peer->failed;
    soft_unlock(world->device.shm.context);
    while (ibv_poll_cq(world->cq, 1, &wc) > 0)
        expect(wc.qp_num == world->qp->qp_num, "a completion of nothing");
    expect(!soft_query_qp(world->qp, &attr, IBV_QP_STATE, &init), "soft_query_qp");
    expect(!broken || attr.qp_state == IBV_QPS_ERR, "the ring is broken and the queue pair in state %d",
           attr.qp_state);
}

static void make_qp(void)
{
    struct ibv_qp_init_attr init = {
        .send_cq = world->cq,
        .recv_cq = world->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_256,
                              .dest_qp_num = 0x4321,
                              .max_dest_rd_atomic = REQUESTS,
                              .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid.raw = {[15] = 1}}}};
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = REQUESTS};
    const struct soft_path path = {
        .local.sa.sa_family = AF_INET, .remote.sa.sa_family = AF_INET, .link = &world->peer->link};
    int error;

    world->qp = soft_create_qp(world->pd, &init);
    expect(world->qp && qp_init(world->qp, ACCESS_ALL) == 0, "a queue pair: %s", strerror(errno));
    soft_set_path(world->qp, &path);
    error = soft_modify_qp(world->qp, &rtr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error == 0)
        error = soft_modify_qp(world->qp, &rts,
                               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    expect(!error, "to RTS: %s", strerror(error));
}

/* Memory between two inaccessible pages. */
static void *lonely(size_t length)
{
    uint8_t *whole = mmap(NULL, length + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    expect(whole != MAP_FAILED && mprotect(whole + PAGE, length, PROT_READ | PROT_WRITE) == 0, "no memory");
    return whole + PAGE;
}

/* Makes the link one in long use: its positions are near the end of a ring, and the peer may have read so little of
 * what we sent that there is little room. */
static void grow_old(struct shm_peer *peer, uint8_t age)
{
    const uint64_t at = UINT64_C(3) * SHM_RING_BYTES - 4096;

    if (age & 1) {
        peer->out.at = at;
        peer->out.seen = age & 2 ? at - SHM_RING_BYTES + 2048u * (age >> 4) : at;
        atomic_store(&peer->out.control->tail, peer->out.at);
        atomic_store(&peer->out.control->head, peer->out.seen);
    }
    if (age & 4) {
        peer->in.at = peer->in.seen = at;
        atomic_store(&peer->in.control->tail, at);
        atomic_store(&peer->in.control->head, at);
    }
}

static void world_open(void)
{
    static int wakefd = -1;

    if (wakefd == -1)
        wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    expect(wakefd != -1, "no wakefd");
    sharing_open(&world->device, NULL);
    world->device.shm.wakefd = wakefd;
    world->device.shm.ready = true;
    world->area = lonely(sizeof *world->area);
    world->memory = lonely(MEMORY + 2 * GUARD);
    memset(world->memory, GUARD_BYTE, MEMORY + 2 * GUARD);
    world->memory += GUARD;
    memset(world->memory, 0, MEMORY);
    world->pd = soft_alloc_pd(world->device.shm.context);
    world->cq = soft_create_cq(world->device.shm.context, 256, NULL, NULL, 0);
    world->mr = soft_reg_mr(world->pd, world->memory, MEMORY, ACCESS_ALL);
    world->peer = shm_peer_new(NULL, world->area, false);
    expect(world->cq && world->mr && world->peer, "no region: %s", strerror(errno));
    world->peer->wakefd = shm_wakefd_take(fds_own(dup(wakefd)));
    expect(world->peer->wakefd, "no wakefd: %s", strerror(errno));
    (void)fds_flag(wakefd, false); /* set by the previous input */
    grow_old(world->peer, input_u8(&world->input));
    world->out = world->peer->in;
    shm_assign(&world->device.shm, world->peer);
    make_qp();
    shm_join(world->peer);
}

static void world_close(void)
{
    uint8_t *area = (uint8_t *)world->area;

    expect_byte(world->memory - GUARD, GUARD, GUARD_BYTE);
    expect_byte(world->memory + MEMORY, GUARD, GUARD_BYTE);
    expect(!soft_destroy_qp(world->qp), "soft_destroy_qp"); /* this frees the peer and its memory, too */
    expect(TAILQ_EMPTY(&world->device.shm.looked_at) && world->device.shm.count == 0, "a peer is left");
    expect(!soft_dereg_mr(world->mr) && !soft_destroy_cq(world->cq) && !soft_dealloc_pd(world->pd) &&
               !soft_close(world->device.shm.context),
           "something is still in use");
    munmap(world->memory - GUARD - PAGE, MEMORY + 2 * GUARD + 2 * PAGE);
    munmap(area - PAGE, PAGE);
    munmap(area + sizeof *world->area, PAGE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ring_world one = {.input = {data, size}};

    world = &one;
    world_open();
    for (int round = 0; round < ROUNDS && input_left(&one.input) > 0; round++) {
        uint8_t how = input_u8(&one.input);

        switch (how & 3) {
        case 0:
            put_burst(how);
            break;
        case 1:
            put_control(how);
            break;
        case 2:
            put_bytes(how);
            break;
        default:
            ask(how);
        }
        if ((how & 12) != 12)
            look();
    }
    look();
    world_close();
    return 0;
}
