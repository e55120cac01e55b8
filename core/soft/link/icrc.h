/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * icrc.h - RoCEv2's invariant CRC: the check over everything of a packet that no router may change.
 *
 * It covers the IP and UDP headers too, with the fields that do change on the way replaced by ones. Whoever
 * sends through a UDP socket never sees those headers, so they are rebuilt here from the packet's path. One of
 * them can't be known for sure by a receiver: IPv4's identification, which a sender's kernel chooses. For that
 * there is struct icrc_shift.
 */
#ifndef SOFT_ICRC_H
#define SOFT_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/soft/engine/wire.h"

#define ICRC_SIZE 4

#define ICRC_KNOWN 16 /* as many as a train has packets, where those are of 4 KiB */

/* The headers in front of every packet of one flow, masked: 8 bytes of ones in the place of the link's header,
 * IP and UDP; and the CRC of them for the packets that it had last, by the identification. Plain data, its
 * holder's. */
struct icrc_flow {
    uint8_t head[8 + 40 + 8];
    uint8_t ip;   /* bytes of the IP header: 20 or 40 */
    uint8_t size; /* bytes of head in use */
    struct {
        uint64_t packet; /* its length, and in the lower half the identification; 0: none */
        uint32_t crc;
    } known[ICRC_KNOWN];
};

/* `path` is as seen by the one who holds it: sent goes from local to remote, received came from remote. */
void icrc_flow_init(struct icrc_flow *flow, const struct soft_path *path, bool sent);

/* The check of a packet of `length` bytes, from the BTH on and without the check itself (12 at least), that
 * travels under IPv4 identification `id` (without meaning in IPv6). */
uint32_t icrc_compute(struct icrc_flow *flow, unsigned id, const uint8_t *packet, size_t length);

/* On the wire the check stands least significant byte first. */
static inline void icrc_store(uint8_t *at, uint32_t crc)
{
    at[0] = (uint8_t)crc;
    at[1] = (uint8_t)(crc >> 8);
    at[2] = (uint8_t)(crc >> 16);
    at[3] = (uint8_t)(crc >> 24);
}

static inline uint32_t icrc_load(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* By how much the check changes when bits of the identification change. A CRC is linear, so that depends on
 * the packet's length alone; remembered for the last length asked for. All zero is a good start. */
#define ICRC_IDS 64
struct icrc_shift {
    size_t length;
    uint32_t by[ICRC_IDS]; /* by[x]: identifications that differ by x */
};

/* Was it a right check, but for another identification from 0 to ICRC_IDS - 1? `difference` is the exclusive
 * or of the check computed and the one that came; IPv4 only. */
bool icrc_other_id(struct icrc_shift *shift, size_t length, uint32_t difference);

#endif
