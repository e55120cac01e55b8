/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine_packet.c - packets that no peer has sent: each is built like the packet that is expected next, and the input
 * may then spoil any of its fields.
 */
#include "check/fuzz/engine.h"
#include "soft/engine/mw.h"

uint32_t packet_key(struct world *world, unsigned number)
{
    struct end *end = world_end(world, number);

    switch (input_below(&world->input, 16)) {
    case 8:
        return world->mw[number] ? world->mw[number]->rkey : 0;
    case 9:
        return world->vanishing_mr[number] ? world->vanishing_mr[number]->rkey : 0;
    case 10:
        return world->locked_mr[number] ? world->locked_mr[number]->rkey : 0;
    case 11:
        return world->spare[number] ? world->spare[number]->rkey : world->stale;
    case 12:
        return world->stale;
    case 13:
        return input_u32(&world->input);
    case 14:
        return end->rkey ^ 1u << input_below(&world->input, 32);
    default:
        return end->rkey;
    }
}

uint32_t packet_fitting_key(const struct world *world, unsigned number, uint64_t address, uint32_t key)
{
    const struct end *end = &world->pair->end[number & 1];

    const struct soft_mw *mw = (const struct soft_mw *)world->mw[number];

    if (key != end->rkey)
        return key;
    if (mw && mw->region && address - mw->range.iova < mw->range.ibv.length)
        return mw->key;
    if (world->locked_mr[number] && address - (uintptr_t)world->locked[number] < LOCKED)
        return world->locked_mr[number]->rkey;
    if (world->vanishing_mr[number] && address - (uintptr_t)world->vanishing[number] < LOCKED)
        return world->vanishing_mr[number]->rkey;
    return key;
}

uint64_t packet_address(struct world *world, unsigned number)
{
    struct end *end = world_end(world, number);

    switch (input_below(&world->input, 8)) {
    case 4:
        return (uintptr_t)world->vanishing[number] + input_u8(&world->input);
    case 5:
        /* Beyond the end of the region. */
        return (uintptr_t)end->memory + end->size - input_below(&world->input, 256);
    case 6:
        return (uintptr_t)world->locked[number] + input_below(&world->input, LOCKED);
    case 7:
        return input_u64(&world->input);
    default:
        return (uintptr_t)end->memory + input_below(&world->input, 128) * 64;
    }
}

/* The PSN that the queue pair expects next: of a request, or of a response. */
static uint32_t expected_psn(const struct end *end, bool answer)
{
    const struct soft_qp *qp = soft_qp_of(end->qp);

    return roce_psn((uint32_t)(answer ? qp->req.una : qp->resp.expected));
}

static size_t payload_length(struct world *world, const struct end *end)
{
    size_t mtu = soft_qp_of(end->qp)->mtu;

    switch (input_below(&world->input, 8)) {
    case 0:
    case 1:
    case 2:
        return mtu;
    case 3:
        return 0;
    case 4:
        return 4u * input_below(&world->input, 256);
    case 5:
        return (mtu + input_below(&world->input, 9) - 4) % 4097;
    case 6:
        return 40;
    default:
        return input_u8(&world->input);
    }
}

static uint8_t opcode_of(struct world *world, const struct end *end)
{
    uint8_t byte = input_u8(&world->input);

    return byte < 0xe0 ? (uint8_t)(byte % 0x18 | soft_qp_of(end->qp)->transport) : input_u8(&world->input);
}

