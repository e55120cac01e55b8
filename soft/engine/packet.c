/* SPDX-License-Identifier: BSD-2-Clause */
/* packet.c - parses and writes headers, and converts the two encodings of times. */
#include "core/base/bytes.h"
#include "packet.h"
#include "wire.h"

#define ONLY (SOFT_OP_FIRST | SOFT_OP_LAST)
#define ANSWER(what) (SOFT_OP_ANSWER | (what))

/* An opcode's properties, and the length of the headers that they imply. */
#define HEADERS(what)                                                                                          \
    (SOFT_BTH_BYTES + ((what)&SOFT_OP_DETH ? SOFT_DETH_BYTES : 0) +                                            \
     ((what)&SOFT_OP_XRCETH ? SOFT_XRCETH_BYTES : 0) + ((what)&SOFT_OP_RETH ? SOFT_RETH_BYTES : 0) +           \
     ((what)&SOFT_OP_AETH ? SOFT_AETH_BYTES : 0) +                                                             \
     ((what) & (SOFT_OP_IMM | SOFT_OP_IETH) ? SOFT_IMM_BYTES : 0) +                                            \
     ((what)&SOFT_OP_ATOMICETH ? SOFT_ATOMIC_BYTES : 0) +                                                      \
     ((what)&SOFT_OP_ATOMICACK ? SOFT_ATOMIC_ACK_BYTES : 0))
#define OP(opcode, what) [opcode] = {.op = (what), .headers = HEADERS(what)}
#define SENDS_AND_WRITES(transport, more)                                                                      \
    OP((transport) + SOFT_SEND + 0, SOFT_OP_SEND | SOFT_OP_FIRST | (more)),                                    \
        OP((transport) + SOFT_SEND + 1, SOFT_OP_SEND | (more)),                                                \
        OP((transport) + SOFT_SEND + 2, SOFT_OP_SEND | SOFT_OP_LAST | (more)),                                 \
        OP((transport) + SOFT_SEND + 3, SOFT_OP_SEND | SOFT_OP_LAST | SOFT_OP_IMM | (more)),                   \
        OP((transport) + SOFT_SEND + 4, SOFT_OP_SEND | ONLY | (more)),                                         \
        OP((transport) + SOFT_SEND + 5, SOFT_OP_SEND | ONLY | SOFT_OP_IMM | (more)),                           \
        OP((transport) + SOFT_WRITE + 0, SOFT_OP_WRITE | SOFT_OP_FIRST | SOFT_OP_RETH | (more)),               \
        OP((transport) + SOFT_WRITE + 1, SOFT_OP_WRITE | (more)),                                              \
        OP((transport) + SOFT_WRITE + 2, SOFT_OP_WRITE | SOFT_OP_LAST | (more)),                               \
        OP((transport) + SOFT_WRITE + 3, SOFT_OP_WRITE | SOFT_OP_LAST | SOFT_OP_IMM | (more)),                 \
        OP((transport) + SOFT_WRITE + 4, SOFT_OP_WRITE | ONLY | SOFT_OP_RETH | (more)),                        \
        OP((transport) + SOFT_WRITE + 5, SOFT_OP_WRITE | ONLY | SOFT_OP_RETH | SOFT_OP_IMM | (more))
/* Further opcodes of reliable transports. Their responses have no extra headers. */
#define ANSWERED(transport, more)                                                                              \
    OP((transport) + SOFT_READ_REQUEST, SOFT_OP_READ | ONLY | SOFT_OP_RETH | (more)),                          \
        OP((transport) + SOFT_READ_FIRST, ANSWER(SOFT_OP_READ) | SOFT_OP_FIRST | SOFT_OP_AETH),                \
        OP((transport) + SOFT_READ_MIDDLE, ANSWER(SOFT_OP_READ)),                                              \
        OP((transport) + SOFT_READ_LAST, ANSWER(SOFT_OP_READ) | SOFT_OP_LAST | SOFT_OP_AETH),                  \
        OP((transport) + SOFT_READ_ONLY, ANSWER(SOFT_OP_READ) | ONLY | SOFT_OP_AETH),                          \
        OP((transport) + SOFT_ACK, ANSWER(SOFT_OP_AETH)),                                                      \
        OP((transport) + SOFT_ATOMIC_ACK, ANSWER(SOFT_OP_ATOMIC) | SOFT_OP_AETH | SOFT_OP_ATOMICACK),          \
        OP((transport) + SOFT_CMP_SWAP, SOFT_OP_ATOMIC | ONLY | SOFT_OP_ATOMICETH | (more)),                   \
        OP((transport) + SOFT_FETCH_ADD, SOFT_OP_ATOMIC | ONLY | SOFT_OP_ATOMICETH | (more)),                  \
        OP((transport) + SOFT_SEND_LAST_INV, SOFT_OP_SEND | SOFT_OP_LAST | SOFT_OP_IETH | (more)),             \
        OP((transport) + SOFT_SEND_ONLY_INV, SOFT_OP_SEND | ONLY | SOFT_OP_IETH | (more))

/* Opcodes that are 0 here are not supported (flush, atomic write) or reserved. Datagrams are SENDs of one packet. */
static const struct {
    uint16_t op;
    uint8_t headers; /* bytes */
} ops[UINT8_MAX + 1] = {
    SENDS_AND_WRITES(SOFT_RC, 0),
    ANSWERED(SOFT_RC, 0),
    SENDS_AND_WRITES(SOFT_UC, 0),
    OP(SOFT_UD + SOFT_SEND + 4, SOFT_OP_SEND | ONLY | SOFT_OP_DETH),
    OP(SOFT_UD + SOFT_SEND + 5, SOFT_OP_SEND | ONLY | SOFT_OP_DETH | SOFT_OP_IMM),
    SENDS_AND_WRITES(SOFT_XRC, SOFT_OP_XRCETH),
    ANSWERED(SOFT_XRC, SOFT_OP_XRCETH),
};

