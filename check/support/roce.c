/* SPDX-License-Identifier: BSD-2-Clause */
/* roce.c - see roce.h. */
#include "roce.h"
#include <string.h>

enum {
    RETH = 1,
    AETH = 2,
    IMM = 4,
    KNOWN = 8,
    ATOMIC = 16,
    ORIGINAL = 32,
    DETH = 64,
    IETH = 128,
    XRCETH = 256
};

static const uint8_t parts[] = {
    [SEND_FIRST] = KNOWN,
    [SEND_MIDDLE] = KNOWN,
    [SEND_LAST] = KNOWN,
    [SEND_LAST_IMM] = KNOWN | IMM,
    [SEND_ONLY] = KNOWN,
    [SEND_ONLY_IMM] = KNOWN | IMM,
    [WRITE_FIRST] = KNOWN | RETH,
    [WRITE_MIDDLE] = KNOWN,
    [WRITE_LAST] = KNOWN,
    [WRITE_LAST_IMM] = KNOWN | IMM,
    [WRITE_ONLY] = KNOWN | RETH,
    [WRITE_ONLY_IMM] = KNOWN | RETH | IMM,
    [READ_REQUEST] = KNOWN | RETH,
    [READ_RESPONSE_FIRST] = KNOWN | AETH,
    [READ_RESPONSE_MIDDLE] = KNOWN,
    [READ_RESPONSE_LAST] = KNOWN | AETH,
    [READ_RESPONSE_ONLY] = KNOWN | AETH,
    [ACKNOWLEDGE] = KNOWN | AETH,
    [ATOMIC_ACKNOWLEDGE] = KNOWN | AETH | ORIGINAL,
    [COMPARE_SWAP] = KNOWN | ATOMIC,
    [FETCH_ADD] = KNOWN | ATOMIC,
    [SEND_LAST_INV] = KNOWN | IETH,
    [SEND_ONLY_INV] = KNOWN | IETH,
};

static bool is_answer(unsigned opcode)
{
    return opcode >= READ_RESPONSE_FIRST && opcode <= ATOMIC_ACKNOWLEDGE;
}

static unsigned parts_of(unsigned opcode)
{
    if (opcode >= ROCE_UC && opcode <= ROCE_UC + WRITE_ONLY_IMM)
        return parts[opcode - ROCE_UC];
    if (opcode >= ROCE_XRC && opcode < ROCE_XRC + sizeof parts && parts[opcode - ROCE_XRC])
        return parts[opcode - ROCE_XRC] | (is_answer(opcode - ROCE_XRC) ? 0 : XRCETH);
    if (opcode == ROCE_UD + SEND_ONLY || opcode == ROCE_UD + SEND_ONLY_IMM)
        return parts[opcode - ROCE_UD] | DETH;
    return opcode < sizeof parts ? parts[opcode] : 0;
}

int roce_extension(unsigned opcode)
{
    unsigned has = parts_of(opcode);
    if (!has)
        return -1;
    return (has & RETH ? ROCE_RETH : 0) + (has & ATOMIC ? ROCE_ATOMIC : 0) + (has & AETH ? ROCE_AETH : 0) +
           (has & ORIGINAL ? ROCE_ORIGINAL : 0) + (has & IMM ? ROCE_IMM : 0) + (has & DETH ? ROCE_DETH : 0) +
           (has & IETH ? ROCE_IETH : 0) + (has & XRCETH ? ROCE_XRCETH : 0);
}

static uint64_t get(const uint8_t *from, int bytes)
{
    uint64_t value = 0;
    while (bytes--)
        value = value << 8 | *from++;
    return value;
}

static uint8_t *put(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
    return to + bytes;
}

static void read_bth(struct roce *roce, const uint8_t *packet)
{
    roce->opcode = packet[0];
    roce->solicited = packet[1] & 0x80;
    roce->migreq = packet[1] & 0x40;
    roce->pad = packet[1] >> 4 & 3;
    roce->version = packet[1] & 0x0f;
    roce->pkey = (uint16_t)get(packet + 2, 2);
    roce->congestion = packet[4];
    roce->qpn = (uint32_t)get(packet + 5, 3);
    roce->ackreq = packet[8] & 0x80;
    roce->reserved = packet[8] & 0x7f;
    roce->psn = (uint32_t)get(packet + 9, 3);
}

