/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.c - fuzzes the engine: work requests are posted, packets are lost, duplicated and forged, time passes, states
 * change, regions are registered and deregistered, in any order.
 *
 * For every input: a work request completes at most once, and exactly once where verbs require it; memory without
 * permission (guards, a read-only region) is not written; states change only as verbs permit; the conversation ends on
 * the virtual clock, and all objects can be destroyed.
 */
#include "check/fuzz/engine.h"
#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum { STEPS = 200, PASS_STEPS = 300, END_STEPS = 100000 };

/* ---- States ---- */

/* Without a call a queue pair may only fail. */
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
    case 3: /* any attributes */
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
    case 6: /* reset, and then up to RTR */
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
        if (world->mw[number] && how & 2)
            world_renew_window(world, number);
        world->stale = world->spare[number]->rkey;
        int error = soft_dereg_mr(world->spare[number]);
        if (error == EBUSY && world->mw[number] && !(how & 2))
            return; /* a window is bound to it */
        expect(!error, "soft_dereg_mr");
        world->spare[number] = NULL;
        return;
    }
    world->spare[number] =
        soft_reg_mr_iova2(end->pd, end->memory + 8 * (how & 15), 1024 + how, how & 16 ? 0 : 4096 * how,
                          (how & 32 ? ACCESS_ALL | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND : 0) |
                              (how & 64 ? IBV_ACCESS_ZERO_BASED : 0));
}

/* Creates an address handle from what a peer could send: it is valid, or refused. */
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
        soft_overflow(end->context, 0);
        soft_flush(end->context);
        soft_unlock(end->context);
    }
    for (int i = 0; i < 4; i++) {
        struct pollfd waits = {.fd = end->context->async_fd, .events = POLLIN};
        if (poll(&waits, 1, 0) == 1 && !soft_get_async_event(end->context, &event))
            soft_ack_async_event(&event);
    }
}

/* The fate of a packet is read from a word of the input. */
static enum fate read_fate(void *arg, const struct packet *packet)
{
    uint64_t fates = *(uint64_t *)arg;

    return (enum fate)(fates >> packet->number % 21 * 3 & 7) % (FATE_TRUNCATE + 1);
}

/* Advances the time, but processes a limited number of packets and timers. */
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
        work_send(world, number);
        break;
    case 3:
    case 4:
        work_receive(world, number);
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

/* All queue pairs fail; then all required completions must be there, and no timer may run. */
static void settle(struct world *world)
{
    network_set_script(world->pair->network, NULL, NULL);
    if (world->pair->setup.rnr_retry != 7) /* 7: for ever */
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
