/* SPDX-License-Identifier: BSD-2-Clause */
/* engine_work.c - the work requests that the input posts, valid and invalid. The ledger has an entry for each. */
#include "check/fuzz/engine.h"

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
            sges[i].lkey = packet_fitting_key(world, number, sges[i].addr, packet_key(world, number));
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
        wr->wr.atomic.rkey =
            packet_fitting_key(world, !number, wr->wr.atomic.remote_addr, packet_key(world, !number));
        wr->wr.atomic.compare_add = input_u8(input);
        wr->wr.atomic.swap = input_u8(input);
    } else {
        wr->wr.rdma.remote_addr = packet_address(world, !number);
        wr->wr.rdma.rkey =
            packet_fitting_key(world, !number, wr->wr.rdma.remote_addr, packet_key(world, !number));
    }
}

/* A local operation: it invalidates a key, or binds the memory window to any part of any memory region. */
static void read_local(struct world *world, unsigned number, struct ibv_send_wr *wr)
{
    struct input *input = &world->input;
    struct ibv_mr *regions[] = {world_end(world, number)->mr, world->spare[number], world->locked_mr[number],
                                world->vanishing_mr[number]};
    struct ibv_mw *mw = world->mw[number];

    wr->num_sge = 0;
    wr->send_flags &= ~(unsigned)IBV_SEND_INLINE;
    if (wr->opcode == IBV_WR_LOCAL_INV) {
        wr->invalidate_rkey = packet_key(world, number);
        return;
    }
    wr->bind_mw.mw = mw;
    wr->bind_mw.rkey = mw ? (mw->rkey & ~0xffu) | input_u8(input) : 0;
    wr->bind_mw.bind_info.mr = regions[input_below(input, 4)];
    wr->bind_mw.bind_info.addr = packet_address(world, number);
    wr->bind_mw.bind_info.length = input_u16(input);
    wr->bind_mw.bind_info.mw_access_flags =
        input_u8(input) &
        (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED);
}

/* Posting reads inline data at once, so it must be in valid memory. */
static void keep_inline_honest(const struct end *end, struct ibv_send_wr *wr)
{
    for (int i = 0; wr->send_flags & IBV_SEND_INLINE && i < wr->num_sge; i++) {
        uint64_t at = wr->sg_list[i].addr - (uintptr_t)end->memory;

        if (at > end->size || wr->sg_list[i].length > end->size - at)
            wr->send_flags &= ~(unsigned)IBV_SEND_INLINE;
    }
}

void work_send(struct world *world, unsigned number)
{
    static const enum ibv_wr_opcode opcodes[] = {
        IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,      IBV_WR_RDMA_WRITE,           IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV};
    static const enum ibv_wr_opcode locals[] = {IBV_WR_LOCAL_INV, IBV_WR_BIND_MW};
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
    if (how & 128 && (how & 7) >= 6)
        wr.opcode = locals[how & 1];
    if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_BIND_MW)
        read_local(world, number, &wr);
    else
        read_request(world, number, &wr);
    wr.qp_type.xrc.remote_srqn = world_end(world, !number)->srqn;
    if (world->pair->setup.type == IBV_QPT_XRC_SEND && input_below(&world->input, 16) == 15)
        wr.qp_type.xrc.remote_srqn++;
    if (wr.opcode == IBV_WR_SEND_WITH_INV)
        wr.invalidate_rkey = packet_key(world, !number);
    keep_inline_honest(end, &wr);
    entry->end = (uint8_t)number;
    entry->owed = world->pair->setup.all_signaled || wr.send_flags & IBV_SEND_SIGNALED;
    int error = ibv_post_send(end->qp, &wr, &bad);
    expect(!error || bad == &wr, "the refused work request is not reported in bad_wr");
    if (error)
        ledger_forget(&world->ledger, wr.wr_id);
    else if (wr.opcode == IBV_WR_BIND_MW)
        wr.bind_mw.mw->rkey = wr.bind_mw.rkey;
}

void work_receive(struct world *world, unsigned number)
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
