/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.c - fuzzes the engine from the packet on: work is posted, packets are lost, doubled and forged, time
 * passes, states change, regions come and go, in any order.
 *
 * Whatever the input: a work request completes at most once, and exactly once where that is owed; nobody writes
 * what is not his (guards, a region without the right); a state is left only as verbs allow; the conversation
 * ends by the virtual clock, and everything can be destroyed.
 */
#include "check/fuzz/engine.h"
#include <stdlib.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STEPS = 200, PASS_STEPS = 300, END_STEPS = 100000 };

/* ---- The pair ---- */

static struct setup read_setup(struct input *input)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    struct setup setup = setup_default();
    static const unsigned rights[] = {ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC, ACCESS_ALL, IBV_ACCESS_REMOTE_READ,
                                      0};
    uint8_t first = input_u8(input), second = input_u8(input), third = input_u8(input),
            fourth = input_u8(input);

    setup.type = types[first & 3];
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
    setup.mr_access = rights[fourth & 1] | IBV_ACCESS_LOCAL_WRITE;
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
        world->locked_mr[number] = soft_reg_mr(end->pd, world->locked[number], LOCKED, IBV_ACCESS_REMOTE_READ);
}

static void map_file(struct world *world, unsigned number)
{
    struct end *end = world_end(world, number);

    world->files[number] = memfd_create("fuzz", MFD_CLOEXEC);
    expect(world->files[number] != -1 && !ftruncate(world->files[number], LOCKED), "memfd");
    world->vanishing[number] = mmap(NULL, LOCKED, PROT_READ | PROT_WRITE, MAP_SHARED, world->files[number], 0);
    expect(world->vanishing[number] != MAP_FAILED, "mmap");
    if (end->context)
        world->vanishing_mr[number] =
            soft_reg_mr(end->pd, world->vanishing[number], LOCKED, ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC);
}

static void make_handle(struct world *world, unsigned number)
{
    struct end *end = world_end(world, number);
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};

    network_gid(world->pair->network, world_end(world, !number)->node, &attr.grh.dgid);
    world->ah[number] = soft_create_ah(end->pd, &attr);
    expect(world->ah[number], "soft_create_ah");
}

/* Made of what a peer has said by means of its own: leads somewhere, or is refused. */
static void try_handle(struct world *world, unsigned number)
{
    struct input *input = &world->input;
    struct end *end = world_end(world, number);
    uint8_t how = input_u8(input);
    struct ibv_ah_attr attr = {.is_global = how & 1,
                               .port_num = how >> 1 & 1,
                               .dlid = how & 4 ? (uint16_t)(1 + number) : input_u16(input),
                               .grh = {.hop_limit = 64, .sgid_index = how >> 6}};
    const uint8_t *gid;

    network_gid(world->pair->network, world_end(world, !number)->node, &attr.grh.dgid);
    if (how & 8) {
        size_t length = input_bytes(input, &gid, 16);
        memset(&attr.grh.dgid, 0, sizeof attr.grh.dgid);
        if (length > 0)
            memcpy(attr.grh.dgid.raw, gid, length);
    }
    struct ibv_ah *ah = soft_create_ah(end->pd, &attr);
    if (ah)
        expect(!soft_destroy_ah(ah), "soft_destroy_ah");
}

static void world_open(struct world *world, const uint8_t *data, size_t size)
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
    }
}

/* ---- Work ---- */

static int read_sges(struct world *world, unsigned number, struct ibv_sge sges[4], uint32_t *length)
{
    struct input *input = &world->input;
    struct end *end = world_end(world, number);
    uint8_t how = input_u8(input);
    int count = how % 5;

    *length = 0;
    for (int i = 0; i < count; i++) {
        sges[i] = (struct ibv_sge){.addr = (uintptr_t)end->memory + input_below(input, 256) * 32,
                                   .length = how & 16 ? input_u16(input) : input_u8(input) * 4u,
                                   .lkey = end->mr ? end->mr->lkey : 0};
        if (how & 32) {
            sges[i].addr = packet_address(world, number);
            sges[i].lkey = packet_key(world, number);
        }
        *length += sges[i].length;
    }
    return count;
}

static void read_request(struct world *world, unsigned number, struct ibv_send_wr *wr)
{
    struct input *input = &world->input;
    struct end *other = world_end(world, !number);

    if (world->pair->setup.type == IBV_QPT_UD) {
        wr->wr.ud.ah = world->ah[number];
        wr->wr.ud.remote_qpn = other->qp->qp_num ^ (input_below(input, 8) == 7);
        wr->wr.ud.remote_qkey = world->pair->setup.qkey ^ (input_below(input, 8) == 7);
    } else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr->wr.atomic.remote_addr = packet_address(world, !number) & ~UINT64_C(7);
        wr->wr.atomic.rkey = packet_key(world, !number);
        wr->wr.atomic.compare_add = input_u8(input);
        wr->wr.atomic.swap = input_u8(input);
    } else {
        wr->wr.rdma.remote_addr = packet_address(world, !number);
        wr->wr.rdma.rkey = packet_key(world, !number);
    }
}

