/* SPDX-License-Identifier: BSD-2-Clause */
/* icrc.c - RoCEv2's invariant CRC over rebuilt headers; libdeflate computes the CRC. */
#include <string.h>
#include <libdeflate.h>
#include "core/base/bytes.h"
#include "icrc.h"

#define LINK_SIZE 8 /* bytes of ones in place of the link-layer header */
#define UDP_SIZE 8
#define BTH_SIZE 12
#define BTH_MARKS 4 /* FECN, BECN and reserved bits: a switch may set them */
#define PROTOCOL_UDP 17
#define MASKED 0xff
#define MARKS_MASKED                                                                                           \
    0x0f6a70d9 /* exclusive or with the CRC before a BTH, as if byte BTH_MARKS were MASKED, not 0 */

static void put_ipv4(uint8_t *ip, const struct sockaddr_in *from, const struct sockaddr_in *to)
{
    ip[0] = 0x45;
    ip[6] = 0x40; /* don't fragment */
    ip[7] = 0;
    ip[9] = PROTOCOL_UDP;
    memcpy(ip + 12, &from->sin_addr, 4);
    memcpy(ip + 16, &to->sin_addr, 4);
}

static void put_ipv6(uint8_t *ip, const struct sockaddr_in6 *from, const struct sockaddr_in6 *to)
{
    ip[0] = 0x6f; /* the version is covered, the traffic class and the flow label are not */
    ip[6] = PROTOCOL_UDP;
    memcpy(ip + 8, &from->sin6_addr, 16);
    memcpy(ip + 24, &to->sin6_addr, 16);
}

void icrc_flow_init(struct icrc_flow *flow, const struct soft_path *path, bool sent)
{
    const union soft_addr *from = sent ? &path->local : &path->remote;
    const union soft_addr *to = sent ? &path->remote : &path->local;
    uint8_t *udp;

    memset(flow->head, MASKED, sizeof flow->head);
    if (to->sa.sa_family == AF_INET) {
        put_ipv4(flow->head + LINK_SIZE, &from->in, &to->in);
        flow->ip = 20;
    } else {
        put_ipv6(flow->head + LINK_SIZE, &from->in6, &to->in6);
        flow->ip = 40;
    }
    udp = flow->head + LINK_SIZE + flow->ip;
    /* The port is at the same offset in both kinds of address. */
    memcpy(udp, &from->in.sin_port, 2);
    memcpy(udp + 2, &to->in.sin_port, 2);
    flow->size = (uint8_t)(LINK_SIZE + flow->ip + UDP_SIZE);
    for (unsigned i = 0; i < ICRC_KNOWN; i++)
        flow->known[i].packet = 0;
}

static uint32_t headers_crc(struct icrc_flow *flow, unsigned id, size_t length)
{
    unsigned datagram = (unsigned)(UDP_SIZE + length + ICRC_SIZE);
    uint8_t *ip = flow->head + LINK_SIZE;

    if (flow->ip == 20) {
        put16(ip + 2, flow->ip + datagram);
        put16(ip + 4, id);
    } else {
        put16(ip + 4, datagram);
    }
    put16(ip + flow->ip + 4, datagram);
    return libdeflate_crc32(0, flow->head, flow->size);
}

static uint64_t length_and_id(unsigned id, size_t length)
{
    return (uint64_t)length << 32 | id;
}

static __attribute__((noinline)) uint32_t compute_apart(struct icrc_flow *flow, unsigned id,
                                                        const uint8_t *packet, size_t length)
{
    uint32_t crc = headers_crc(flow, id, length);
    uint8_t bth[BTH_SIZE];

    flow->known[id % ICRC_KNOWN].crc = crc;
    flow->known[id % ICRC_KNOWN].packet = length_and_id(id, length);
    memcpy(bth, packet, BTH_SIZE);
    bth[BTH_MARKS] = MASKED;
    crc = libdeflate_crc32(crc, bth, BTH_SIZE);
    return libdeflate_crc32(crc, packet + BTH_SIZE, length - BTH_SIZE);
}

/* Usually the headers' CRC is cached and no switch has set a mark: then one pass over the packet suffices. */
uint32_t icrc_compute(struct icrc_flow *flow, unsigned id, const uint8_t *packet, size_t length)
{
    const unsigned place = id % ICRC_KNOWN;

    if (flow->known[place].packet != length_and_id(id, length) || packet[BTH_MARKS] != 0)
        return compute_apart(flow, id, packet, length);
    return libdeflate_crc32(flow->known[place].crc ^ MARKS_MASKED, packet, length);
}

/* The CRC, from the identification on, of a packet that is all zero but for identification `id`. */
static uint32_t bare_crc(unsigned id, size_t length)
{
    static const uint8_t zeros[4096];
    const uint8_t field[2] = {(uint8_t)(id >> 8), (uint8_t)id};
    size_t left = 20 - 6 + UDP_SIZE + length;
    uint32_t crc = libdeflate_crc32(0, field, sizeof field);

    while (left > 0) {
        size_t piece = left < sizeof zeros ? left : sizeof zeros;

        crc = libdeflate_crc32(crc, zeros, piece);
        left -= piece;
    }
    return crc;
}

/* The CRC is linear: the difference of several bits is the exclusive or of the differences of each. */
static void shift_fill(struct icrc_shift *shift, size_t length)
{
    uint32_t zero = bare_crc(0, length);

    shift->length = length;
    shift->by[0] = 0;
    for (unsigned id = 1; id < ICRC_IDS; id++) {
        unsigned rest = id & (id - 1);

        shift->by[id] = rest == 0 ? bare_crc(id, length) ^ zero : shift->by[rest] ^ shift->by[id ^ rest];
    }
}

bool icrc_other_id(struct icrc_shift *shift, size_t length, uint32_t difference)
{
    if (shift->length != length)
        shift_fill(shift, length);
    for (unsigned x = 0; x < ICRC_IDS; x++) {
        if (shift->by[x] == difference)
            return true;
    }
    return false;
}