/* The headers with further addressing (XRCETH, DETH). */
static const uint8_t *parse_addressed(struct soft_packet *packet, const uint8_t *at)
{
    if (packet->op & SOFT_OP_XRCETH) {
        packet->srqn = get24(at + 1);
        return at + SOFT_XRCETH_BYTES;
    }
    packet->qkey = get32(at);
    packet->source = get24(at + 5);
    return at + SOFT_DETH_BYTES;
}

/* Parses the headers behind the BTH; returns where the payload starts. */
static const uint8_t *parse_extended(struct soft_packet *packet, const uint8_t *at)
{
    unsigned op = packet->op;

    if (op & (SOFT_OP_DETH | SOFT_OP_XRCETH))
        at = parse_addressed(packet, at);
    if (op & (SOFT_OP_RETH | SOFT_OP_ATOMICETH)) {
        packet->va = get64(at);
        packet->rkey = get32(at + 8);
        if (op & SOFT_OP_RETH)
            packet->dma_length = get32(at + 12);
        at += 12 + (op & SOFT_OP_RETH ? 4 : 0);
    }
    if (op & SOFT_OP_ATOMICETH) {
        packet->swap_add = get64(at);
        packet->compare = get64(at + 8);
        at += 16;
    }
    if (op & SOFT_OP_AETH) {
        packet->syndrome = at[0];
        packet->msn = get24(at + 1);
        at += SOFT_AETH_BYTES;
    }
    if (op & SOFT_OP_ATOMICACK) {
        packet->original = get64(at);
        at += SOFT_ATOMIC_ACK_BYTES;
    }
    if (op & (SOFT_OP_IMM | SOFT_OP_IETH)) {
        memcpy(&packet->imm, at, SOFT_IMM_BYTES);
        at += SOFT_IMM_BYTES;
    }
    return at;
}

/* Looks up an opcode's properties and the length of its headers. False: unknown transport. */
static inline bool look_up(struct soft_packet *packet, uint8_t opcode, size_t *headers)
{
    if (ops[opcode].op == 0 && opcode >= SOFT_UC)
        return false;
    packet->op = ops[opcode].op != 0 ? ops[opcode].op : SOFT_OP_UNKNOWN;
    *headers = ops[opcode].op != 0 ? ops[opcode].headers : SOFT_BTH_BYTES;
    return true;
}

inline bool soft_packet_parse(struct soft_packet *packet, const uint8_t *bytes, size_t length)
{
    size_t before, pad;

    if (length < SOFT_BTH_BYTES || length > SOFT_PACKET_MAX || (bytes[1] & 0x0f) != 0)
        return false;
    packet->opcode = bytes[0];
    if (!look_up(packet, bytes[0], &before))
        return false;
    pad = (bytes[1] >> 4) & 3;
    if (length < before + pad || (length & 3) != 0)
        return false;
    packet->solicited = bytes[1] & 0x80;
    packet->pkey = (uint16_t)(bytes[2] << 8 | bytes[3]);
    packet->qpn = get32(bytes + 4) & SOFT_PSN_MASK; /* as wide as a PSN */
    packet->ack_request = bytes[8] & 0x80;
    packet->psn = get32(bytes + 8) & SOFT_PSN_MASK;
    packet->payload = parse_extended(packet, bytes + SOFT_BTH_BYTES);
    packet->length = (uint32_t)(length - before - pad);
    return true;
}

uint8_t *soft_put_bth(uint8_t *at, const struct soft_bth *bth)
{
    at[0] = bth->opcode;
    at[1] = (uint8_t)(bth->solicited << 7 | 0x40 | bth->pad << 4); /* MigReq is set, as by adapters */
    at[2] = SOFT_PKEY >> 8;
    at[3] = SOFT_PKEY & 0xff;
    put32(at + 4, bth->qpn & 0xffffff);
    put32(at + 8, (uint32_t)bth->ack_request << 31 | (bth->psn & SOFT_PSN_MASK));
    return at + SOFT_BTH_BYTES;
}

uint8_t *soft_put_reth(uint8_t *at, uint64_t va, uint32_t rkey, uint32_t length)
{
    return put32(put32(put64(at, va), rkey), length);
}

uint8_t *soft_put_atomic(uint8_t *at, uint64_t va, uint32_t rkey, uint64_t swap_add, uint64_t compare)
{
    return put64(put64(put32(put64(at, va), rkey), swap_add), compare);
}

uint8_t *soft_put_deth(uint8_t *at, uint32_t qkey, uint32_t source)
{
    return put32(put32(at, qkey), source & 0xffffff);
}

uint8_t *soft_put_xrceth(uint8_t *at, uint32_t srqn)
{
    return put32(at, srqn & 0xffffff);
}

uint8_t *soft_put_aeth(uint8_t *at, uint8_t syndrome, uint32_t msn)
{
    return put32(at, (uint32_t)syndrome << 24 | (msn & 0xffffff));
}

uint64_t soft_rnr_time(uint8_t code)
{
    /* In units of 10 us, from the specification's table; code 0 is the longest. */
    static const uint16_t tens[32] = {0,    1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                      48,   64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                      2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

    return (code & 31) == 0 ? UINT64_C(655360000) : UINT64_C(10000) * tens[code & 31];
}

uint64_t soft_ack_time(uint8_t timeout)
{
    return timeout == 0 ? 0 : UINT64_C(4096) << (timeout & 31);
}