static void fill_headers(struct world *world, unsigned number, struct roce *roce)
{
    static const uint8_t syndromes[] = {
        SYNDROME_ACK,       0,   SYNDROME_RNR + 1, SYNDROME_SEQUENCE, SYNDROME_INVALID_REQUEST, SYNDROME_ACCESS,
        SYNDROME_OPERATION, 0x7f};
    struct input *input = &world->input;
    struct end *end = world_end(world, number), *other = world_end(world, !number);
    uint8_t how = input_u8(input);

    roce->migreq = true;
    roce->pkey = 0xffff;
    roce->qpn = end->qp->qp_num;
    roce->ackreq = how & 1;
    roce->solicited = how & 2;
    roce->opcode = opcode_of(world, end);
    bool answer = (roce->opcode & 0x1f) >= READ_RESPONSE_FIRST && (roce->opcode & 0x1f) <= ATOMIC_ACKNOWLEDGE;
    roce->psn = roce_psn(expected_psn(end, answer) + (how & 4 ? (uint32_t)(int8_t)input_u8(input) : 0));
    if (how & 8)
        roce->psn = roce_psn(input_u32(input));
    roce->qkey = how & 16 ? input_u32(input) : world->pair->setup.qkey;
    roce->source = other->qp ? other->qp->qp_num : GHOST_QPN;
    roce->srqn = end->srqn;
    if (end->xrcd && input_below(input, 8) == 7)
        roce->srqn ^= 1u << input_below(input, 24);
    roce->payload_length = payload_length(world, end);
    roce->rkey = packet_key(world, number);
    roce->va = packet_address(world, number);
    roce->rkey = packet_fitting_key(world, number, roce->va, roce->rkey);
    roce->invalidate = roce->rkey;
    roce->dma_length =
        how & 32 ? input_u32(input) : (uint32_t)roce->payload_length * (1 + input_below(input, 4));
    if ((roce->opcode & 0x1f) == COMPARE_SWAP || (roce->opcode & 0x1f) == FETCH_ADD)
        roce->va &= how & 64 ? ~UINT64_C(0) : ~UINT64_C(7);
    roce->swap_add = how & 128 ? input_u64(input) : 1;
    roce->compare = 0;
    roce->syndrome = syndromes[input_below(input, 8)];
    if (roce->syndrome == 0x7f)
        roce->syndrome = input_u8(input);
    roce->msn = input_u8(input);
    if ((roce->opcode & 0x1f) >= READ_REQUEST && (roce->opcode & 0x1f) != READ_RESPONSE_FIRST &&
        (roce->opcode & 0x1f) != READ_RESPONSE_MIDDLE && (roce->opcode & 0x1f) != READ_RESPONSE_LAST &&
        (roce->opcode & 0x1f) != READ_RESPONSE_ONLY && how & 1)
        roce->payload_length = 0;
}

/* The packet's source and destination, most often those of the queue pair's connection. */
static void choose_path(struct world *world, unsigned number, struct soft_path *path)
{
    struct end *end = world_end(world, number);

    network_path(world->pair->network, end->node, world_end(world, !number)->node, path);
    switch (input_below(&world->input, 32)) {
    case 28:
        path->remote.in.sin_port ^= 0x0101;
        break;
    case 29:
        path->remote = path->local;
        break;
    case 30:
        path->remote.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        break;
    case 31: /* an IPv4 peer's address, IPv4-mapped as an IPv6 socket reports it */
        if (path->remote.sa.sa_family == AF_INET) {
            struct in_addr address = path->remote.in.sin_addr;

            path->remote.in6 =
                (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr.s6_addr = {[10] = 0xff, 0xff}};
            memcpy(path->remote.in6.sin6_addr.s6_addr + 12, &address, 4);
        }
        break;
    default:
        break;
    }
}

void packet_inject(struct world *world)
{
    static const uint8_t payload[4200];
    uint8_t packet[ROCE_MAX + 128];
    unsigned number = input_u8(&world->input) & 1;
    struct roce roce = {.payload = payload};
    struct soft_path path;

    if (!world_end(world, number)->qp)
        number = 0;
    choose_path(world, number, &path);
    fill_headers(world, number, &roce);
    size_t length = roce_write(packet, &roce);
    for (unsigned changes = input_u8(&world->input) & 3; changes > 0; changes--) {
        uint8_t at = input_u8(&world->input);
        if (at < length)
            packet[at] ^= input_u8(&world->input);
    }
    if (input_below(&world->input, 16) == 15)
        length = input_u16(&world->input) % (length + 1);
    network_inject_on(world->pair->network, world_end(world, number)->node, &path, packet, length);
}