static const uint8_t *read_remote(struct roce *roce, unsigned has, const uint8_t *next)
{
    roce->va = get(next, 8);
    roce->rkey = (uint32_t)get(next + 8, 4);
    if (has & RETH) {
        roce->has_reth = true;
        roce->dma_length = (uint32_t)get(next + 12, 4);
        return next + ROCE_RETH;
    }
    roce->has_atomic = true;
    roce->swap_add = get(next + 12, 8);
    roce->compare = get(next + 20, 8);
    return next + ROCE_ATOMIC;
}

static const uint8_t *read_answer(struct roce *roce, unsigned has, const uint8_t *next)
{
    roce->has_aeth = true;
    roce->syndrome = next[0];
    roce->msn = (uint32_t)get(next + 1, 3);
    if (!(has & ORIGINAL))
        return next + ROCE_AETH;
    roce->has_original = true;
    roce->original = get(next + ROCE_AETH, 8);
    return next + ROCE_AETH + ROCE_ORIGINAL;
}

bool roce_read(struct roce *roce, const uint8_t *packet, size_t length)
{
    memset(roce, 0, sizeof *roce);
    if (length < ROCE_BTH)
        return false;
    read_bth(roce, packet);
    int extension = roce_extension(roce->opcode);
    if (extension < 0 || length < (size_t)(ROCE_BTH + extension + roce->pad))
        return false;
    unsigned has = parts_of(roce->opcode);
    const uint8_t *next = packet + ROCE_BTH;
    if (has & XRCETH) {
        roce->has_xrceth = true;
        roce->srqn = (uint32_t)get(next + 1, 3);
        next += ROCE_XRCETH;
    }
    if (has & DETH) {
        roce->has_deth = true;
        roce->qkey = (uint32_t)get(next, 4);
        roce->source = (uint32_t)get(next + 5, 3);
        next += ROCE_DETH;
    }
    if (has & (RETH | ATOMIC))
        next = read_remote(roce, has, next);
    if (has & AETH)
        next = read_answer(roce, has, next);
    if (has & IMM) {
        roce->has_imm = true;
        memcpy(&roce->imm, next, sizeof roce->imm);
        next += ROCE_IMM;
    }
    if (has & IETH) {
        roce->has_ieth = true;
        roce->invalidate = (uint32_t)get(next, 4);
        next += ROCE_IETH;
    }
    roce->payload = next;
    roce->payload_length = length - (size_t)(next - packet) - roce->pad;
    return true;
}

size_t roce_write(uint8_t *packet, const struct roce *roce)
{
    uint8_t pad = -roce->payload_length & 3;
    uint8_t *next = packet;
    *next++ = roce->opcode;
    *next++ = (uint8_t)(roce->solicited << 7 | roce->migreq << 6 | pad << 4 | (roce->version & 15));
    next = put(next, roce->pkey, 2);
    *next++ = roce->congestion;
    next = put(next, roce->qpn, 3);
    *next++ = (uint8_t)(roce->ackreq << 7 | (roce->reserved & 0x7f));
    next = put(next, roce->psn, 3);
    unsigned has = parts_of(roce->opcode);
    if (has & XRCETH)
        next = put(next, roce->srqn, 4);
    if (has & DETH)
        next = put(put(next, roce->qkey, 4), roce->source, 4);
    if (has & (RETH | ATOMIC))
        next = put(put(next, roce->va, 8), roce->rkey, 4);
    if (has & RETH)
        next = put(next, roce->dma_length, 4);
    if (has & ATOMIC)
        next = put(put(next, roce->swap_add, 8), roce->compare, 8);
    if (has & AETH)
        next = put(put(next, roce->syndrome, 1), roce->msn, 3);
    if (has & ORIGINAL)
        next = put(next, roce->original, 8);
    if (has & IMM) {
        memcpy(next, &roce->imm, sizeof roce->imm);
        next += ROCE_IMM;
    }
    if (has & IETH)
        next = put(next, roce->invalidate, 4);
    if (roce->payload_length)
        memcpy(next, roce->payload, roce->payload_length);
    next += roce->payload_length;
    memset(next, 0, pad);
    return (size_t)(next + pad - packet);
}