/* Inline data is read when it is posted, so it must be ours. */
static void keep_inline_honest(const struct end *end, struct ibv_send_wr *wr)
{
    for (int i = 0; wr->send_flags & IBV_SEND_INLINE && i < wr->num_sge; i++) {
        uint64_t at = wr->sg_list[i].addr - (uintptr_t)end->memory;

        if (at > end->size || wr->sg_list[i].length > end->size - at)
            wr->send_flags &= ~(unsigned)IBV_SEND_INLINE;
    }
}

static void step_send(struct world *world, unsigned number)
{
    static const enum ibv_wr_opcode opcodes[] = {
        IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,      IBV_WR_RDMA_WRITE,           IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV};
    struct end *end = world_end(world, number);
    struct ibv_sge sges[4];
    uint8_t how = input_u8(&world->input);
    struct ibv_send_wr wr = {.sg_list = sges, .opcode = opcodes[how & 7], .imm_data = how}, *bad;
    struct work_entry *entry = ledger_add(&world->ledger, &wr.wr_id);

    if (!entry)
        return;
    wr.send_flags = (how & 8 ? IBV_SEND_SIGNALED : 0) | (how & 16 ? IBV_SEND_FENCE : 0) |
                    (how & 32 ? IBV_SEND_SOLICITED : 0) | (how & 64 ? IBV_SEND_INLINE : 0);
    wr.num_sge = read_sges(world, number, sges, &entry->length);
    read_request(world, number, &wr);
    keep_inline_honest(end, &wr);
    entry->end = (uint8_t)number;
    entry->owed = world->pair->setup.all_signaled || wr.send_flags & IBV_SEND_SIGNALED;
    int error = ibv_post_send(end->qp, &wr, &bad);
    expect(!error || bad == &wr, "the refused work request is not reported in bad_wr");
    if (error)
        ledger_forget(&world->ledger, wr.wr_id);
}

static void step_receive(struct world *world, unsigned number)
{
    struct end *end = world_end(world, number);
    struct ibv_sge sges[4];
    struct ibv_recv_wr wr = {.sg_list = sges}, *bad;
    struct work_entry *entry = ledger_add(&world->ledger, &wr.wr_id);

    if (!entry)
        return;
    wr.num_sge = read_sges(world, number, sges, &entry->length);
    entry->end = (uint8_t)number;
    entry->receive = true;
    entry->shared = end->srq;
    entry->owed = !end->srq;
    int error = end->srq ? ibv_post_srq_recv(end->srq, &wr, &bad) : ibv_post_recv(end->qp, &wr, &bad);
    expect(!error || bad == &wr, "the refused receive is not reported in bad_wr");
    if (error)
        ledger_forget(&world->ledger, wr.wr_id);
}

/* ---- States ---- */

/* What a queue pair does without being told: it fails. */
static void expect_legal(struct world *world, unsigned number, enum ibv_qp_state before)
{
    enum ibv_qp_state now = qp_state(world_end(world, number)->qp);
    bool reliable = world->pair->setup.type == IBV_QPT_RC;

    expect(now == before || now == IBV_QPS_ERR || (now == IBV_QPS_SQE && !reliable && before == IBV_QPS_RTS),
           "from state %d to %d without being asked", before, now);
}

static void step_state(struct world *world, unsigned number)
{
    struct input *input = &world->input;
    struct end *end = world_end(world, number), *other = world_end(world, !number);
    struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)input_below(input, 8), .port_num = 1};

    switch (input_below(input, 9)) {
    case 0:
        qp_init(end->qp, world->pair->setup.qp_access);
        break;
    case 1:
        qp_ready_to_receive(end, end->qp, other->node, other->qp ? other->qp->qp_num : GHOST_QPN, other->psn,
                            &world->pair->setup);
        break;
    case 2:
        qp_ready_to_send(end->qp, end->psn, &world->pair->setup);
        break;
    case 3: /* anything */
        memset(&attr, input_u8(input), sizeof attr);
        attr.qp_state = (enum ibv_qp_state)input_below(input, 8);
        soft_modify_qp(end->qp, &attr, (int)input_u32(input) & 0x1ffffff);
        break;
    case 4:
        attr.cur_qp_state = (enum ibv_qp_state)input_below(input, 8);
        soft_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE);
        break;
    case 5:
        attr.en_sqd_async_notify = 1;
        soft_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
        break;
    case 6: /* begun anew, as far as RTR */
        attr.qp_state = IBV_QPS_RESET;
        soft_modify_qp(end->qp, &attr, IBV_QP_STATE);
        qp_init(end->qp, world->pair->setup.qp_access);
        qp_ready_to_receive(end, end->qp, other->node, other->qp ? other->qp->qp_num : GHOST_QPN, other->psn,
                            &world->pair->setup);
        ledger_waive(&world->ledger, number);
        break;
    default:
        soft_modify_qp(end->qp, &attr, IBV_QP_STATE);
    }
    if (qp_state(end->qp) == IBV_QPS_RESET)
        ledger_waive(&world->ledger, number);
}

/* ---- Regions, events, time ---- */

