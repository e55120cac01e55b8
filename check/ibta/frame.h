/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h - what stands around a RoCEv2 packet: its IPv4 and UDP headers, as far as the invariant CRC covers
 * them.
 *
 * The tester computes that check by itself, from headers written out in full, and not by the device's code.
 */
#ifndef IBTA_FRAME_H
#define IBTA_FRAME_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_CHECK 4   /* bytes of the check behind a packet */
#define FRAME_MAX 4400  /* bytes of a packet, from the BTH to the check */
#define FRAME_DF 0x4000 /* don't fragment, of `fragment` */
#define FRAME_ANY_ID                                                                                           \
    0x10000 /* the receiver could not see the identification: any that a burst's packet may have */

/* One direction between two ends. Plain data, its holder's; all but id and fragment in network byte order. */
struct frame {
    struct in_addr from, to;
    in_port_t from_port, to_port;
    uint32_t id; /* identification, or FRAME_ANY_ID */
    uint16_t fragment;
};

/* The check of a packet of `length` bytes from the BTH on, as the number whose least byte is sent first. */
uint32_t frame_check(const struct frame *frame, const uint8_t *packet, size_t length);
/* Puts the check behind the packet. */
void frame_seal(const struct frame *frame, uint8_t *packet, size_t length);
/* Is the check behind a packet of `length` bytes (without it) the right one? */
bool frame_is_sealed(const struct frame *frame, const uint8_t *packet, size_t length);

#endif
