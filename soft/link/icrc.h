/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * icrc.h - RoCEv2's invariant CRC (ICRC), which covers the parts of a packet that no router changes.
 *
 * The ICRC covers the IP and UDP headers, too, with ones in place of the fields that routers change. A program that
 * sends through a UDP socket does not see these headers, so they are rebuilt here from the packet's path. A receiver
 * can't know one field of them: IPv4's identification, which the sender's kernel chooses. struct icrc_shift finds it if
 * the sender is EXS, icrc_id.h for other senders.
 */
#ifndef SOFT_ICRC_H
#define SOFT_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "soft/engine/wire.h"

#define ICRC_SIZE 4 /* bytes */

#define ICRC_KNOWN 16 /* entries of the cache: packets of 4 KiB in one batch */

/* The masked headers of the packets of one flow (8 bytes of ones, IP, UDP), and a cache of the CRC over the headers of
 * the last packets, indexed by the identification modulo ICRC_KNOWN. Plain data; the caller owns it. */
struct icrc_flow {
    uint8_t head[8 + 40 + 8];
    uint8_t ip;   /* bytes of the IP header: 20 or 40 */
    uint8_t size; /* bytes of head in use */
    struct {
        uint64_t packet; /* the packet's length << 32, and its identification; 0: the entry is unused */
        uint32_t crc;
    } known[ICRC_KNOWN];
};

/* Initializes the headers of a flow: from path->local to path->remote if `sent`, otherwise in the other direction. */
void icrc_flow_init(struct icrc_flow *flow, const struct soft_path *path, bool sent);

/* Returns the ICRC of a packet with IPv4 identification `id` (ignored for IPv6). `length` is the number of its bytes
 * from the BTH on, without the ICRC, at least 12. */
uint32_t icrc_compute(struct icrc_flow *flow, unsigned id, const uint8_t *packet, size_t length);

/* Write and read an ICRC, which is little-endian on the wire. */
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

/* Says how the ICRC changes when bits of the identification change. A CRC is linear, so the change depends only on
 * these bits and on the packet's length. The struct is a cache for the last length; initially all zero. */
#define ICRC_IDS 64 /* EXS sends identifications from 0 to ICRC_IDS - 1 */
struct icrc_shift {
    size_t length;
    uint32_t by[ICRC_IDS]; /* by[x]: for identifications whose exclusive or is x */
};

/* Returns whether the received ICRC is right for another identification from 0 to ICRC_IDS - 1 than the one for which
 * it was computed. `difference` is the exclusive or of the computed and the received ICRC. IPv4 only. */
bool icrc_other_id(struct icrc_shift *shift, size_t length, uint32_t difference);

#endif