static void step_region(struct world *world, unsigned number)
{
    struct end *end = world_end(world, number);
    uint8_t how = input_u8(&world->input);

    if (how == 0xff)
        expect(!ftruncate(world->files[number], 0), "ftruncate");
    if (world->spare[number] && how & 1) {
        soft_rereg_mr(world->spare[number], how >> 1 & 7, how & 16 ? end->pd : NULL, end->memory + how, 512,
                      how >> 4);
        return;
    }
    if (world->spare[number]) {
        world->stale = world->spare[number]->rkey;
        expect(!soft_dereg_mr(world->spare[number]), "soft_dereg_mr");
        world->spare[number] = NULL;
        return;
    }
    world->spare[number] =
        soft_reg_mr_iova2(end->pd, end->memory + 8 * (how & 15), 1024 + how, how & 16 ? 0 : 4096 * how,
                          how & 32 ? ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static void step_events(struct world *world, unsigned number)
{
    struct end *end = world_end(world, number);
    struct ibv_async_event event;
    uint8_t how = input_u8(&world->input);

    ibv_req_notify_cq(how & 1 ? end->send_cq : end->recv_cq, how & 2);
    if (how & 64)
        try_handle(world, number);
    if (end->srq && how & 4)
        soft_modify_srq(end->srq, &(struct ibv_srq_attr){.srq_limit = how >> 4}, IBV_SRQ_LIMIT);
    if (how & 8) {
        soft_lock(end->context);
        soft_overflow(end->context);
        soft_flush(end->context);
        soft_unlock(end->context);
    }
    for (int i = 0; i < 4; i++) {
        struct pollfd waits = {.fd = end->context->async_fd, .events = POLLIN};
        if (poll(&waits, 1, 0) == 1 && !soft_get_async_event(end->context, &event))
            soft_ack_async_event(&event);
    }
}

/* A packet's fate is its turn in a word of the input. */
static enum fate read_fate(void *arg, const struct packet *packet)
{
    uint64_t fates = *(uint64_t *)arg;

    return (enum fate)(fates >> packet->number % 21 * 3 & 7) % (FATE_TRUNCATE + 1);
}

/* As far as a bounded number of packets and timers allows. */
static void pass_time(struct world *world)
{
    struct network *network = world->pair->network;
    uint64_t until = network_now(network) + (UINT64_C(1) << input_below(&world->input, 32));

    for (int left = PASS_STEPS; network_next(network) <= until; left--)
        if (left == 0 || !network_step(network))
            return;
    network_run_until(network, until);
}

static void step(struct world *world, uint64_t *fates)
{
    uint8_t what = input_u8(&world->input);
    unsigned number = world_end(world, what >> 7)->qp ? what >> 7 : 0;
    enum ibv_qp_state before[2] = {0};
    bool told = false;

    for (unsigned i = 0; i < 2; i++)
        if (world_end(world, i)->qp)
            before[i] = qp_state(world_end(world, i)->qp);
    switch (what & 15) {
    case 0:
    case 1:
    case 2:
        step_send(world, number);
        break;
    case 3:
    case 4:
        step_receive(world, number);
        break;
    case 5:
    case 6:
    case 7:
    case 8:
        packet_inject(world);
        break;
    case 9:
        network_run(world->pair->network, 1 + (what >> 4 & 7));
        break;
    case 10:
        pass_time(world);
        break;
    case 11:
        ledger_poll(world, number, 1 + (what >> 4 & 7));
        break;
    case 12:
        step_state(world, number);
        told = true;
        break;
    case 13:
        step_region(world, number);
        break;
    case 14:
        step_events(world, number);
        break;
    default:
        *fates = input_number(&world->input, 3);
        network_set_script(world->pair->network, *fates ? read_fate : NULL, fates);
    }
    for (unsigned i = 0; i < 2 && !told; i++)
        if (world_end(world, i)->qp)
            expect_legal(world, i, before[i]);
}

/* ---- The end ---- */

/* Everything fails, and then all that is owed is there, and time has nothing left to do. */
static void settle(struct world *world)
{
    network_set_script(world->pair->network, NULL, NULL);
    if (world->pair->setup.rnr_retry != 7) /* which is for ever */
        expect(network_run(world->pair->network, END_STEPS), "the conversation does not come to an end");
    for (unsigned i = 0; i < 2; i++)
        if (world_end(world, i)->qp)
            qp_fail(world_end(world, i)->qp);
    expect(network_run(world->pair->network, END_STEPS), "queue pairs in error go on talking");
    for (unsigned i = 0; i < 2; i++) {
        ledger_poll(world, i, WORKS + 1);
        ledger_expect_settled(world, i);
    }
}

static void world_close(struct world *world)
{
    for (unsigned i = 0; i < 2; i++) {
        struct end *end = world_end(world, i);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world = {0};
    uint64_t fates = 0;

    world_open(&world, data, size);
    for (int steps = 0; steps < STEPS && input_left(&world.input) > 0; steps++)
        step(&world, &fates);
    settle(&world);
    world_close(&world);
    return 0;
}
