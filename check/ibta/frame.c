/* SPDX-License-Identifier: BSD-2-Clause */
/* frame.c - computes the invariant CRC (ICRC): over complete headers, with all ones in the fields that a router may
 * change. */
#include <libdeflate.h>
#include <string.h>
#include "frame.h"

#define LINK 8 /* bytes of ones in place of InfiniBand's link header */
#define IPV4 20
#define UDP 8
#define IDS 64 /* identifications to try; a burst has fewer packets */

static uint8_t *put16(uint8_t *to, unsigned value)
{
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
    return to + 2;
}

static uint8_t *put_ipv4(uint8_t *to, const struct frame *frame, size_t length)
{
    to = put16(to, 0x45ff); /* variant: type of service */
    to = put16(to, (unsigned)(IPV4 + UDP + length + FRAME_CHECK));
    to = put16(to, frame->id & 0xffff);
    to = put16(to, frame->fragment);
    to = put16(to, 0xff00 | IPPROTO_UDP); /* variant: time to live */
    to = put16(to, 0xffff);               /* variant: checksum */
    memcpy(to, &frame->from, 4);
    memcpy(to + 4, &frame->to, 4);
    return to + 8;
}

static uint8_t *put_udp(uint8_t *to, const struct frame *frame, size_t length)
{
    memcpy(to, &frame->from_port, 2);
    memcpy(to + 2, &frame->to_port, 2);
    put16(to + 4, (unsigned)(UDP + length + FRAME_CHECK));
    put16(to + 6, 0xffff);
    return to + UDP;
}

uint32_t frame_check(const struct frame *frame, const uint8_t *packet, size_t length)
{
    uint8_t covered[LINK + IPV4 + UDP + FRAME_MAX];
    uint8_t *at = covered;

    memset(at, 0xff, LINK);
    at = put_ipv4(at + LINK, frame, length);
    at = put_udp(at, frame, length);
    memcpy(at, packet, length);
    at[4] = 0xff; /* variant: congestion marks */
    return libdeflate_crc32(0, covered, (size_t)(at - covered) + length);
}

void frame_seal(const struct frame *frame, uint8_t *packet, size_t length)
{
    uint32_t check = frame_check(frame, packet, length);

    for (int i = 0; i < FRAME_CHECK; i++)
        packet[length + (size_t)i] = (uint8_t)(check >> 8 * i);
}

bool frame_is_sealed(const struct frame *frame, const uint8_t *packet, size_t length)
{
    struct frame tried = *frame;
    uint32_t last = frame->id, check = 0;

    for (int i = FRAME_CHECK; i-- > 0;)
        check = check << 8 | packet[length + (size_t)i];
    if (frame->id == FRAME_ANY_ID) {
        tried.id = 0;
        last = IDS - 1;
    }
    for (; tried.id <= last; tried.id++)
        if (frame_check(&tried, packet, length) == check)
            return true;
    return false;
}
